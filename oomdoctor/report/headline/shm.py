"""Slots about shared memory (/dev/shm)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.data_loader import SharedMemoryFull, ShmUsage
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.report.headline.figures import brief

_USERS: Final = {"nccl": "NCCL", "torch": "PyTorch", "python": "Python", "postgresql": "PostgreSQL"}


def shm_user(crash: Crash) -> str | None:
    """Who found no room in /dev/shm."""
    full = crash.first(SharedMemoryFull)
    if full is None:
        return None
    if full.user == "torch" and full.pids:
        return say("DataLoader worker {pid}", pid=full.pids[0])
    return _USERS.get(full.user)


def shm_requested(crash: Crash) -> str | None:
    """The segment that did not fit into /dev/shm."""
    full = crash.first(SharedMemoryFull)
    return brief(full.tried_bytes) if full is not None and full.tried_bytes else None


def shm_size(crash: Crash) -> str | None:
    """The size of /dev/shm, as a listing or Ray's refusal has it."""
    sizes = [usage.total_bytes for usage in crash.every(ShmUsage) if usage.total_bytes]
    stores = [store.shm_bytes for store in crash.every(StoreTooLarge) if store.shm_bytes]
    hardware = crash.context.hardware.get("shm_bytes")
    size = next(iter([*stores, *reversed(sizes)]), hardware)
    return brief(size) if isinstance(size, int) and size else None


def shm_there(crash: Crash) -> str | None:
    """What /dev/shm has, by a message that no family knows."""
    root = crash.root
    if not isinstance(root, Shortage) or root.pool != "shm":
        return None
    size = next((each for each in (root.free_bytes, root.limit_bytes, root.total_bytes) if each), None)
    return brief(size) if size else None


def volume_limit(crash: Crash) -> str | None:
    """The size of a pod's volume in memory that held more."""
    kill = next((kill for kill in crash.every(LimitKill) if kill.pool == "shm"), None)
    return brief(kill.limit_bytes) if kill is not None and kill.limit_bytes else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot for slot in (shm_user, shm_requested, shm_size, shm_there, volume_limit)
}
