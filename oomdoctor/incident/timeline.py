"""What happened one after the other: by the times that are printed, and as the logs stand where there are none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

from msgspec import Struct

from oomdoctor.families.event import Event
from oomdoctor.incident.joins import clock_of, clocks_ahead
from oomdoctor.job.moments import Moment, moment, seconds_since

# What another log dates further off than this stands on a clock of its own: another zone, or a wrong one.
ANOTHER_CLOCK: Final = 3600
FAILURES: Final = frozenset({"root", "confirmation", "cascade"})


class Happening(Struct, frozen=True):
    event: Event
    after_seconds: float | None  # since the first failure; less than nothing before it


def in_order(events: Iterable[Event], root: Event) -> list[Happening]:
    """The events with those before them that came before them.

    What has no time stands behind what stands before it in its log. A log without any time that can be compared comes
    last, but for that of the root: what dates its failure elsewhere dates it.
    """
    told = list(events)
    dated = root if moment(root.time) is not None else _first(told)
    began = moment(dated.time) if dated is not None else None
    ahead = clocks_ahead(told, (dated or root).at.file)
    logs: dict[str, list[Happening]] = {}
    for event in told:
        after = _after(began, event, dated or root, clock_of(event.at.file, ahead)) if began is not None else None
        logs.setdefault(event.at.file, []).append(Happening(event, after))
    placed = [
        pair
        for file, happenings in logs.items()
        for pair in zip(_filled(happenings, 0 if file == root.at.file else inf), happenings, strict=True)
    ]
    in_turn = sorted(placed, key=lambda pair: (pair[0], pair[1].event.at.file != root.at.file))
    return [happening for _, happening in in_turn]


def earliest(failures: Sequence[Event], told: Iterable[Event]) -> Event:
    """The one of these that happened first: by the times of several logs where they compare, else as the logs stand."""
    first = failures[0]
    began = moment(first.time)
    if began is None:
        return first
    ahead = clocks_ahead(told, first.at.file)

    def after(event: Event) -> float:
        if event.at.file == first.at.file:
            return 0
        return _after(began, event, first, clock_of(event.at.file, ahead)) or 0

    return min(failures, key=after)


def _first(events: Iterable[Event]) -> Event | None:
    """The earliest by the clock that tells the first of the failures."""
    times = [(event, at) for event in events if event.role in FAILURES and (at := moment(event.time)) is not None]
    alike = (pair for pair in times if pair[1].clock == times[0][1].clock)
    first = min(alike, key=lambda pair: seconds_since(times[0][1], pair[1]), default=None)
    return first[0] if first is not None else None


def _after(began: Moment, event: Event, first: Event, ahead: float | None) -> float | None:
    at = moment(event.time)
    if at is None or at.clock != began.clock:
        return None
    seconds = seconds_since(began, at) - (ahead or 0)
    one_clock = event.at.file == first.at.file or ahead is not None or abs(seconds) <= ANOTHER_CLOCK
    return seconds if one_clock else None


def _filled(happenings: Sequence[Happening], undated: float) -> list[float]:
    """When each of one log happened: what has no time right behind what is printed before it."""
    latest = next((one.after_seconds for one in happenings if one.after_seconds is not None), undated)
    filled = []
    for happening in happenings:
        latest = latest if happening.after_seconds is None else happening.after_seconds
        filled.append(latest)
    return filled


__all__ = ["Happening", "earliest", "in_order"]
