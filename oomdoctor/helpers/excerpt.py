"""The lines of a log that an issue needs: where the crash is printed, with some before and after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.contract import Incident, Report
from oomdoctor.sources import Source
from oomdoctor.text import disarm

BEFORE: Final = 30
AFTER: Final = 10
LONGEST_EVENT: Final = 60  # lines; a kernel's report has hundreds
LONGEST_LINE: Final = 1_500  # characters
LONGEST_READ: Final = 64 * 1024  # bytes of a line
MOST_EVENTS: Final = 12
_HALF: Final = late(r"[!-~]{1,400}\Z")
_ROLES: Final = ("root", "confirmation", "cascade")


class Line(Struct, frozen=True):
    file: str
    number: int
    text: str
    distance: int  # to the nearest line that an event stands on; 0 for these


def lines(report: Report, incident: Incident, sources: Sequence[Source]) -> tuple[Line, ...]:
    """Read again from the logs; from a pipe, which can be read once only, what the report keeps of it."""
    wanted = _wanted(report, incident)
    by_name = {source.name: source for source in sources if source.path is not None}
    return tuple(
        line
        for file, spans in wanted.items()
        for line in (_read(by_name[file], spans) if file in by_name else _kept(report, incident, file))
    )


def _wanted(report: Report, incident: Incident) -> dict[str, list[tuple[int, int]]]:
    """Per file the first and last lines of the events: what began the crash first, then what followed it."""
    known = {event.id: event for event in report.events}
    roles = {moment.event: moment.role for moment in incident.timeline}
    events = [known[name] for name in incident.events if roles.get(name) in _ROLES and name in known]
    events.sort(key=lambda event: _ROLES.index(roles[event.id]))
    wanted: dict[str, list[tuple[int, int]]] = {}
    for event in events[:MOST_EVENTS]:
        last = min(max(event.end_line, event.line), event.line + LONGEST_EVENT - 1)
        wanted.setdefault(event.file, []).append((event.line, last))
    return wanted


def _read(source: Source, spans: Sequence[tuple[int, int]]) -> Iterator[Line]:
    first, last = min(begin for begin, _ in spans) - BEFORE, max(end for _, end in spans) + AFTER
    for number, line in _numbered(source.blocks(), first, last):
        distance = min(_distance(number, span) for span in spans)
        if distance <= BEFORE:
            yield Line(source.name, number, _clean(line), distance)


def _distance(number: int, span: tuple[int, int]) -> int:
    """How far a line is from a span; lines after it count for more, so that fewer of them are wanted."""
    first, end = span
    return first - number if number < first else (number - end) * (BEFORE // AFTER) if number > end else 0


def _numbered(blocks: Iterable[bytes], first: int, last: int) -> Iterator[tuple[int, bytes]]:
    """Lines as `grep -n` numbers them; what lies before the first one wanted is only counted."""
    number, rest = 1, b""
    for block in blocks:
        ends = block.count(b"\n")
        if number + ends < first:
            number += ends
            continue
        *whole, rest = (rest + block).split(b"\n")
        rest = rest[:LONGEST_READ]
        for line in whole:
            yield number, line
            number += 1
            if number > last:
                return
    if rest:
        yield number, rest


def _clean(line: bytes) -> str:
    text = line[:LONGEST_READ].decode("utf-8", "replace").rstrip("\r")
    text = disarm(text.rpartition("\r")[2])  # what a progress bar was last overwritten with
    if len(text) <= LONGEST_LINE:
        return text
    return say("{text} [cut]", text=_HALF.sub("", text[:LONGEST_LINE]))  # what is cut may be half of a secret


def _kept(report: Report, incident: Incident, file: str) -> Iterator[Line]:
    for event in report.events:
        if event.file == file and event.id in incident.events and event.role in _ROLES:
            yield Line(file, event.line, event.text, 0)


def within(found: Sequence[Line], budget: int) -> str:
    """As many of the lines as fit, those nearest to the events first, gaps and files marked."""
    chosen: list[int] = []
    for index in sorted(range(len(found)), key=lambda index: found[index].distance):
        budget -= len(found[index].text) + 1
        if budget < 0:
            break
        chosen.append(index)
    return "\n".join(_marked([found[index] for index in sorted(chosen)]))


def _marked(chosen: Sequence[Line]) -> Iterator[str]:
    """Where each piece stands, as a line of its own before it."""
    for number, line in enumerate(chosen):
        before = chosen[number - 1] if number else None
        if before is None or (before.file, before.number + 1) != (line.file, line.number):
            yield say("[{file}, from line {number}]", file=line.file, number=line.number)
        yield line.text
