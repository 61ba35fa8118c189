"""How long what is left lasts a figure that grows."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor

from msgspec import Struct

from oomdoctor.incident.model import Crash, Ledger
from oomdoctor.incident.node import total_bytes
from oomdoctor.job.model import Trajectory
from oomdoctor.job.names import ON_THE_NODE
from oomdoctor.language import say
from oomdoctor.remedies.host import threshold_of
from oomdoctor.units import show


class Outlook(Struct, frozen=True, kw_only=True):
    """So many steps (prints, where none are counted) until it is full, if it goes on to grow as it did."""

    limit_bytes: int
    count: int
    count_low: int
    count_high: int
    derivation: str


def outlook(figure: Trajectory, limit: int | None) -> Outlook | None:
    """None where it does not grow, has come to the limit already, or does in the next step."""
    growth, low, high = figure.growth_bytes, figure.growth_low_bytes, figure.growth_high_bytes
    if not growth or not low or not high or limit is None or figure.of_rest or figure.room(limit) <= 0:
        return None
    room = figure.room(limit)
    count = round(room / growth)
    if not count:
        return None
    return Outlook(
        limit_bytes=limit,
        count=count,
        count_low=floor(room / high),
        count_high=ceil(room / low),
        derivation=say(
            "({limit} - {reached}) / {growth} = {count}",
            limit=show(limit), reached=show(limit - room), growth=show(growth), count=count,
        ),
    )  # fmt: skip


def limit_of(crash: Crash) -> int | None:
    """What the crash's figure can grow to: its own print says it, or the crash does of the device that it is about."""
    figure = crash.trajectory
    if figure is None:
        return None
    if figure.limit_bytes is not None:
        return figure.limit_bytes
    if figure.pool == "gpu":
        return _only_one(crash.ledgers)
    if figure.what.startswith(ON_THE_NODE):  # one process has no limit but what all others leave
        limit = threshold_of(crash)
        return limit[0] if limit is not None else total_bytes(crash)
    return None


def _only_one(ledgers: Sequence[Ledger]) -> int | None:
    """What the cards hold, where it is the same of all."""
    totals = {ledger.total_bytes for ledger in ledgers if ledger.pool == "gpu"}
    return totals.pop() if len(totals) == 1 else None


__all__ = ["Outlook", "limit_of", "outlook"]
