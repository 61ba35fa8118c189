"""The whole street: from inputs to a report. Each room imports only from the rooms before it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from oomdoctor import families, scan, streams
from oomdoctor.families.event import Read
from oomdoctor.incident import context, trajectory
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.context import ContextBuilder
from oomdoctor.incident.peers import died_elsewhere
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.report.build import build
from oomdoctor.report.contract import Report, Stats
from oomdoctor.scan import Slice
from oomdoctor.sources import Source, Trouble, gather
from oomdoctor.streams import Page

Progress = Callable[[int], None]  # called with the bytes read so far, of all logs


def pages(sources: Sequence[Source], progress: Progress | None = None) -> Iterator[tuple[Page, Slice]]:
    """The pages worth reading of all logs, one after the other, each with the slice it was cut from."""
    anchors = tuple(sorted({*families.anchors(), *(word.encode() for word in (*context.ANCHORS, *trajectory.ANCHORS))}))
    for source in sources:
        left_out: Counter[bytes] = Counter()
        for piece in scan.slices(_counted(source, sources, progress), anchors, ends=source.ends, left_out=left_out):
            yield streams.page(source.name, piece.first_line, piece.data), piece
        source.notes += [
            f'{source.name}: "{anchor.decode()}" stands in it so often that {count:,} places were not read'
            for anchor, count in sorted(left_out.items())
        ]


def _counted(source: Source, sources: Sequence[Source], progress: Progress | None) -> Iterator[bytes]:
    for block in source.blocks():
        if progress is not None:
            progress(sum(s.size for s in sources))
        yield block


def read(sources: Sequence[Source]) -> Iterator[Read]:
    """Every event and lookalike of the logs."""
    for page, piece in pages(sources):
        yield from (found for found in families.read(page) if piece.owns(found.at.line))


def diagnose(*paths: str | os.PathLike[str], absolute: bool = False, progress: Progress | None = None) -> Report:
    """The report on these logs: files, folders, or "-" for standard input. Several are one incident."""
    for path in paths:
        if not isinstance(path, str | os.PathLike):
            kind = type(path).__name__
            raise TypeError(f"a path is a str or an os.PathLike, not a {kind}; several are diagnose(*paths)")
    sources, troubles = gather([os.fspath(path) for path in paths], absolute=absolute)
    return report_on(sources, troubles, progress)


def report_on(sources: Sequence[Source], troubles: Sequence[Trouble], progress: Progress | None = None) -> Report:
    """The report on logs that are found already, and on what was met while they were looked for."""
    gathered = Gathered()
    job = ContextBuilder()
    memory = TrajectoryBuilder()
    for page, piece in pages(sources, progress):
        job.add(page)
        memory.add(page)
        for index, found in families.found_in(page):
            if piece.owns(found.at.line):
                gathered.add(found, index)
        gathered.look_around(page)
    facts = replace(job.build(), memory=memory.figures())
    found_crashes = crashes(gathered, facts, memory.build(), lambda file: replace(job.of(file), memory=facts.memory))
    elsewhere = None if found_crashes else died_elsewhere(gathered.events.values())
    return build(
        found_crashes,
        [*gathered.lookalikes.values(), *([elsewhere] if elsewhere else [])],
        facts,
        errors=[*troubles, *(trouble for source in sources for trouble in source.troubles)],
        notes=[note for source in sources for note in source.notes],
        stats=Stats(
            bytes=sum(source.size for source in sources),
            lines=None,
            files=len(sources),
            events=len(gathered.events),
        ),
    )


__all__ = ["Progress", "Report", "Source", "Trouble", "diagnose", "gather", "pages", "read", "report_on"]
