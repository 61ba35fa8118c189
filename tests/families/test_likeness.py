from __future__ import annotations

import re

import pytest

from oomdoctor import families
from oomdoctor.families.likeness import CLOSEST, LONGEST, NO_FAILURE, WORDINGS, _near, likeness, wording
from oomdoctor.training import wordings
from oomdoctor.training.cases import FIXTURES

KNOWN = "RuntimeError: CUDA error: out of memory"
WANTED = (
    "torch.OutOfMemoryError: CUDA out of memory. Wanted to allocate 20.00 MiB. GPU 1 has a total capacity of 23.60 GiB "
    "of which 310.44 MiB is free. Including non-PyTorch memory, this process has 23.29 GiB memory in use. Of the "
    "allocated memory 22.71 GiB is allocated by PyTorch, and 181.20 MiB is reserved by PyTorch but unallocated."
)


@pytest.mark.parametrize(
    ("line", "family", "becomes"),
    [
        ("RuntimeError: CUDA error: short of memory", "cuda_error", KNOWN),
        ("RuntimeError: CUDA error: out of RAM", "cuda_error", KNOWN),
        ("RuntimeError: CUDA error: all out of memory", "cuda_error", KNOWN),
        (WANTED, "cuda", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 23.60 GiB"),
    ],
)
def test_a_message_but_for_a_word(line: str, family: str, becomes: str) -> None:
    found = likeness(line)
    assert found is not None
    assert found.family == family
    assert becomes in found.text


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: out of range",  # what ran out is another thing
        "RuntimeError: CUDA error: never out of memory",
        "RuntimeError: CUDA error: plenty of memory",
        "RuntimeError: CUDA error: nearly out of memory",
        "RuntimeError: simulated CUDA error: out of memory",
        "RuntimeError: CUDA error: unspecified launch failure",
        "PID\tMEM\tCOMMAND",  # no word says what it is about
        "ValueError: the memory of the past is out of date",
        "out of memory",  # too few words to be like anything
        "",
    ],
)
def test_another_meaning(line: str) -> None:
    assert likeness(line) is None


def test_no_figure_of_another_log_is_taken_over() -> None:
    """What would be put in between has a figure in the known message: then it is left alone."""
    known = "RuntimeError: DataLoader worker (pid 00) is killed by signal: Killed."
    assert known.partition(" (")[0] in WORDINGS.read_text(encoding="utf-8")
    found = likeness("RuntimeError: DataLoader worker is killed by signal: Killed.")
    assert found is None or "00" not in found.text


def test_the_nearest_messages_are_those_with_the_most_words_in_common() -> None:
    rows = [row for row in dict.fromkeys(WORDINGS.read_text(encoding="utf-8").splitlines()) if not row.startswith("#")]
    known = [wording(*row.split("\t", 1)) for row in rows]
    for line in (KNOWN, WANTED, "the py file of torch in the lib of python asked for memory"):
        given = set(wording("", line[:LONGEST]).words)
        most = sorted((len(given.intersection(one.words)) for one in known), reverse=True)[:CLOSEST]
        near = list(_near(tuple(wording("", line[:LONGEST]).words)))
        assert [len(given.intersection(one.words)) for one in near] == most
        assert len(set(near)) == CLOSEST


@pytest.mark.skipif(not FIXTURES.is_dir(), reason="the fixtures are not beside an installed package")
def test_the_known_wordings_are_those_of_the_fixtures() -> None:
    """Else: python -m oomdoctor.training.wordings"""
    assert WORDINGS.read_text(encoding="utf-8") == wordings.table()


def test_every_wording_names_a_family() -> None:
    rows = [line for line in WORDINGS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    named = {row.partition("\t")[0] for row in rows}
    assert named - {NO_FAILURE} <= {family.name for family in families.whole()}
    assert not any(re.search(r"[1-9]", row) for row in rows)
