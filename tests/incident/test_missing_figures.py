"""A figure that a message does not print is missing in all that is derived from it: nothing is taken for zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose

# The parts of the allocators' sentences, each of which some version leaves out
OLD = {
    "total": "79.15 GiB total capacity; ",
    "allocated": "60.00 GiB already allocated; ",
    "free": "11.00 GiB free; ",
    "reserved": "66.00 GiB reserved in total by PyTorch",
}
NEW = {
    "total": "GPU 0 has a total capacity of 79.15 GiB ",
    "free": "of which 11.00 GiB is free. ",
    "own": "Including non-PyTorch memory, this process has 68.00 GiB memory in use. ",
    "allocated": "Of the allocated memory 60.00 GiB is allocated by PyTorch, ",
    "unallocated": "and 6.00 GiB is reserved by PyTorch but unallocated.",
}


def old(*missing: str) -> str:
    parts = "".join(words for name, words in OLD.items() if name not in missing)
    return f"RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; {parts.rstrip('; ')})\n"


def new(*missing: str) -> str:
    parts = "".join(words for name, words in NEW.items() if name not in missing)
    return f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {parts}\n"


def reported(log: str, folder: Path) -> dict[str, Any]:
    path = folder / "job.log"
    path.write_text(log)
    (found,) = diagnose(path).as_json()["incidents"]
    return dict(found)


def rows(log: str, folder: Path) -> dict[str, float]:
    """The rows of the card's table, in GiB."""
    return {
        row["what"]: round(row["bytes"] / 1024**3, 2)
        for ledger in reported(log, folder)["ledger"]
        for row in ledger["rows"]
    }


def test_the_whole_sentences_add_up(tmp_path: Path) -> None:
    assert rows(old(), tmp_path) == {
        "outside PyTorch, and other processes": 2.15,
        "live tensors": 60.0,
        "reserved but unallocated": 6.0,
        "free": 11.0,
    }
    assert rows(new(), tmp_path) == {
        "processes the driver does not list": 0.15,
        "this process outside PyTorch": 2.0,
        "live tensors": 60.0,
        "reserved but unallocated": 6.0,
        "free": 11.0,
    }


@pytest.mark.parametrize(
    ("log", "left"),
    [
        (old("free"), {"live tensors", "reserved but unallocated"}),
        (old("reserved"), {"live tensors", "free"}),
        (old("allocated"), {"outside PyTorch, and other processes", "free"}),
        (old("free", "reserved"), {"live tensors"}),
        (new("free"), {"this process outside PyTorch", "live tensors", "reserved but unallocated"}),
        (new("allocated", "unallocated"), {"processes the driver does not list", "this process", "free"}),
        (new("own"), {"outside PyTorch, and other processes", "live tensors", "reserved but unallocated", "free"}),
    ],
    ids=lambda value: None if isinstance(value, str) else ", ".join(sorted(value)),
)
def test_what_follows_from_a_missing_figure_is_missing(log: str, left: set[str], tmp_path: Path) -> None:
    whole = rows(old(), tmp_path) | rows(new(), tmp_path)
    found = rows(log, tmp_path)
    assert found.keys() == left
    assert {what: size for what, size in found.items() if what in whole and size != whole[what]} == {}
