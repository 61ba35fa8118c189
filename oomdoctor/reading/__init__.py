"""What logs say, before anything is concluded of it. Readings of several logs join to the reading of all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct, field

from oomdoctor import families, scan, streams
from oomdoctor.families.event import Place
from oomdoctor.incident import trajectory
from oomdoctor.incident.assemble import Gathered
from oomdoctor.incident.trajectory import TrajectoryBuilder
from oomdoctor.job import context
from oomdoctor.job.context import ContextBuilder
from oomdoctor.language import say
from oomdoctor.reading.ending import ending
from oomdoctor.scan import Slice
from oomdoctor.sources import Source
from oomdoctor.streams import Page

Tell = Callable[[], None]  # called now and then, when a log's size says how much of it is read


class Reading(Struct):
    """Takes logs one by one, or what another process read of others; what it keeps is bounded, and can be pickled."""

    gathered: Gathered = field(default_factory=Gathered)
    job: ContextBuilder = field(default_factory=ContextBuilder)
    memory: TrajectoryBuilder = field(default_factory=TrajectoryBuilder)
    lines: int = 0
    beside: bool = False  # whether any log is there but what `oomdoctor run` recorded: the job's output, also if empty
    ending: Place | None = None  # the error that the first log with one ends with

    def add(self, source: Source, tell: Tell = lambda: None) -> None:
        """Take what this log says."""
        last = None
        for page, piece in pages(source, tell):
            last = page, piece
            self.job.add(page)
            self.beside = self.beside or _is_no_record(page)
            self.memory.add(page)
            for index, found in families.found_in(page):
                if piece.owns(found.at.line):
                    self.gathered.add(found, index)
            self.gathered.look_around(page)
        if last is not None:
            self.lines += last[1].last_line
            self.ending = self.ending or ending(last[0])
        else:
            self.beside = True
        if source.is_pickle:
            self.job.met(source.name)
        if source.is_pickle or source.is_timeline:
            from oomdoctor.families import memory_snapshot  # noqa: PLC0415  (few logs come with one)

            for event in memory_snapshot.events(source, tell):
                self.gathered.add(event)

    def join(self, later: Reading) -> None:
        """Take what was read of other logs, which come after these."""
        self.gathered.join(later.gathered)
        self.job.join(later.job)
        self.memory.join(later.memory)
        self.lines += later.lines
        self.beside = self.beside or later.beside
        self.ending = self.ending or later.ending


def _is_no_record(page: Page) -> bool:
    """Whether it holds a line that `oomdoctor run` does not record."""
    return any(line.text.strip() and not line.text.startswith(context.RECORD) for line in page.lines)


def anchors() -> tuple[bytes, ...]:
    """What makes a place of a log worth reading."""
    return tuple(sorted({*anchors_of_events(), *anchors_of_figures()}))


def anchors_of_events() -> tuple[bytes, ...]:
    """What makes a place worth reading for what happens there, and for what it says of the job."""
    return tuple(sorted({*families.anchors(), *(word.encode() for word in context.ANCHORS)}))


def anchors_of_figures() -> tuple[bytes, ...]:
    """What makes a place worth reading for a figure that is printed again and again."""
    return tuple(sorted(word.encode() for word in trajectory.ANCHORS))


def pages(source: Source, tell: Tell = lambda: None) -> Iterator[tuple[Page, Slice]]:
    """The pages of a log that are worth reading, each with the slice it was cut from."""
    left_out: Counter[bytes] = Counter()
    blocks, figures = _counted(source, tell), anchors_of_figures()
    pieces = scan.slices(blocks, anchors(), ends=source.ends, left_out=left_out, figures=figures)
    for piece, is_last in _with_last(pieces):
        page = streams.page(source.name, piece.first_line, piece.data, ends=is_last and source.ends)
        yield page, piece
        left_out.update({words.encode(): count for words, count in page.left_out.items()})
    source.notes += [
        say(
            '{file}: "{words}" stands in it so often that {count} places were not read',
            file=source.name,
            words=anchor.decode(),
            count=f"{count:,}",
        )
        for anchor, count in sorted(left_out.items())
    ]


def _with_last(pieces: Iterable[Slice]) -> Iterator[tuple[Slice, bool]]:
    waiting: Slice | None = None
    for piece in pieces:
        if waiting is not None:
            yield waiting, False
        waiting = piece
    if waiting is not None:
        yield waiting, True


def _counted(source: Source, tell: Tell) -> Iterator[bytes]:
    for block in source.blocks():
        tell()
        yield block
