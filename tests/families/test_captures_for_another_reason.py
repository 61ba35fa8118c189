"""A capture of CUDA graphs that failed for no lack of memory: what it is called, and who is to be read instead."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.families.peer import LostPeer
from oomdoctor.streams import page

PAIR = "Exception: Capture cuda graph failed: [../third_party/gloo/gloo/transport/tcp/pair.cc:77] "
FAILED = "Exception: Capture cuda graph failed: mat1 and mat2 must have the same dtype"
SOLUTIONS = ("Possible solutions:", "1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)")


def read(*lines: str) -> tuple[list[Event], list[str]]:
    found = list(families.read(page("job.log", 1, "\n".join(lines).encode() + b"\n")))
    return [one for one in found if isinstance(one, Event)], [one.why for one in found if isinstance(one, Lookalike)]


def test_advice_is_named_only_where_it_is_printed() -> None:
    _, with_it = read(FAILED, *SOLUTIONS)
    _, without = read(FAILED)
    assert with_it[0] == "graph capture failed for another reason; the advice below is always printed"
    assert without == ["graph capture failed for another reason"]


@pytest.mark.parametrize("end", ["Connection closed by peer [10.9.8.7]:41", "Connection clos", "Connection c"])
def test_a_peer_that_has_gone_is_told_of_once_also_where_the_log_ends_within_the_word(end: str) -> None:
    events, whys = read(PAIR + end)
    assert [one.said for one in events if isinstance(one, LostPeer)] == ["connection"]
    assert whys == []


@pytest.mark.parametrize("end", ["Connection cannot be made", "Connection clone failed", "Connection", "listen failed"])
def test_other_words_of_the_transport_tell_of_no_peer(end: str) -> None:
    events, whys = read(PAIR + end)
    assert not [one for one in events if isinstance(one, LostPeer)]
    assert whys == ["graph capture failed for another reason"]
