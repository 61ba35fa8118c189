"""Slots about who was killed for memory, and by whom; the figures of a slot are of one kill."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.container import NodePressure
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory
from oomdoctor.incident import node
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import ray_kill
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.signs.kills import a_process_holds_it_afterwards, only_small_processes_were_killed
from oomdoctor.signs.ray_kills import OF_A_RANK, a_rank_was_killed

SHOWN: Final = 48  # characters of a name that is no class or script
_PLAIN: Final = late(r"[\w.:<>-]{1,120}")


def killer(crash: Crash) -> str | None:
    """Who killed for memory: the kernel, or a guard of the machine by its name."""
    kill = _kill(crash)
    if kill is None:
        return None
    return say("The kernel") if isinstance(kill, KernelKill) or kill.killer in ("systemd", "Linux") else kill.killer


def killed(crash: Crash) -> str | None:
    """Whom they killed: a process with its PID, or a unit."""
    kill = _kill(crash)
    return name_of(kill) if kill is not None else None


def killed_size(crash: Crash) -> str | None:
    """What the killed process held."""
    kill = _kill(crash)
    size = held_by(kill) if kill is not None else None
    return brief(size) if size else None


def killed_sized(crash: Crash) -> str | None:
    """The killed process with its PID and what it held: "cellxgene (PID 12, 51.4 GiB)"."""
    kill = _kill(crash)
    size = held_by(kill) if kill is not None else None
    if kill is None or not size or kill.process.name is None:
        return None
    name, pid, held = kill.process.name, kill.process.pid, brief(size)
    if pid is None:
        return say("{name} ({held})", name=name, held=held)
    return say("{name} (PID {pid}, {held})", name=name, pid=pid, held=held)


def killed_part(crash: Crash) -> str | None:
    """What it held of what was in use, of the limit that was hit, or of the machine: "11.3 of 14 GiB"."""
    kill = _kill(crash)
    size = held_by(kill) if kill is not None else None
    whole = _whole(kill) if kill is not None else None
    return beside(size, whole) if size and whole and size <= whole else None


def small_victim(crash: Crash) -> str | None:
    """The largest of those that the kernel killed, where all of them held next to nothing."""
    return killed_sized(crash) if only_small_processes_were_killed(crash) is not None else None


def oom_invoker(crash: Crash) -> str | None:
    """Who asked for memory when the kernel's OOM killer ran, where nobody is named as killed."""
    kill = _kill(crash)
    return kill.invoker if isinstance(kill, KernelKill) and kill.process.name is None else None


def nameless_killer(crash: Crash) -> str | None:
    """A guard of the machine that does not name whom it killed."""
    kill = _kill(crash)
    if not isinstance(kill, UserspaceKill) or name_of(kill) is not None:
        return None
    return say("The OOM killer") if kill.killer == "OOM killer" else kill.killer


def pressed(crash: Crash) -> str | None:
    """Who says that the node was short of memory, where nobody says who was killed."""
    if crash.first(NodePressure) is not None:
        return "Kubernetes"
    return "Ray" if crash.first(NodeOutOfMemory) is not None or crash.first(KillCount) is not None else None


def ray_killed(crash: Crash) -> str | None:
    """Whom Ray killed, at the kill that says most, with its PID and size."""
    kill = ray_kill(crash)
    one = next((one for one in kill.victims if one.name or one.pid), None) if kill is not None else None
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


def killed_rank(crash: Crash) -> str | None:
    """The rank that Ray killed, one of several of its size."""
    kill = ray_kill(crash)
    if kill is None or a_rank_was_killed(crash) is None or not kill.used_bytes:
        return None
    ranks = [one for one in kill.victims if (one.bytes or 0) >= OF_A_RANK * kill.used_bytes]
    return ray_killed(crash) if ranks and ranks[0] is kill.victims[0] else None


def _kill(crash: Crash) -> KernelKill | UserspaceKill | None:
    """Of the kernel's kills the one whose process held most, else the guard's."""
    kernel = max(
        crash.every(KernelKill), key=lambda kill: (kill.process.name is not None, held_by(kill) or 0), default=None
    )
    return kernel or max(crash.every(UserspaceKill), key=lambda kill: kill.rss_bytes or 0, default=None)


def _short(name: str) -> str:
    return short_name(name) if _PLAIN.fullmatch(name) else name[:SHOWN]


def name_of(kill: KernelKill | UserspaceKill) -> str | None:
    """The process that was killed, with its PID, or the unit."""
    name, pid = kill.process.name, kill.process.pid
    if name is not None:
        return say("{name} (PID {pid})", name=name, pid=pid) if pid is not None else name
    if isinstance(kill, KernelKill):
        return None
    unit = kill.unit.rsplit("/", 1)[-1] if kill.unit else None
    return unit or (say("PID {pid}", pid=pid) if pid is not None else None)


def held_by(kill: KernelKill | UserspaceKill) -> int | None:
    """What it held of its own and of shared memory."""
    if isinstance(kill, UserspaceKill):
        return kill.rss_bytes
    return node.held_by(kill) or None


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


def _whole(kill: KernelKill | UserspaceKill) -> int | None:
    if isinstance(kill, KernelKill):
        return kill.limit_bytes or kill.total_bytes
    total, free = kill.total_bytes, kill.available_bytes
    return total - free if total and free and free < total else total


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        killer, killed, killed_size, killed_sized, killed_part, small_victim, oom_invoker, nameless_killer, pressed,
        ray_killed, ray_kill_count, killed_rank, remaining, remaining_held, remaining_of,
    )
}  # fmt: skip
