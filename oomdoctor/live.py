"""A log that is still being written: read as it comes, in bounded memory, and judged when a failure in it is whole.

What is further back than the longest message is read for good, stretch by stretch, and let go. The end of the log is
read again each time that something may have failed, as if the log stopped there, and nothing of that is kept.
A failure is whole when nothing more is written for a moment, when enough is written behind it, or after a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from oomdoctor import families, scan, streams
from oomdoctor.incident.assemble import Gathered
from oomdoctor.incident.climb import Climbs
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.job.context import ContextBuilder
from oomdoctor.reading import Reading, anchors, anchors_of_events, anchors_of_figures
from oomdoctor.report.contract import Incident, Report
from oomdoctor.scan import AFTER, BEFORE, CHUNK, SMALL, Slice
from oomdoctor.streams import Page
from oomdoctor.street import concluded, report_of

SILENCE_S: Final = 2.0  # a traceback is written in one go; ranks and the launcher follow each other faster
BETWEEN_LOOKS_S: Final = 0.25
LONGEST_S: Final = 10.0  # after its first words, where the other processes never stop writing
BETWEEN_CLIMBS_S: Final = 5.0
SLOW: Final = 64 * 1024  # bytes between two looks that are all looked through for figures

# What comes so much later is no part of the failure before it: cascades, restarts and launchers have had their say.
NEXT_FAILURE_S: Final = 600.0
NEXT_FAILURE_BYTES: Final = 8 * CHUNK

_SEAM: Final = 256  # bytes looked at again, in which an anchor may begin


class Live:
    """One log, and what it has said so far. Time is what the caller says it is, in seconds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.bytes = 0
        self._file = name  # and its number, from the second file of that name on
        self._files = 1
        self._lines_before = 0  # of its earlier files
        self._gathered = Gathered()
        self._job = ContextBuilder()
        self._memory = TrajectoryBuilder()
        self._climbs = Climbs()
        self._last_s = 0.0  # when something came
        self._looked_s = -BETWEEN_LOOKS_S
        self._asked_s = 0.0  # when it was last looked for what climbs
        self._suspect_s: float | None = None  # since when something may have failed
        self._unread = False  # whether something came since the end was read
        self._told: set[tuple[str, str]] = set()  # of the failure at hand
        self._told_s: float | None = None  # when something new was told of it
        self._told_at = 0
        self._open()

    def _open(self) -> None:
        """Nothing of the file is read yet."""
        self._held = b""
        self._first = 1  # the number of the line that begins what is held
        self._own, self._own_at = 1, 0  # what stands before is read for good: its line, its offset in what is held
        self._measured, self._measured_at = 1, 0  # the same of the figures that the log prints again and again
        self._looked_at = 0  # up to where it was looked for anchors
        self._at_head = True

    def take(self, block: bytes, now: float) -> Report | None:
        """The next bytes; a report where a failure in them lies so far back that it is whole."""
        block = block.replace(b"\0", b"")
        self._held += block
        self.bytes += len(block)
        self._last_s = now
        self._unread = True
        found = None
        while len(self._held) - self._own_at >= CHUNK + AFTER:
            self._part(now)
            found = self._settle(len(self._held) - AFTER) or found
        return self._fresh(found, now)

    def look(self, now: float) -> Report | None:
        """Where nothing more is to be had at the moment: a report, where a failure has become whole."""
        if now - self._looked_s < BETWEEN_LOOKS_S:
            return None
        self._looked_s = now
        self._measure()
        if self._suspect_s is None and self._has_anchor():
            self._suspect_s = now
        self._looked_at = len(self._held)
        self._part(now)
        silent = now - self._last_s >= SILENCE_S
        waited = self._suspect_s is not None and now - self._suspect_s >= LONGEST_S
        if not self._unread or not (silent or waited):
            return None
        self._suspect_s = None
        self._unread = not silent
        return self._fresh(self._conclude(ends=False), now)

    def climbs(self, now: float, *, at_the_end: bool = False) -> list[str]:
        """What is to be said of memory that grows; each thing once, and again when it has become worse."""
        if not at_the_end and (now - self._asked_s < BETWEEN_CLIMBS_S or self._last_s < self._asked_s):
            return []
        self._asked_s = now
        return self._climbs.of(self._memory.build(), self._job.build())

    def rotated(self, now: float) -> Report | None:
        """Another file has taken the log's name: its lines are counted anew."""
        found = self._settle(len(self._held), to_the_end=True)
        self._files += 1
        self._file = f"{self.name}@{self._files}"
        self._lines_before += self._line(len(self._held)) - self._held.endswith(b"\n")
        self._open()
        return self._fresh(found, now)

    def end(self, now: float, *, ends: bool) -> Report | None:
        """Nothing more comes; `ends` says that the log is over, and not only the watching of it."""
        self._measure(to_the_end=ends)
        return self._fresh(self._conclude(ends=ends), now)

    def _settle(self, end: int, *, to_the_end: bool = False) -> Gathered | None:
        """Read for good what stands before the offset; what was gathered, where that holds a failure."""
        border = end if to_the_end else self._held.rfind(b"\n", 0, end) + 1
        if border <= self._own_at:
            if end - self._own_at <= BEFORE:
                return None
            border = end  # one huge line, which is cut where it stands
        own_to = self._line(border) + (not self._held.endswith(b"\n", 0, border))
        known = len(self._gathered.events)
        self._measure()
        for page, own_from, to in self._pages(ends=self._at_head or to_the_end):
            self._job.add(page)
            self._gather(self._gathered, page, own_from, min(to, own_to))
        self._at_head = False
        self._own, self._own_at = own_to, border
        if own_to > self._measured:
            self._measured, self._measured_at = own_to, border
        self._let_go(max(0, border - BEFORE))
        return self._gathered.copy() if len(self._gathered.events) != known and _fails(self._gathered) else None

    def _let_go(self, before: int) -> None:
        """Keep of what is read what a message behind it may ask for, from the beginning of a line on."""
        start = self._held.rfind(b"\n", 0, before) + 1
        if before - start > BEFORE:
            start = before
        self._first = self._line(start)
        self._held = self._held[start:]
        self._own_at -= start
        self._measured_at -= start
        self._looked_at = max(0, self._looked_at - start)

    def _conclude(self, *, ends: bool) -> Gathered | None:
        """What was gathered, if the log stopped here and a failure is among it."""
        now = self._gathered.copy()
        pages = list(self._pages(ends=True))
        for number, (page, own_from, own_to) in enumerate(pages, start=1):
            page.ends = ends and number == len(pages)
            self._job.add(page)
            self._gather(now, page, own_from, own_to)
        return now if _fails(now) else None

    def _pages(self, *, ends: bool) -> Iterator[tuple[Page, int, int]]:
        """What is worth reading of what is held, each page with the lines that are its own."""
        for piece in scan.slices([self._held], anchors_of_events(), ends=ends):
            page = streams.page(self._file, self._first + piece.first_line - 1, piece.data, ends=False)
            own_to = min(piece.own_to + self._first - 1, self._line(len(self._held)) + 1)
            yield page, max(self._own, piece.own_from + self._first - 1), own_to

    def _gather(self, gathered: Gathered, page: Page, own_from: int, own_to: int) -> None:
        for index, found in families.found_in(page):
            if own_from <= found.at.line < own_to:
                gathered.add(found, index)
        gathered.look_around(page)

    def _measure(self, *, to_the_end: bool = False) -> None:
        """Take what the lines that have come since say of the job, as far as they are whole."""
        end = len(self._held) if to_the_end else self._held.rfind(b"\n") + 1
        if end <= self._measured_at:
            return
        data = self._held[self._measured_at : end]
        own_to = self._measured + data.count(b"\n") + (not data.endswith(b"\n"))
        for piece in _worth_measuring(data):
            first = self._measured + piece.first_line - 1
            page = streams.page(self._file, first, piece.data, ends=False)
            self._job.add(page)
            self._take_figures(page, own_to, first)
        self._measured, self._measured_at = own_to, end

    def _take_figures(self, page: Page, own_to: int, own_from: int = 1) -> None:
        """One name for all files of the log, and its lines counted on: the figures go on where it was rotated."""
        least = max(self._measured, own_from)
        lines = [line for line in page.lines if least <= line.number < own_to]
        if before := self._lines_before:
            lines = [replace(line, number=line.number + before, end=line.end + before) for line in lines]
        self._memory.add(Page(self.name, lines, ends=False))

    def _has_anchor(self) -> bool:
        new = self._held[max(0, self._looked_at - _SEAM) :]
        return len(new) > SMALL or next(scan.slices([new], families.anchors(), ends=False), None) is not None

    def _fresh(self, found: Gathered | None, now: float) -> Report | None:
        """The report with what was not told yet; nothing, where all was."""
        if found is None:
            return None
        report = report_of(concluded(Reading(found, self._job, self._memory, beside=True), bytes_read=self.bytes))
        new = [incident for incident in report.incidents if _answer(incident) not in self._told]
        if not new:
            return None
        self._told.update(map(_answer, new))
        self._told_s, self._told_at = now, self.bytes
        return replace(report, incidents=tuple(new), verdict=new[0].verdict)

    def _part(self, now: float) -> None:
        """Let a failure go that is long told: the next one is another."""
        if self._told_s is None:
            return
        if now - self._told_s > NEXT_FAILURE_S or self.bytes - self._told_at > NEXT_FAILURE_BYTES:
            self._settle(len(self._held))  # or the end of the log would tell of it again
            self._gathered = self._gathered.without_failures()
            self._told.clear()
            self._told_s = None

    def _line(self, offset: int) -> int:
        """The number of the line that the offset into what is held lies in."""
        return self._first + self._held.count(b"\n", 0, offset)


def _worth_measuring(data: bytes) -> Iterator[Slice]:
    """All of what comes slowly; where much comes at once, some places that an anchor tells of figures in."""
    if len(data) <= SLOW:
        return scan.slices([data], anchors(), ends=True)
    figures = anchors_of_figures()
    return scan.slices([data], figures, ends=False, figures=figures, sparing=True)


def _fails(gathered: Gathered) -> bool:
    return any(event.role == "root" and event.strength >= 1 for event in gathered.events.values())


def _answer(incident: Incident) -> tuple[str, str]:
    return incident.verdict, incident.fingerprint
