"""Shared memory is full: loader workers, NCCL or Python cannot get their segments in /dev/shm."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.data_loader import SharedMemoryFull, ShmUsage
from oomdoctor.families.kill import SIGBUS, Kill
from oomdoctor.families.ray_death import FatalSignal
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.units import MIB, show

DOCKERS_DEFAULT = 64 * MIB
FULL = 0.9
ROOM = 0.5

_USERS = {
    "torch": "PyTorch's loader workers",
    "nccl": "NCCL",
    "python": "Python's shared memory",
}


def judge(crash: Crash) -> Judgement | None:
    size = _size(crash)
    full = crash.first(SharedMemoryFull)
    if full is not None:
        return _refused(crash, full, size)
    store = next((event for event in crash.every(StoreTooLarge) if event.strength and event.pool == "shm"), None)
    if store is not None:
        return _store(store)
    crashed = next((kill for kill in crash.every(Kill) if kill.signal == SIGBUS), None) or crash.first(FatalSignal)
    return None if crashed is None else _bus_error(crash, crashed, size)


def _store(event: StoreTooLarge) -> Finding:
    """Ray's object store lives in /dev/shm: a larger one is refused, or put on a disk where it may not come up."""
    asked = f" of {show(event.requested_bytes)}" if event.requested_bytes else ""
    room = f" of {show(event.shm_bytes)}" if event.shm_bytes else ""
    return Finding(
        weight=0.93 if event.refused else 0.7,
        why=f"Ray's object store{asked} is larger than /dev/shm{room}.",
        evidence=(event,),
        pool="shm",
        knobs=("bigger-shm", "smaller-object-store"),
    )


def _refused(crash: Crash, full: SharedMemoryFull, size: int | None) -> Judgement:
    what = f" asked for {show(full.tried_bytes)} and" if full.tried_bytes else ""
    holds = _holds(crash, size)
    weight = 0.85
    if full.errno is not None or (size is not None and size <= DOCKERS_DEFAULT):
        weight = 0.92
    if _highest_share(crash) >= FULL:
        weight = 0.95
    return Finding(
        weight=weight,
        why=f"{_USERS[full.user]}{what} found no room in /dev/shm.{holds}",
        evidence=(full, *crash.every(ShmUsage)[-2:]),
        pool="shm",
        next_evidence=() if size is not None else ("df -h /dev/shm",),
    )


def _bus_error(crash: Crash, crashed: Kill | FatalSignal, size: int | None) -> Judgement:
    """SIGBUS is what a page of a full /dev/shm answers; a truncated file or a bad disk answers it too."""
    share = _highest_share(crash)
    spoken_of = isinstance(crashed, FatalSignal) and crashed.shared_memory
    if size is not None and 0 < share < ROOM:
        return RuledOut(f"shared memory was at most {share:.0%} full")
    return Finding(
        weight=0.85 if share >= FULL else 0.7 if spoken_of else 0.45,
        why=f"A process died of a bus error, which is what a full /dev/shm looks like.{_holds(crash, size)}",
        evidence=(crashed, *crash.every(ShmUsage)[-2:]),
        against=() if share >= FULL else ("a truncated mapped file or a failing disk gives a bus error too",),
        pool="shm",
        next_evidence=("df -h /dev/shm",),
    )


def _size(crash: Crash) -> int | None:
    sizes = [usage.total_bytes for usage in crash.every(ShmUsage) if usage.total_bytes]
    known = crash.context.hardware.get("shm_bytes")
    return sizes[-1] if sizes else known if isinstance(known, int) else None


def _highest_share(crash: Crash) -> float:
    shares = [u.used_bytes / u.total_bytes for u in crash.every(ShmUsage) if u.used_bytes and u.total_bytes]
    return max(shares, default=0.0)


def _holds(crash: Crash, size: int | None) -> str:
    if size is None:
        return ""
    share = _highest_share(crash)
    filled = f" and was {share:.0%} full" if share else ""
    default = ", docker's default" if size == DOCKERS_DEFAULT else ""
    return f" It holds {show(size)}{default}{filled}."


CAUSE = Cause(
    id="shm-too-small",
    title="Shared memory (/dev/shm) is full",
    pools=("shm", "host_ram", "cgroup"),
    knobs=("bigger-shm", "fewer-workers", "smaller-microbatch", "clear-references"),
    judge=judge,
)
