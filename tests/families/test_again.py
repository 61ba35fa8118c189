"""What a page repeats is read now and then; what it says in other words is always read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from oomdoctor import families, streams
from oomdoctor.families.again import LAST, OFTEN, Again
from oomdoctor.families.event import Event
from oomdoctor.reading import Reading
from oomdoctor.sources import Source
from oomdoctor.streams import Page

TABLE = """
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:00
  host      : node-7
  rank      : 3 (local_rank: 3)
  exitcode  : -9 (pid: 4711)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 4711
============================================================
"""


def page(text: str) -> Page:
    return streams.page("job.log", 1, text.encode())


def read(again: Again, text: str, times: int) -> list[int]:
    return [place for place in range(1, times + 1) if again.worth(text)]


@pytest.mark.parametrize("times", [1, OFTEN, 2 * OFTEN])
def test_what_is_said_a_hundred_times_is_read_each_time(times: int) -> None:
    assert len(read(Again(["Killed"] * times), "Killed", times)) == times


def test_the_places_read_stand_further_and_further_apart_and_close_at_the_end() -> None:
    times = 100_000
    places = read(Again(["Killed"] * times), "Killed", times)
    assert places[: 2 * OFTEN] == list(range(1, 2 * OFTEN + 1))
    assert places[-LAST:] == list(range(times - LAST + 1, times + 1))
    apart = [later - before for before, later in pairwise(places)]
    assert apart[: -LAST - 1] == sorted(apart[: -LAST - 1])
    assert len(places) < 12 * OFTEN


def test_other_words_among_them_are_read() -> None:
    again = Again(["Killed"] * 1000 + ["Killed (core dumped)"])
    read(again, "Killed", 999)
    assert again.worth("Killed (core dumped)")


def test_one_kill_among_a_thousand_other_ends_is_found() -> None:
    ends = ["subprocess exited with code 1"] * 500
    text = "\n".join([*ends, "subprocess exited with code 137", *ends, ""])
    kills = [found for found in families.read(page(text)) if isinstance(found, Event) and found.strength == 1]
    assert [kill.at.line for kill in kills] == [501]


def test_what_was_not_read_is_counted() -> None:
    lines = page("Killed\n" * 1000)
    found = list(families.read(lines))
    assert 2 * OFTEN < len(found) < 1000
    assert len(found) + lines.left_out["Killed"] == 1000


def test_of_a_message_that_repeats_no_line_is_read_alone() -> None:
    """Its second line is as frequent as its first: neither stands for a message of its own."""
    once = {found.identity() for found in families.read(page(TABLE)) if isinstance(found, Event)}
    lines = page(TABLE * 400)
    often = {found.identity() for found in families.read(lines) if isinstance(found, Event)}
    assert once
    assert often == once
    assert sum(lines.left_out.values()) > 100


def test_a_note_says_so(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("Killed\n" * 1000)
    source = Source("job.log", log)
    Reading().add(source)
    (note,) = source.notes
    assert note.startswith('job.log: "Killed" stands in it so often that ')
    assert note.endswith(" places were not read")


def test_a_healthy_log_that_repeats_itself_has_no_note(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("torchrun: exit code 0, restart policy died away\n" * 1000)
    source = Source("job.log", log)
    Reading().add(source)
    assert source.notes == []
