"""Whom Ray killed for the node's memory, and what it says of who held it."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory, UsageAboveThreshold
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import HELD_ELSEWHERE, HOG, is_a_bystander, pressure_kill, ray_kill, used_bytes, victim
from oomdoctor.language import counted, joined, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import raised_by_rays_old_monitor, raylet_log
from oomdoctor.signs.node import table
from oomdoctor.signs.series import went_on_before
from oomdoctor.units import percent, show

# The killed worker's own share from which it says something about who held the memory.
TELLING: Final = 0.15
# A share of the memory in one worker of a group (known by its rank) that its sisters multiply to most of it.
OF_A_RANK: Final = 0.1
# So many kills within a minute are of workers of one kind.
MANY_KILLS: Final = 8

_RANKED: Final = late(r"_\d{1,4}:\d{1,4}\b|\brank=?\d|WorkerDict|\bWorker_?\d")


@sign
def ray_killed_without_a_table(crash: Crash) -> Seen | None:
    """Ray killed for the node's memory, and the log has no table of memory users."""
    kill = ray_kill(crash)
    if kill is None or table(crash) is not None:
        return None
    whom = victim(crash)
    sizes = [one.bytes for one in kill.victims if one.bytes is not None]
    small = is_a_bystander(max(sizes, default=None), used_bytes(crash))
    elsewhere = translated(HELD_ELSEWHERE) if small else ""
    named = (
        say("Ray killed {whom}; only Ray's table of memory users says who held the memory.", whom=whom) if whom else ""
    )
    words = joined((found_full(crash), went_on_before(crash), named, elsewhere))
    return Seen(words=words, evidence=(kill,), next_evidence=raylet_log(crash))


@sign
def ray_killed_a_good_share(crash: Crash) -> Seen | None:
    """A worker that Ray killed held 15% of the memory in use; no table says who held the rest."""
    used = used_bytes(crash)
    if not used or table(crash) is not None:
        return None
    share = max((one.bytes or 0 for kill in crash.every(NodeOutOfMemory) for one in kill.victims), default=0) / used
    if share < TELLING:
        return None
    return Seen(words=say("the killed worker itself held {share} of the memory in use", share=percent(share)))


@sign
def ray_killed_who_held_most(crash: Crash) -> Seen | None:
    """A worker that Ray killed held 40% of the memory in use."""
    used = used_bytes(crash)
    victims = [(kill, one) for kill in crash.every(NodeOutOfMemory) for one in kill.victims if one.bytes is not None]
    largest = max(victims, key=lambda pair: pair[1].bytes or 0, default=None)
    if largest is None or not used or (largest[1].bytes or 0) < HOG * used:
        return None
    kill, one = largest
    words = say(
        "{name} (PID {pid}) itself held {size} of the {used} in use.",
        name=one.name or say("The killed worker"),
        pid=one.pid,
        size=show(one.bytes or 0),
        used=show(used),
    )
    return Seen(words=words, evidence=(kill,))


@sign
def rays_table_is_missing(crash: Crash) -> Seen | None:
    """Ray killed for the node's memory, and the log has no table of memory users."""
    if crash.first(NodeOutOfMemory) is None or table(crash) is not None:
        return None
    words = say("Ray's table of memory users, which names who held the memory")
    return Seen(words=words, next_evidence=raylet_log(crash))


@sign
def ray_killed_for_memory(crash: Crash) -> Seen | None:
    """Ray killed because the node was short of memory."""
    return Seen(words="") if crash.first(NodeOutOfMemory) is not None else None


@sign
def a_rank_was_killed(crash: Crash) -> Seen | None:
    """Ray killed a worker that is one of several ranks and held a tenth of the memory in use."""
    used = used_bytes(crash)
    if not used or table(crash) is not None:
        return None
    ranks = [
        (event, one)
        for event in crash.every(NodeOutOfMemory)
        for one in event.victims
        if (one.bytes or 0) >= OF_A_RANK * used and _RANKED.search(one.name or "")
    ]
    if not ranks:
        return None
    event, one = ranks[0]
    held = one.bytes or 0
    words = say(
        "The killed worker, {name} (PID {pid}), is one of several ranks and held {held} of the {used} in use: "
        "as much as {count} such workers.",
        name=one.name,
        pid=one.pid,
        held=show(held),
        used=show(used),
        count=f"{used / held:.1f}",
    )
    return Seen(words=words, evidence=(event,), against=(say("the log has no table of memory users"),))


@sign
def ray_killed_many(crash: Crash) -> Seen | None:
    """Ray counts eight or more memory kills in one reporting period, and the log has no table of memory users."""
    count = max(crash.every(KillCount), key=lambda one: one.killed or 0, default=None)
    if count is None or (count.killed or 0) < MANY_KILLS or table(crash) is not None:
        return None
    words = say(
        "Ray killed {killed} workers in one reporting period because of memory, so many run at the same time.",
        killed=count.killed,
    )
    return Seen(words=words, evidence=(count,))


@sign
def ray_killed_several(crash: Crash) -> Seen | None:
    """Ray counts two or more memory kills in one reporting period, and reports none of them singly."""
    count = crash.first(KillCount)
    if count is None or (count.killed or 0) < 2 or crash.first(NodeOutOfMemory) is not None:
        return None
    if table(crash) is not None:
        return None
    words = say(
        "Ray killed {killed} workers in one reporting period because of memory, so several run at the same time.",
        killed=count.killed,
    )
    return Seen(words=words, evidence=(count,), against=(say("the log does not say who held the memory"),))


def found_full(crash: Crash) -> str:
    """What the killer says of the node's memory."""
    kill = ray_kill(crash)
    if kill is not None and kill.used_bytes and kill.total_bytes:
        if raised_by_rays_old_monitor(crash):
            return _found_in_use(kill)
        return say(
            "Ray killed a process when {used} of {total} was in use.",
            used=show(kill.used_bytes),
            total=show(kill.total_bytes),
        )
    count = crash.first(KillCount)
    if count is not None and count.killed:
        return counted(
            count.killed,
            mark("Ray killed {count} worker because the node ran low on memory; raylet.out has the table."),
            mark("Ray killed {count} workers because the node ran low on memory; raylet.out has the table."),
        )
    reading = crash.first(UsageAboveThreshold)
    if reading is not None and reading.used_bytes and reading.total_bytes:
        return _found_in_use(reading)
    if raised_by_rays_old_monitor(crash):
        return say(
            "Ray's memory monitor stopped a task because the node was nearly out of memory; the log does not say who "
            "held the memory."
        )
    pressed = pressure_kill(crash)
    if pressed is not None and pressed.pressed is not None:
        return say(
            "Tasks of {group} waited for memory {pressure} of the time, more than the {limit} that {killer} bears; the "
            "log does not say who held the memory.",
            group=pressed.pressed,
            pressure=percent(pressed.pressure_fraction),
            limit=percent(pressed.limit_fraction),
            killer=pressed.killer,
        )
    return say("A process was killed because the node ran out of memory; the log does not say who held the memory.")


def _found_in_use(found: NodeOutOfMemory | UsageAboveThreshold) -> str:
    return say(
        "Ray's monitor found {used} of {total} in use.",
        used=show(found.used_bytes or 0),
        total=show(found.total_bytes or 0),
    )
