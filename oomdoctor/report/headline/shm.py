"""Slots about shared memory (/dev/shm)."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.data_loader import SharedMemoryFull
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.report.headline.figures import briefly
from oomdoctor.report.headline.slot import about, first, root

_USERS: Final = {"nccl": "NCCL", "torch": "PyTorch", "python": "Python", "postgresql": "PostgreSQL",
                 "joblib": "joblib", "torch.save": "torch.save",
                 "sqlite": "SQLite", "sort": "sort"}  # fmt: skip


@about(first(SharedMemoryFull))
def shm_user(full: SharedMemoryFull) -> str | None:
    """Who found no room in /dev/shm."""
    if full.user == "torch" and full.pids:
        return say("DataLoader worker {pid}", pid=full.pids[0])
    return _USERS.get(full.user)


@about(first(SharedMemoryFull))
def shm_requested(full: SharedMemoryFull) -> str | None:
    """The segment that did not fit into /dev/shm."""
    return briefly(full.tried_bytes)


@about(first(SharedMemoryFull))
def system_v_requested(full: SharedMemoryFull) -> str | None:
    """The segment that the kernel refused."""
    return briefly(full.tried_bytes) if full.user == "system-v" else None


def shm_size(crash: Crash) -> str | None:
    """The size of /dev/shm, as a listing or Ray's refusal has it."""
    sizes = [usage.total_bytes for usage in crash.every(ShmUsage) if usage.total_bytes]
    stores = [store.shm_bytes for store in crash.every(StoreTooLarge) if store.shm_bytes]
    size = next(iter([*stores, *reversed(sizes)]), crash.context.hardware.get("shm_bytes"))
    return briefly(size) if isinstance(size, int) else None


@about(root(Shortage))
def shm_there(event: Shortage) -> str | None:
    """What /dev/shm has, by a message that no family knows."""
    return briefly(event.free_bytes or event.limit_bytes or event.total_bytes) if event.pool == "shm" else None


def volume_limit(crash: Crash) -> str | None:
    """The size of a pod's volume in memory that held more."""
    return next((briefly(kill.limit_bytes) for kill in crash.every(LimitKill) if kill.pool == "shm"), None)
