"""The whole street: from inputs to a report. Each room imports only from the rooms before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from oomdoctor import families, scan, streams
from oomdoctor.families.event import Read
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.context import ContextBuilder
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.report.build import build
from oomdoctor.report.contract import Report, Stats
from oomdoctor.sources import Source, Trouble, gather
from oomdoctor.streams import Page

Progress = Callable[[int], None]


def pages(sources: Sequence[Source]) -> Iterator[Page]:
    """The pages worth reading of all logs, one after the other."""
    for source in sources:
        for piece in scan.slices(source.blocks(), families.anchors()):
            yield streams.page(source.name, piece.first_line, piece.data)


def read(sources: Sequence[Source]) -> Iterator[Read]:
    """Every event and lookalike of the logs."""
    for page in pages(sources):
        yield from families.read(page)


def diagnose(*paths: str, absolute: bool = False, progress: Progress | None = None) -> Report:
    """The report on these logs: files, folders, or "-" for standard input. Several are one incident."""
    sources, troubles = gather(paths)
    gathered = Gathered()
    context = ContextBuilder()
    trajectories = TrajectoryBuilder()
    for page in pages(sources):
        context.add(page)
        trajectories.add(page)
        for found in families.read(page):
            gathered.add(found)
    facts = context.build()
    found = crashes(gathered, facts, trajectories.build())
    stats = Stats(bytes=0, lines=None, files=len(sources), events=len(gathered.events))
    return build(found, gathered.lookalikes.values(), facts, troubles, (), stats)


__all__ = ["Progress", "Report", "Trouble", "diagnose", "pages", "read"]
