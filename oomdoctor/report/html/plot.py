"""A memory figure over the job's steps: across in thousandths of the plot's width, down in pixels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from oomdoctor.report.contract import Ledger
from oomdoctor.units import show

WIDTH = 1000
FOOT = 200  # where the figure is least; labels stand under it
TOP = 28  # room for a label above the highest point
ABOVE = 9  # from a point up to the foot of its label
BELOW = 20  # and down
ROOM = 25  # what a label over a point takes
MOST_DOTS = 40  # more of them run into each other
FAR = 2  # a total this many times above the figure says nothing of its growth


class Limit(Struct, frozen=True):
    """How much there was in all."""

    y: float
    text: str


class Plot(Struct, frozen=True, kw_only=True):
    path: str
    dots: tuple[tuple[float, float], ...]
    first_label_y: float
    last_label_y: float
    limit: Limit | None
    from_zero: bool
    foot: int = FOOT


def plot(trajectory: Mapping[str, Any], ledgers: Sequence[Ledger]) -> Plot | None:
    """None where there is nothing to draw a line between."""
    points = trajectory["points"]
    if len(points) < 2:
        return None
    sizes = [point["bytes"] for point in points]
    total = _total(trajectory["pool"], ledgers, max(sizes))
    top = max(sizes) if total is None else total
    from_zero = min(sizes) * 2 <= top or min(sizes) == top
    low = min(0, *sizes) if from_zero else min(sizes)
    places = [(_across(x), _down(size, low, top)) for x, size in zip(_shares(points), sizes, strict=True)]
    limit = Limit(_down(total, low, top), show(total)) if total is not None else None
    return Plot(
        path="M" + "L".join(f"{x:g} {y:g}" for x, y in places),
        dots=tuple(places) if len(places) <= MOST_DOTS else (places[0], places[-1]),
        first_label_y=_label(places[0][1], places[1][1], limit),
        last_label_y=_label(places[-1][1], places[-2][1], limit),
        limit=limit,
        from_zero=from_zero,
    )


def _total(pool: str, ledgers: Sequence[Ledger], highest: int) -> int | None:
    """What there was in all, where one device alone can be meant and the line can be drawn beside it."""
    totals = {ledger.total_bytes for ledger in ledgers if ledger.pool == pool and ledger.total_bytes}
    return next((total for total in totals if len(totals) == 1 and highest <= total <= FAR * highest), None)


def _shares(points: Sequence[Mapping[str, Any]]) -> list[float]:
    """How far along each point is: by its step where the steps go up, else by its number."""
    steps = [point["step"] for point in points]
    if None in steps or steps != sorted(steps) or steps[0] == steps[-1]:
        steps = list(range(len(points)))
    return [(step - steps[0]) / (steps[-1] - steps[0]) for step in steps]


def _across(share: float) -> float:
    return round(share * WIDTH, 1)


def _down(size: int, low: int, top: int) -> float:
    share = (size - low) / (top - low) if top > low else 0.5
    return round(FOOT - share * (FOOT - TOP), 1)


def _label(y: float, neighbour_y: float, limit: Limit | None) -> float:
    """On the side of its point where neither the line goes on nor the total's line is."""
    crowded = limit is not None and y - limit.y < ROOM
    return y + BELOW if crowded or neighbour_y < y else y - ABOVE
