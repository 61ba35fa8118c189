"""Ray's name for a remote call in an exception: "ray::LLMRayActor.update_weight() (pid=8805, ip=10.0.0.7, ...)"."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Final

from oomdoctor.families.event import NOBODY, Process
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

LINES_AROUND: Final = 60

# Dask's and Tune's tasks have names with dashes, colons and tuples, and no brackets behind them.
_CALL = late(r"\b(ray::[^\s(][^\n]{0,200}?)\s?\(pid=(\d{1,9})(?:, ip=(\d{1,3}(?:\.\d{1,3}){3}))?")


def _called(text: str) -> re.Match[str] | None:
    return _CALL.search(text) if "ray::" in text else None


def caller(page: Page, index: int) -> Process:
    """The remote call whose exception stands at the index: the nearest above it, of the same writer."""
    line = page.lines[index]
    for near in (line, *reversed(page.before(index, LINES_AROUND))):
        match = _called(near.text)
        if match:
            return Process(pid=int(match[2]), name=match[1], node=match[3] or near.mark.ip)
        if "Traceback (most recent call last)" in near.text and near is not line:
            break
    mark = line.mark
    return Process(pid=mark.pid, name=mark.name, node=mark.ip) if mark.pid or mark.name else NOBODY


def raised_by_ray(page: Page, index: int) -> bool:
    """Whether the remote call whose exception stands at the index got an error of Ray's own: `get` raises the others
    as what they are made of (ray/_private/worker.py, get_objects and get)."""
    below = [line.text for line in page.after(index, LINES_AROUND)[1:]]
    own = (n for n, text in enumerate(below) if "/ray/_private/worker.py" in text.replace("\\", "/"))
    return any(text.strip() == "raise value" for n in own for text in below[n + 1 : n + 2])


def callers(page: Page, index: int) -> tuple[str, ...]:
    """The remote calls that waited for the one whose exception stands at the index, outermost first."""
    found: list[str] = []
    for near in reversed(page.before(index, LINES_AROUND)):
        match = _called(near.text)
        if match and match[1] not in found:
            found.append(match[1])
        if "Traceback (most recent call last)" in near.text:
            break
    return tuple(reversed(found[1:]))


def call_of(page: Page, lines: Sequence[Line], pids: Collection[int]) -> str | None:
    """What one of these processes was called for, in the lines around a message."""
    begin = bisect_left(page.lines, lines[0].number - LINES_AROUND, key=lambda line: line.number)
    for line in page.lines[begin:]:
        if line.number > lines[-1].number + LINES_AROUND:
            break
        match = _called(line.text)
        if match and int(match[2]) in pids:
            return match[1]
    return None
