"""How long what is left lasts a figure that grows."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from oomdoctor.job.model import Trajectory
from oomdoctor.language import say
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


def course(trajectory: Trajectory | None, limit: int | None = None) -> dict[str, Any] | None:
    """How a figure went, as JSON has it."""
    if trajectory is None:
        return None
    full = outlook(trajectory, limit)
    return {
        "what": trajectory.what,
        "pool": trajectory.pool,
        "shape": trajectory.shape,
        "growth_bytes": trajectory.growth_bytes,
        "growth_low_bytes": trajectory.growth_low_bytes,
        "growth_high_bytes": trajectory.growth_high_bytes,
        "per": trajectory.per,
        **({"assumed_unit": trajectory.assumed_unit} if trajectory.assumed_unit else {}),
        "points": [
            {"step": p.step, "bytes": p.bytes, "line": p.line, **({"text": p.text} if p.text else {})}
            for p in trajectory.points
        ],
        "full": asdict(full) if full is not None else None,
    }


__all__ = ["Outlook", "course", "outlook"]
