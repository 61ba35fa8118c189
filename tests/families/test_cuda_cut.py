"""The allocator's sentence where a paste ends in the middle of it: whole figures stay figures."""

from __future__ import annotations

import pytest

from oomdoctor.families import cuda
from oomdoctor.units import GIB, MIB

NEW = "CUDA out of memory. Tried to allocate 448.00 MiB. GPU 7 has a total capacity of {}"
OLD = "CUDA out of memory. Tried to allocate 64.00 MiB (GPU 0; 21.99 GiB total capacity; 20.68 GiB {}"


def figures(text: str) -> dict[str, int]:
    found, _, _ = cuda._figures(text)
    return found


@pytest.mark.parametrize(
    ("end", "total"),
    [
        ("95.00", 95 * GIB),
        ("95.00 GiB", 95 * GIB),
        ("95.00 GiB of which 13.00 MiB is free", 95 * GIB),
        ("95.0", None),  # a digit may be missing
        ("95", None),
        ("95.00 of which", None),
    ],
)
def test_a_capacity_without_its_unit_at_the_end(end: str, total: int | None) -> None:
    assert figures(NEW.format(end)).get("total_bytes") == total


@pytest.mark.parametrize(
    ("end", "is_read"),
    [("already allocated; 1.0", True), ("already allocate", True), ("already alloc", True), ("already", False)],
)
def test_words_that_are_cut_behind_their_figure(end: str, *, is_read: bool) -> None:
    found = figures(OLD.format(end))
    assert found["total_bytes"] == round(21.99 * GIB)
    assert (found.get("allocated_bytes") == round(20.68 * GIB)) is is_read
    assert found["tried_bytes"] == 64 * MIB
