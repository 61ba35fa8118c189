"""Shared memory is full: loader workers, NCCL or Python cannot get their segments in /dev/shm."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.data_loader import SharedMemoryFull, ShmUsage
from oomdoctor.families.kill import SIGBUS, Kill
from oomdoctor.families.ray_death import FatalSignal
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.units import MIB, show

DOCKERS_DEFAULT = 64 * MIB
FULL = 0.9
ROOM = 0.5

_USERS = {
    "torch": mark("PyTorch's loader workers"),
    "nccl": mark("NCCL"),
    "python": mark("Python's shared memory"),
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
    return Finding(
        weight=0.93 if event.refused else 0.7,
        why=_larger(event.requested_bytes, event.shm_bytes),
        evidence=(event,),
        pool="shm",
        knobs=("bigger-shm", "smaller-object-store"),
    )


def _larger(store: int | None, room: int | None) -> str:
    if store and room:
        return say(
            "Ray's object store of {store} is larger than /dev/shm of {room}.", store=show(store), room=show(room)
        )
    if store:
        return say("Ray's object store of {store} is larger than /dev/shm.", store=show(store))
    if room:
        return say("Ray's object store is larger than /dev/shm of {room}.", room=show(room))
    return say("Ray's object store is larger than /dev/shm.")


def _refused(crash: Crash, full: SharedMemoryFull, size: int | None) -> Judgement:
    who = translated(_USERS[full.user])
    refused = (
        say("{who} asked for {tried} and found no room in /dev/shm.", who=who, tried=show(full.tried_bytes))
        if full.tried_bytes
        else say("{who} found no room in /dev/shm.", who=who)
    )
    weight = 0.85
    if full.errno is not None or (size is not None and size <= DOCKERS_DEFAULT):
        weight = 0.92
    if _highest_share(crash) >= FULL:
        weight = 0.95
    return Finding(
        weight=weight,
        why=joined((refused, _holds(crash, size))),
        evidence=(full, *crash.every(ShmUsage)[-2:]),
        pool="shm",
        next_evidence=() if size is not None else ("df -h /dev/shm",),
    )


def _bus_error(crash: Crash, crashed: Kill | FatalSignal, size: int | None) -> Judgement:
    """SIGBUS is what a page of a full /dev/shm answers; a truncated file or a bad disk answers it too."""
    share = _highest_share(crash)
    spoken_of = isinstance(crashed, FatalSignal) and crashed.shared_memory
    if size is not None and 0 < share < ROOM:
        return RuledOut(say("shared memory was at most {share} full", share=f"{share:.0%}"))
    return Finding(
        weight=0.85 if share >= FULL else 0.7 if spoken_of else 0.45,
        why=joined(
            (say("A process died of a bus error, which is what a full /dev/shm looks like."), _holds(crash, size))
        ),
        evidence=(crashed, *crash.every(ShmUsage)[-2:]),
        against=() if share >= FULL else (say("a truncated mapped file or a failing disk gives a bus error too"),),
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
    if size == DOCKERS_DEFAULT and share:
        return say("It holds {size}, docker's default and was {share} full.", size=show(size), share=f"{share:.0%}")
    if size == DOCKERS_DEFAULT:
        return say("It holds {size}, docker's default.", size=show(size))
    if share:
        return say("It holds {size} and was {share} full.", size=show(size), share=f"{share:.0%}")
    return say("It holds {size}.", size=show(size))


CAUSE = Cause(
    id="shm-too-small",
    title=mark("Shared memory (/dev/shm) is full"),
    pools=("shm", "host_ram", "cgroup"),
    knobs=("bigger-shm", "fewer-workers", "smaller-microbatch", "clear-references"),
    rule=judge,
)
