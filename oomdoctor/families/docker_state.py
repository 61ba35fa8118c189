"""What docker and podman keep of a container: `inspect` as JSON or with labels, and their events of its end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.container import EndRecord, LimitKill
from oomdoctor.families.event import Event, Lookalike, Read
from oomdoctor.families.lines import place_of
from oomdoctor.families.prompt import commands_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

CHARACTERS: Final = 2000
RECORD_LINES: Final = 400  # of one container in JSON
SHORT_ID: Final = 12

DENIED: Final = mark("the container engine reports no OOM kill of the container")
_STATE = late(r"\bOOMKilled\"?[=:] ?(true|false)\b")
# In JSON, in Go's own print of a map, and behind the labels of our own `-f`
_PAIR = late(
    r"\b(Id|Name|ExitCode|StartedAt|FinishedAt|Memory|Hostname)\"?[=:] ?\"?(?=[\w/-])([\w:./+-]{1,120}(?: \+0000 UTC)?)"
)
_FIELD = late(r"\{\{ ?\.?(?:\w{1,20}\.){0,2}(\w{1,20}) ?\}\}")
_EVENT = late(
    r"\bcontainer (?:die|died) (?P<id>[0-9a-f]{6,64})\b.{0,400}?[ (,](?:containerE|e)xitCode=(?P<code>\d{1,3})"
)
_EVENT_NAME = late(r"[ (,]name=([\w.-]{1,120})")
_EVENT_OOM = late(r"\boomKilled=(true|false)\b")


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if state := _STATE.search(text):
        yield from _told(page, index, {**_record(page, index), "OOMKilled": state[1]})
    elif "{{" in text and (bare := _bare(page, index)):
        yield from _told(page, index + 1, bare)
    elif died := _EVENT.search(text):
        killed, name = _EVENT_OOM.search(text), _EVENT_NAME.search(text)
        said = {"Id": died["id"], "Name": name[1] if name else "", "ExitCode": died["code"]}
        if killed is None or killed[1] == "false":
            yield _end(page, index, said, "docker events", killed=None)


def _told(page: Page, index: int, said: Mapping[str, str]) -> Iterator[Read]:
    if said["OOMKilled"] == "true":
        yield LimitKill(reason="OOMKilled", **_shared(page, index, said, "docker inspect"))
        return
    yield Lookalike(place_of(page, page.lines[index]), DENIED)
    yield _end(page, index, said, "docker inspect", killed=False)


def _end(page: Page, index: int, said: Mapping[str, str], tool: str, *, killed: bool | None) -> Event:
    return EndRecord(oom_killed=killed, **_shared(page, index, said, tool))


def _shared(page: Page, index: int, said: Mapping[str, str], tool: str) -> dict[str, Any]:
    """What the record says, however the container ended."""
    line = page.lines[index]
    return {
        "at": place_of(page, line),
        "time": _when(said.get("FinishedAt")) or line.mark.time,
        "manager": "docker",
        "tool": tool,
        "exit_code": _whole(said.get("ExitCode")),
        "limit_bytes": (_whole(said.get("Memory")) or None) if said.get("ExitCode") != "0" else None,  # 0 is no limit
        "container": _name(said),
        "host": _short(said),
        "started": _when(said.get("StartedAt")),
    }


def _record(page: Page, index: int) -> dict[str, str]:
    """What stands on the line itself, or around it in JSON: the container's other lines are indented more than its
    braces, and the limit stands a hundred lines below the state."""
    text = page.lines[index].text[:CHARACTERS]
    if said := dict(reversed(_PAIR.findall(text))):
        return said
    edge = _edge(page, index)
    for lines in (page.lines[max(0, index - RECORD_LINES) : index][::-1], page.lines[index : index + RECORD_LINES]):
        for line in lines:
            if _indent(line) <= edge:
                break
            for name, value in _PAIR.findall(line.text[:CHARACTERS]):
                said.setdefault(name, value)
    return said


def _edge(page: Page, index: int) -> int:
    """How far the container's own braces are indented: two levels above those of its state."""
    levels = [_indent(page.lines[index])]
    for line in reversed(page.lines[max(0, index - RECORD_LINES) : index]):
        if line.raw.strip() and _indent(line) < levels[-1]:
            levels.append(_indent(line))
        if len(levels) > 2:
            return levels[2]
    return -1


def _indent(line: Line) -> int:
    return len(line.raw) - len(line.raw.lstrip()) if line.raw.strip() else CHARACTERS


def _bare(page: Page, index: int) -> dict[str, str] | None:
    """The words below a command whose template says what they are."""
    template = next((each for each in commands_of(page.lines[index].text) if "inspect" in each[1:3]), ())
    names = _FIELD.findall(" ".join(template))
    below = page.lines[index + 1].text.split() if index + 1 < len(page.lines) else []
    said = dict(zip(names, below, strict=True)) if len(names) == len(below) else {}
    return said if said.get("OOMKilled") in ("true", "false") else None


def _name(said: Mapping[str, str]) -> str | None:
    name = (said.get("Name") or "").lstrip("/")
    return name if re.fullmatch(r"[\w.-]{1,120}", name) else _short(said)


def _short(said: Mapping[str, str]) -> str | None:
    """A container's host name is its short id, unless it is given one."""
    named = said.get("Hostname") or (said.get("Id") or "")[:SHORT_ID]
    return named or None


def _when(time: str | None) -> str | None:
    """Docker's 0001-01-01 is never."""
    return time if time and not time.startswith("0001-") else None


def _whole(figure: str | None) -> int | None:
    return int(figure) if figure and re.fullmatch(r"-?\d{1,20}", figure) else None


FAMILY = Family(
    name="docker_state",
    anchors=(),
    triggers=('OOMKilled":', "OOMKilled=", "OOMKilled:", ".OOMKilled", "container die"),
    read=read,
)
