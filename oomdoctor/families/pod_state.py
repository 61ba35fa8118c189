"""The containers of `kubectl describe pod`: how each ended, with its limit below and its pod above."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.container import TERMINATED, EndRecord, LimitKill
from oomdoctor.families.event import Event, Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import DECIMAL, size

CONTAINER_LINES: Final = 60
POD_LINES: Final = 600
CHARACTERS: Final = 400
SIGKILLED: Final = 137
KILLED: Final = "OOMKilled"
DENIED: Final = mark("Kubernetes reports no OOM kill of the container")

_PAIR = late(r"^\s{0,16}(Reason|Exit Code|Signal|Started|Finished|memory):\s{1,30}(\S.{0,200}?)\s{0,4}$")
_NEXT = late(r"^\s{0,12}(?:Last State|State|Conditions|Volumes|Events):|^\s{2}[\w.-]{1,120}:\s{0,4}$")
_SECTION = late(r"^\s{0,12}(Limits|Requests|Environment|Mounts|Liveness|Readiness):")
_CONTAINER = late(r"^ {2}([a-z0-9][\w.-]{0,120}):\s{0,4}$")
_POD = late(r"^Name:\s{1,30}([\w.-]{1,253})")
# Of the whole pod: its status line stands at the margin
_POD_REASON = late(
    r"^Reason:\s{1,30}(DeadlineExceeded|Preempt\w{1,10}|NodeLost|NodeShutdown|Terminated|Shutdown|UnexpectedAdmissionError)\b"
)


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if TERMINATED.match(text):
        record = _container(page, index)
        if isinstance(record, EndRecord) and record.oom_killed is False:
            yield Lookalike(record.at, DENIED)
        yield record
    elif reason := _POD_REASON.match(text):
        above = page.lines[max(0, index - POD_LINES) : index]
        yield EndRecord(
            at=place_of(page, page.lines[index]),
            manager="kubernetes",
            tool="kubectl describe",
            state=reason[1],
            host=_pod(above),
        )


def _container(page: Page, index: int) -> Event:
    lines = page.lines[index + 1 : index + 1 + CONTAINER_LINES]
    end = next((n for n, line in enumerate(lines) if _NEXT.match(line.raw) or TERMINATED.match(line.text)), len(lines))
    last = 1 + max((n for n, line in enumerate(lines[:end]) if _PAIR.match(line.text[:CHARACTERS])), default=-1)
    said = _pairs(lines[:last])
    above = page.lines[max(0, index - POD_LINES) : index]
    reason = said.get("Reason")
    telling = next((line for line in lines[:last] if reason and reason in line.text), page.lines[index])
    shared: dict[str, Any] = {
        "at": place_of(page, telling, lines[last - 1] if last else None),
        "time": said.get("Finished"),
        "manager": "kubernetes",
        "tool": "kubectl describe",
        "exit_code": _whole(said.get("Exit Code")),
        "limit_bytes": _quantity(said.get("Limits memory")) if said.get("Exit Code") != "0" else None,
        "requested_bytes": _quantity(said.get("Requests memory")),
        "container": _named(above) or _pod(above),
        "host": _pod(above),
        "started": said.get("Started"),
    }
    if reason == KILLED:
        return LimitKill(reason=reason, **shared)
    signal = _whole(said.get("Signal"))
    return EndRecord(
        state=reason,
        signal=signal,
        oom_killed=False if reason == "Error" and shared["exit_code"] == SIGKILLED else None,
        **shared,
    )


def _pairs(lines: Sequence[Line]) -> dict[str, str]:
    said: dict[str, str] = {}
    section = ""
    for line in lines:
        text = line.text[:CHARACTERS]
        if headed := _SECTION.match(text):
            section = headed[1]
        if pair := _PAIR.match(text):
            name = f"{section} {pair[1]}" if pair[1] == "memory" else pair[1]
            said.setdefault(name, pair[2])
    return said


def _named(above: Sequence[Line]) -> str | None:
    """The container whose state it is: its name stands two blanks from the margin."""
    for line in reversed(above[-CONTAINER_LINES:]):
        if named := _CONTAINER.match(line.raw):
            return named[1]
    return None


def _pod(above: Sequence[Line]) -> str | None:
    """The pod's own name, which its containers have as the name of their host."""
    found = (match[1] for line in reversed(above) if (match := _POD.match(line.text[:CHARACTERS])))
    return next(found, None)


def _quantity(figure: str | None) -> int | None:
    match = re.fullmatch(r"(\d{1,20}(?:\.\d{1,9})?)([A-Za-z]{0,2})", figure or "")
    return size(match[1], match[2], DECIMAL) if match else None


def _whole(figure: str | None) -> int | None:
    return int(figure) if figure and re.fullmatch(r"-?\d{1,9}", figure) else None


FAMILY = Family(
    name="pod_state",
    anchors=(),
    triggers=("State:", "Reason:"),
    read=read,
)
