"""Where a killer strikes, and Ray's threshold raised."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill, MemoryLimit
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import low_limit, ray_kill
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal
from oomdoctor.remedies.settings import Spelling
from oomdoctor.units import show

ROOM: Final = 0.8  # of a limit, to come to rest below it
RAYS_DEFAULT: Final = 0.95  # RAY_memory_usage_threshold since 2.2: src/ray/common/ray_config_def.h


def threshold_of(crash: Crash) -> tuple[int, str] | None:
    """Where the killer strikes: Ray's threshold, or the limit itself; and the figure in words."""
    for kill in crash.every(NodeOutOfMemory):
        if kill.bytes:
            return kill.bytes, show(kill.bytes)
        if kill.fraction and kill.fraction <= 1 and kill.total_bytes:
            limit = round(kill.fraction * kill.total_bytes)
            return limit, f"{show(limit)} ({kill.fraction:g} x {show(kill.total_bytes)})"
    limit_ = limit_bytes(crash)
    return (limit_, show(limit_)) if limit_ is not None else None


def limit_bytes(crash: Crash) -> int | None:
    """The limit of the container or job."""
    for event in crash.events:
        if isinstance(event, LimitKill | KernelKill | MemoryLimit) and event.limit_bytes:
            return event.limit_bytes
    return next((kill.requested_bytes for kill in crash.every(LimitKill) if kill.requested_bytes), None)


def tune_monitor(case: Case) -> Answer:
    crash, usual = case.crash, _usual(case.row)
    kill = ray_kill(crash)
    if kill is None or kill.fraction is None:
        return None
    if (room := room_below_the_default(kill, usual)) is not None:
        return _back_to_the_default(kill, room, usual, case.row)
    return Proposal(
        action=say(
            "Raise RAY_memory_usage_threshold from {now} only to gain time; set it before `ray start` on every node",
            now=f"{kill.fraction:g}",
        ),
        current=kill.fraction,
    )


def _usual(row: Spelling | None) -> float:
    """The limit by itself of the releases that know the variable: it was lower before 2.2."""
    usual = row.default(None) if row is not None else None
    return float(usual) if isinstance(usual, int | float | str) else RAYS_DEFAULT


def room_below_the_default(kill: NodeOutOfMemory, usual: float = RAYS_DEFAULT) -> int | None:
    """What Ray would still have let the node use, where it was told to kill far below its own limit."""
    low = low_limit(kill.figures("usage"), kill.figures("threshold"))
    if low is None or not kill.fraction or not kill.total_bytes or not kill.used_bytes:
        return None
    room = round(usual * kill.total_bytes) - kill.used_bytes
    return room if room > 0 else None


def _back_to_the_default(kill: NodeOutOfMemory, room: int, usual: float, row: Spelling | None) -> Proposal:
    return Proposal(
        action=say(
            "Raise Ray's limit from {now} to the usual {then}; set it before `ray start` on every node",
            now=f"{kill.fraction:g}",
            then=usual,
        ),
        current=kill.fraction,
        suggested=usual,
        derivation=say(
            "{then} x {total} - {used} in use = {room} more",
            then=usual,
            total=show(kill.total_bytes or 0),
            used=show(kill.used_bytes or 0),
            room=show(room),
        ),
        snippet=row.snippet(usual) if row is not None else f"export RAY_memory_usage_threshold={usual}",
        cost=say("less is left for what runs outside Ray"),
    )
