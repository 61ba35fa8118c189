"""Whom the kernel or a guard of the machine killed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.incident import node
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.names import with_pid

_CONTAINER: Final = late(r"docker|kubepods|containerd|libpod|crio|/pod[0-9a-f]")


def heaviest(kills: Iterable[KernelKill]) -> KernelKill | None:
    """The kernel's kill whose process held most, one with a name before one without."""
    return max(kills, key=lambda kill: (kill.process.name is not None, held_by(kill) or 0), default=None)


def name_of(kill: KernelKill | UserspaceKill) -> str | None:
    """The process that was killed, with its PID, or the unit."""
    name, pid = kill.process.name, kill.process.pid
    if name is not None:
        return with_pid(name, pid)
    if isinstance(kill, KernelKill):
        return None
    unit = kill.unit.rsplit("/", 1)[-1] if kill.unit else None
    return unit or (say("PID {pid}", pid=pid) if pid is not None else None)


def held_by(kill: KernelKill | UserspaceKill) -> int | None:
    """What it held of its own and of shared memory, or what the unit used that was killed."""
    if isinstance(kill, UserspaceKill):
        return kill.rss_bytes or (kill.used_bytes if kill.total_bytes is None else None)
    return node.held_by(kill) or None


def in_container(kill: KernelKill) -> bool:
    """Whether the control group is a container's, by its path."""
    return kill.cgroup is not None and _CONTAINER.search(kill.cgroup) is not None
