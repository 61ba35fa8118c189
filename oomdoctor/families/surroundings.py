"""What stands around an event: the lines before and after it, and the traceback that it ends."""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import TypeVar

from msgspec.structs import replace

from oomdoctor.families.event import Event, Frame, Surroundings
from oomdoctor.families.frames import (
    EXCEPTION,
    EXCERPT,
    frames,
    frames_behind,
    is_exception,
    of_traceback,
    unfinished,
    waits,
)
from oomdoctor.families.native_frames import native_frames
from oomdoctor.patterns import late
from oomdoctor.streams import Mark, Page

_Event = TypeVar("_Event", bound=Event)

BEFORE = 60
AFTER = 40
# A traceback of thirty frames, each with its code and its carets, chained once
TRACEBACK = 240
REACH = 4 * TRACEBACK  # where other writers' lines stand in between
# The first lines of a log, where its title stands
FIRST = 3
# Stamps of one form that have to go back in time, and lines that are searched for them
STAMPS = 3
STAMPED_LINES = 400
CHARACTERS = 600
# A bar has no line of its own where its program was killed: the first line of the report on that is glued to it
_BAR = late(r"(?<!\d)\d{1,3}%(?: Completed)? ?\|")


# Who reports in a journal that a unit's process was killed, and how the unit stands in its line
_MANAGERS = ("systemd", "systemd-oomd")
_UNIT = late(r"(?:^|/)([\w.\\-]{1,80})(?:@[\w.:\\-]{0,80})?\.service\b")
_OF_KILLS = ("kernel", "killers")


class Neighbourhood:
    """The surroundings of the events of one page; what all of them ask for is looked up once."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._of_tracebacks: list[int] | None = None  # indexes of the lines that show one
        self._newest_first: bool | None = None

    def of(self, event: _Event, index: int) -> _Event:
        """The event that was read at the index, with what stands around it."""
        around = self.around(index, inside=event.in_traceback)
        if own := self._of_the_dead(event, index):
            around = replace(around, before=tuple(own[-BEFORE:]))
        began = self._page.lines[index]
        if event.at.line > began.number and _BAR.search(began.text[:CHARACTERS]) is not None:
            around = replace(around, before=(*around.before, began.text)[-BEFORE:])
        return replace(event, around=around)

    def around(self, index: int, *, inside: bool = False) -> Surroundings:
        """What stands around the event at the index; `inside` says that it is a line of its own traceback."""
        page = self._page
        shown = self._shows_traceback(index)
        before = page.before(index, TRACEBACK if shown else BEFORE, REACH)
        after = page.after(index, AFTER)[1:]
        text = page.lines[index].text
        if inside:
            trace = frames([*before, page.lines[index], *after])
        else:
            trace = frames(before if shown else before[-EXCERPT:], text)
            trace += frames_behind(text, after) if waits(trace) else ()
            trace = trace or native_frames(text, after)
        earlier = tuple([line.text for line in before[-BEFORE:]])
        held_back = tuple([line.text for line in before[-BEFORE:] if line.mark.repeated])
        later = tuple([line.text for line in after])
        below = tuple([line.text for line in page.lines[index + 1 : index + 1 + AFTER]])
        if self._is_newest_first():
            earlier, later, below = later[::-1], earlier[::-1], earlier[::-1]
        cut = () if trace else self._cut_below(index)
        time = next((line.mark.time for line in reversed(before) if line.mark.time), None)
        next_time = next((line.mark.time for line in after if line.mark.time), None)
        return Surroundings(
            before=earlier,
            held_back=held_back,
            after=later,
            below=below,
            trace=trace or cut,
            cut=inside or bool(cut),
            time=time,
            later=next_time,
        )

    def _of_the_dead(self, event: Event, index: int) -> list[str]:
        """What a journal keeps above the report of a kill of the one that was killed, by its pid or its unit's name, in
        its place among the reporter's own lines; nothing where that is not told apart."""
        line, pid = self._page.lines[index], event.process.pid
        named = _UNIT.search(line.text[:CHARACTERS]) if line.mark.name in _MANAGERS else None
        unit = named[1] if named is not None else None
        if unit is None and (pid is None or line.mark.host is None or event.family not in _OF_KILLS):
            return []
        above = self._page.lines[max(0, index - REACH) : index]
        own = {one.writer for one in above if one.mark.host == line.mark.host and _is_of(one.mark, unit, pid)}
        return [one.text for one in above if one.writer in {*own, line.writer}] if own else []

    def _is_newest_first(self) -> bool:
        """Whether the times on this page go back: some web viewers export a log so."""
        if self._newest_first is None:
            times: dict[int, list[str]] = {}  # by the stamp's form
            for line in self._page.lines[:STAMPED_LINES]:
                if line.mark.time:
                    times.setdefault(len(line.mark.time), []).append(line.mark.time)
            back = all(a >= b for stamps in times.values() for a, b in pairwise(stamps))
            self._newest_first = back and any(len(set(stamps)) >= STAMPS for stamps in times.values())
        return self._newest_first

    def _cut_below(self, index: int) -> tuple[Frame, ...]:
        """The traceback at the end of a log whose title is its message: it is cut before the message itself."""
        lines, end = self._page.lines, self._page.once(unfinished)
        if end is None or lines[0].number > 1 or index >= FIRST or not EXCEPTION.search(lines[index].text):
            return ()
        between = lines[index + 1 : end.first]
        if len(between) > TRACEBACK or any(is_exception(line.text) for line in between):
            return ()
        return frames(lines[end.first : end.last + 1])

    def _shows_traceback(self, index: int) -> bool:
        """Whether any of the lines that can be looked at before the index does."""
        if self._of_tracebacks is None:
            self._of_tracebacks = [i for i, line in enumerate(self._page.lines) if of_traceback(line.text)]
        position = bisect_left(self._of_tracebacks, index)
        return position > 0 and self._of_tracebacks[position - 1] >= index - REACH


def _is_of(mark: Mark, unit: str | None, pid: int | None) -> bool:
    return mark.name is not None and (mark.name == unit or (pid is not None and mark.pid == pid))
