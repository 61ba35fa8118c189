"""What happened one after the other: by the times that are printed, and as the logs stand where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.incident.moments import Moment, moment, seconds_since
from oomdoctor.records import dataclass

# What another log dates further off than this stands on a clock of its own: another zone, or a wrong one.
ANOTHER_CLOCK: Final = 3600


@dataclass(frozen=True, slots=True)
class Happening:
    event: Event
    after_seconds: float | None  # since the first failure; less than nothing before it


def in_order(events: Iterable[Event], root: Event) -> list[Happening]:
    """The events with those before them that came before them.

    What has no time stands behind what stands before it in its log. A log without any time that can be compared comes
    last.
    """
    began = moment(root.time)
    logs: dict[str, list[Happening]] = {}
    for event in events:
        after = _after(began, event, root) if began is not None else None
        logs.setdefault(event.at.file, []).append(Happening(event, after))
    dated = [pair for happenings in logs.values() for pair in zip(_filled(happenings), happenings, strict=True)]
    return [happening for _, happening in sorted(dated, key=lambda pair: pair[0])]


def _after(began: Moment, event: Event, root: Event) -> float | None:
    at = moment(event.time)
    if at is None or at.clock != began.clock:
        return None
    seconds = seconds_since(began, at)
    return seconds if event.at.file == root.at.file or abs(seconds) <= ANOTHER_CLOCK else None


def _filled(happenings: Sequence[Happening]) -> list[float]:
    """When each of one log happened: what has no time right behind what is printed before it."""
    latest = next((one.after_seconds for one in happenings if one.after_seconds is not None), inf)
    filled = []
    for happening in happenings:
        latest = latest if happening.after_seconds is None else happening.after_seconds
        filled.append(latest)
    return filled


__all__ = ["Happening", "in_order"]
