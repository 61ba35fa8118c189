"""The whole street: from inputs to a report. Each room imports only from the rooms before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomdoctor import families, scan, streams
from oomdoctor.families.event import Read
from oomdoctor.sources import Source, gather


def read(sources: Sequence[Source]) -> Iterator[Read]:
    for source in sources:
        for piece in scan.slices(source.blocks(), families.anchors()):
            yield from families.read(streams.page(source.name, piece.first_line, piece.data))


__all__ = ["gather", "read"]
