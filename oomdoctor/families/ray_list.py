"""`ray list nodes`, `workers`, `tasks` and `actors`: what the cluster remembers, also of processes that are gone.

Its cells are cut by the columns of the header: some are empty, and resources go on in the lines below.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

CHARACTERS: Final = 1200
ROWS: Final = 400
HEADER_WITHIN: Final = 12  # lines below the title
_KILLED: Final = {"EXIT_TYPE": "NODE_OUT_OF_MEMORY", "ERROR_TYPE": "OUT_OF_MEMORY"}
_TOLD_BY_THE_MONITOR: Final = "running low on memory"  # of these rows ray_kill tells


class ListedState(Event, frozen=True, kw_only=True):
    """One list: how many rows it has, and whose state or exit is an end."""

    family = "ray_list"
    kind = "listed-state"

    role: Role = "context"

    listed: str  # "node", "worker", "task", "actor"
    count: int  # of rows
    ended: int  # of them
    reasons: tuple[str, ...] = ()  # each once


_TITLE = late(r"^\s{0,4}={4,12} List: (?P<time>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?) ={4,12}")
_HEADER = late(r"^\s{2,8}(?P<first>NODE|WORKER|TASK|ACTOR)_ID\s{2}")
_ROW = late(r"^\s{0,3}\d{1,4}\s{1,4}\S")
_CELL = late(r"\S+(?: \S+)*")
_ENDED: Final = {"STATE": ("DEAD", "FAILED"), "IS_ALIVE": ("False",)}
_REASONS: Final = ("EXIT_TYPE", "ERROR_TYPE", "STATE_MESSAGE", "EXIT_DETAIL", "DEATH_CAUSE")
_Row = Mapping[str, str]


def read(page: Page, index: int) -> Iterator[Read]:
    title = page.lines[index]
    match = _TITLE.match(title.text[:CHARACTERS])
    lines = page.after(index, ROWS)
    at = next((n for n, line in enumerate(lines[:HEADER_WITHIN]) if _HEADER.match(line.text[:CHARACTERS])), None)
    if match is None or at is None:
        return
    header = lines[at].text[:CHARACTERS]
    listed = _HEADER.match(header)
    rows = [(line, _cells(header, line.text[:CHARACTERS])) for line in _rows(lines[at + 1 :])]
    if listed is None or not rows:
        return
    ended = [row for _, row in rows if _has_ended(row)]
    yield ListedState(
        at=place_of(page, title, rows[-1][0]),
        time=match["time"],
        listed=listed["first"].lower(),
        count=len(rows),
        ended=len(ended),
        reasons=tuple(dict.fromkeys(reason for row in ended if (reason := _reason(row)))),
    )
    for line, row in rows:
        yield from _kill(page, line, row, match["time"])


def _rows(lines: Sequence[Line]) -> Iterator[Line]:
    """The lines that begin a row; what stands between them continues a cell."""
    for line in lines:
        text = line.text[:CHARACTERS]
        if _ROW.match(text):
            yield line
        elif text.strip() and not text.startswith("    "):
            return


def _cells(header: str, text: str) -> _Row:
    """Each cell under the name that it is nearest to: figures stand at the right of their column."""
    names = [(match.start(), match.end(), match[0]) for match in _CELL.finditer(header)]
    row: dict[str, str] = {}
    for cell in _CELL.finditer(text):
        start, end = cell.span()
        distance, name = min((max(left - end, start - right), name) for left, right, name in names)
        if distance <= 2:
            row[name] = cell[0]
    return row


def _has_ended(row: _Row) -> bool:
    return any(row.get(name) in states for name, states in _ENDED.items())


def _reason(row: _Row) -> str:
    return next((row[name] for name in _REASONS if row.get(name)), "")


def _kill(page: Page, line: Line, row: _Row, time: str) -> Iterator[Read]:
    """A process that the memory monitor killed: neither the node's figures nor who held them are in the list."""
    if not any(row.get(name) == kind for name, kind in _KILLED.items()) or _TOLD_BY_THE_MONITOR in line.text:
        return
    pid = row.get("PID") or row.get("WORKER_PID") or ""
    name = row.get("NAME") or row.get("CLASS_NAME") or row.get("FUNC_OR_CLASS_NAME")
    victim = Victim(pid=int(pid) if pid.isdecimal() else None, name=name, worker_id=row.get("WORKER_ID"))
    yield NodeOutOfMemory(
        at=place_of(page, line),
        time=time,
        process=Process(node=row.get("IP")),
        strength=2,
        node_id=row.get("NODE_ID"),
        victims=(victim,),
    )


FAMILY = Family(
    name="ray_list",
    anchors=(),
    triggers=("======== List: ",),
    read=read,
)
