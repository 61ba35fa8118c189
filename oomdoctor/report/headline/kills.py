"""Slots about who was killed for memory, and by whom; the figures of a slot are of one kill."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from oomdoctor.families.container import NodePressure
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.incident import node
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import largest_kill, most_resident, ray_kill
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief, briefly
from oomdoctor.report.headline.host import node as node_of
from oomdoctor.report.headline.slot import Slot, about, where
from oomdoctor.report.headline.victims import heaviest, held_by, name_of
from oomdoctor.signs.commands import of_unit
from oomdoctor.signs.kills import a_process_holds_it_afterwards, only_small_processes_were_killed, tells_no_place
from oomdoctor.signs.ray_kills import OF_A_RANK, a_rank_was_killed
from oomdoctor.units import percent, show_limit

SHOWN: Final = 48  # characters of a name that is no class or script
_PLAIN: Final = late(r"[\w.:<>-]{1,120}")
_Kill: TypeAlias = KernelKill | UserspaceKill


def _kill(crash: Crash) -> _Kill | None:
    """Of the kernel's kills the one whose process held most, else the guard's."""
    guards = crash.every(UserspaceKill)
    return heaviest(crash.every(KernelKill)) or max(guards, key=lambda kill: kill.rss_bytes or 0, default=None)


_of_kill: Callable[[Callable[[_Kill], str | None]], Slot] = about(_kill)


@_of_kill
def killer(kill: _Kill) -> str | None:
    """Who killed for memory: the kernel, or a guard of the machine by its name."""
    return say("The kernel") if isinstance(kill, KernelKill) or kill.killer in ("systemd", "Linux") else kill.killer


@_of_kill
def killed(kill: _Kill) -> str | None:
    """Whom they killed: a process with its PID, or a unit."""
    return name_of(kill)


@_of_kill
def killed_size(kill: _Kill) -> str | None:
    """What the killed process held."""
    return briefly(held_by(kill))


@_of_kill
def used_at_kill(kill: _Kill) -> str | None:
    """What was in use of the machine, where the guard prints it."""
    return beside(kill.used_bytes, kill.total_bytes) if isinstance(kill, UserspaceKill) else None


@_of_kill
def killed_sized(kill: _Kill) -> str | None:
    """The killed process with its PID and what it held: "cellxgene (PID 12, 51.4 GiB)"."""
    name, pid, held = kill.process.name, kill.process.pid, briefly(held_by(kill))
    if held is None or name is None:
        return None
    if pid is None:
        return say("{name} ({held})", name=name, held=held)
    return say("{name} (PID {pid}, {held})", name=name, pid=pid, held=held)


def unit_killed(crash: Crash) -> str | None:
    """The unit of which systemd tells a kill, and not whose memory ran out."""
    kill = _kill(crash)
    return name_of(kill) if kill is not None and of_unit(crash) is not None else None


@_of_kill
def unit_peak(kill: _Kill) -> str | None:
    """The most that the unit had used."""
    return briefly(kill.peak_bytes) if isinstance(kill, UserspaceKill) else None


@_of_kill
def killed_part(kill: _Kill) -> str | None:
    """What it held of what was in use, of the limit that was hit, or of the machine: "11.3 of 14 GiB"."""
    if isinstance(kill, KernelKill):
        return beside(held_by(kill), kill.limit_bytes or kill.total_bytes)
    total, free = kill.total_bytes, kill.available_bytes
    return beside(held_by(kill), total - free if total and free and free < total else total)


@about(node.early_kill)
def early_limit(kill: UserspaceKill) -> str | None:
    """At how much available memory a guard was told to kill."""
    return percent(kill.limit_fraction or 0)


@about(node.early_kill)
def left_at_the_kill(kill: UserspaceKill) -> str | None:
    """What was still available then: "6.64 of 13.5 GiB"."""
    return beside(kill.available_bytes, kill.total_bytes)


@about(node.pressure_kill)
def group_pressure(kill: UserspaceKill) -> str | None:
    """How much of the time the tasks of a control group waited for memory, and how much of it a guard bears."""
    return say(
        "memory pressure of {group} was {pressure}, its limit is {limit}",
        group=(kill.pressed or "").rsplit("/", 1)[-1],
        pressure=percent(kill.pressure_fraction),
        limit=percent(kill.limit_fraction),
    )


@where(only_small_processes_were_killed)
def small_victims(crash: Crash) -> str | None:
    """Whom the kernel killed, where all of them held next to nothing: "3 processes of at most 5.1 MiB"."""
    kill, count = largest_kill(crash), len(crash.every(KernelKill))
    if kill is None or count == 1:
        return killed_sized(crash)
    return say("{count} processes of at most {held}", count=count, held=show_limit(most_resident(crash)))


@_of_kill
def oom_invoker(kill: _Kill) -> str | None:
    """Who asked for memory when the kernel's OOM killer ran, where nobody is named as killed."""
    return kill.invoker if isinstance(kill, KernelKill) and kill.process.name is None else None


def told_node(crash: Crash) -> str | None:
    """Whose memory ran out, by the kernel; None where its report breaks off before it says so."""
    kill = _kill(crash)
    return node_of(crash) if isinstance(kill, KernelKill) and not tells_no_place(kill) else None


@_of_kill
def nameless_killer(kill: _Kill) -> str | None:
    """A guard of the machine that does not name whom it killed."""
    if not isinstance(kill, UserspaceKill) or name_of(kill) is not None:
        return None
    return say("The OOM killer") if kill.killer == "OOM killer" else kill.killer


def pressed(crash: Crash) -> str | None:
    """Who says that the node was short of memory, where nobody says who was killed."""
    if crash.first(NodePressure) is not None:
        return "Kubernetes"
    return "Ray" if crash.first(NodeOutOfMemory) is not None or crash.first(KillCount) is not None else None


@about(ray_kill)
def ray_killed(kill: NodeOutOfMemory) -> str | None:
    """Whom Ray killed, at the kill that says most, with its PID and size."""
    one = next((one for one in kill.victims if one.name or one.pid), None)
    if one is None:
        return None
    who = _short(one.name) if one.name else say("a worker")
    pid = say("PID {pid}", pid=one.pid) if one.pid is not None else ""
    told = ", ".join(part for part in (pid, brief(one.bytes) if one.bytes else "") if part)
    return f"{who} ({told})" if told else who


def ray_kill_count(crash: Crash) -> str | None:
    """How many workers Ray counts as killed for memory within a minute."""
    most = max((each.killed or 0 for each in crash.every(KillCount)), default=0)
    return counted(most, mark("{count} worker"), mark("{count} workers")) if most else None


@where(a_rank_was_killed)
def killed_rank(crash: Crash) -> str | None:
    """The rank that Ray killed, one of several of its size."""
    kill = ray_kill(crash)
    if kill is None or not kill.used_bytes:
        return None
    ranks = [one for one in kill.victims if (one.bytes or 0) >= OF_A_RANK * kill.used_bytes]
    return ray_killed(crash) if ranks and ranks[0] is kill.victims[0] else None


def _short(name: str) -> str:
    return short_name(name) if _PLAIN.fullmatch(name) else name[:SHOWN]


def remaining(crash: Crash) -> str | None:
    """A process that still holds much of the machine when the one that died is gone."""
    found = _remains(crash)
    if found is None:
        return None
    return say("{name} (PID {pid})", name=short_name(found.process.command), pid=found.process.pid)


def remaining_held(crash: Crash) -> str | None:
    """What it holds."""
    found = _remains(crash)
    return brief(found.process.bytes) if found is not None else None


def remaining_of(crash: Crash) -> str | None:
    """The machine's memory."""
    found = _remains(crash)
    return brief(found.total_bytes) if found is not None else None


def _remains(crash: Crash) -> node.Remains | None:
    return node.largest_after(crash) if a_process_holds_it_afterwards(crash) is not None else None
