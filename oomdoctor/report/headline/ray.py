"""Slots about Ray's object store, the disk behind it, /dev/shm, and requests that Ray does not place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.container import LimitKill
from oomdoctor.families.data_loader import SharedMemoryFull, ShmUsage
from oomdoctor.families.ray_schedule import Unschedulable
from oomdoctor.families.ray_store import DiskFull, Spilled, StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import ray_kill, store_bytes
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, listed, mark, say
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.signs.node import table
from oomdoctor.signs.scheduling import asked_gpus, cluster, request_of
from oomdoctor.signs.store import MOST
from oomdoctor.units import percent

MOST_DEVICES: Final = 512  # of one request in words that no family knows: more is another number of its line
_USERS: Final = {"nccl": "NCCL", "torch": "PyTorch", "python": "Python"}


def object_size(crash: Crash) -> str | None:
    """The object that Ray's store refused."""
    full = crash.first(StoreFull)
    return brief(full.object_bytes) if full is not None and full.object_bytes else None


def store_too_small(crash: Crash) -> str | None:
    """The store's capacity, where the refused object alone is larger."""
    full = crash.first(StoreFull)
    if full is None or not full.object_bytes or not full.capacity_bytes or full.object_bytes <= full.capacity_bytes:
        return None
    return brief(full.capacity_bytes)


def store_full(crash: Crash) -> str | None:
    """What the store holds: "3 of 3 GiB in use", or beyond its capacity "20 GiB in use, room for 14.7 GiB"."""
    event: StoreFull | StoreUsage | None = crash.first(StoreFull)
    if event is None:
        event = next((usage for usage in crash.every(StoreUsage) if usage.strength), None)
    if event is None or not event.used_bytes or not event.capacity_bytes:
        return None
    if event.used_bytes <= event.capacity_bytes:
        return say("{figures} in use", figures=beside(event.used_bytes, event.capacity_bytes))
    return say("{used} in use, room for {room}", used=brief(event.used_bytes), room=brief(event.capacity_bytes))


def store_waits(crash: Crash) -> str | None:
    """How many objects wait for room, and how large they are together."""
    usage = next((usage for usage in crash.every(StoreUsage) if usage.strength), None)
    if usage is None or not usage.pending_objects or not usage.pending_bytes:
        return None
    size = brief(usage.pending_bytes)
    return counted(
        usage.pending_objects, mark("{count} object of {size}"), mark("{count} objects of {size}"), size=size
    )


def store_caller(crash: Crash) -> str | None:
    """The remote call whose object found no room."""
    full = crash.first(StoreFull)
    name = (full.callers[0] if full.callers else full.process.name) if full is not None else None
    return short_name(name) if name else None


def store_of_node(crash: Crash) -> str | None:
    """What the store held of what was in use on the node when Ray killed."""
    kill = ray_kill(crash)
    held = store_bytes(crash, kill) if kill is not None else None
    return (
        beside(held, kill.used_bytes)
        if kill is not None and held and kill.used_bytes and held <= kill.used_bytes
        else None
    )


def unlisted(crash: Crash) -> str | None:
    """What was in use and stands in no row of Ray's table, where it is much and nobody says what the store held."""
    kill, memory = ray_kill(crash), table(crash)
    if kill is None or memory is None or memory.cut or not kill.used_bytes or memory.event is not kill:
        return None
    missing = kill.used_bytes - memory.listed_bytes
    if missing < MOST * kill.used_bytes or store_bytes(crash, kill) is not None:
        return None
    return beside(missing, kill.used_bytes)


def store_requested(crash: Crash) -> str | None:
    """The object store that Ray was to have, where that is too large for /dev/shm or for RAM."""
    store = next((event for event in crash.every(StoreTooLarge) if event.strength), None)
    return brief(store.requested_bytes) if store is not None and store.requested_bytes else None


def store_in_ram(crash: Crash) -> str | None:
    """Ray's object store, where it was refused for want of RAM and not of /dev/shm."""
    store = next((event for event in crash.every(StoreTooLarge) if event.refused and event.pool != "shm"), None)
    return say("Ray's object store") if store is not None else None


def disk_free(crash: Crash) -> str | None:
    """What is free of the disk that Ray spills to, by its warning: "42.7 of 876 GiB"."""
    warning = next((event for event in crash.every(DiskFull) if event.available_bytes and event.total_bytes), None)
    if warning is None or not warning.available_bytes or not warning.total_bytes:
        return None
    return beside(warning.available_bytes, warning.total_bytes)


def disk_share(crash: Crash) -> str | None:
    """From which share on Ray stops using that disk."""
    warning = next((event for event in crash.every(DiskFull) if event.fraction), None)
    return percent(warning.fraction) if warning is not None else None


def disk_object(crash: Crash) -> str | None:
    """The object that found room neither in the store nor on the disk."""
    refused = next((event for event in crash.every(DiskFull) if event.object_bytes), None)
    return brief(refused.object_bytes) if refused is not None and refused.object_bytes else None


def spilled(crash: Crash) -> str | None:
    """How much Ray had spilled."""
    most = max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0)
    return brief(most) if most else None


def disk_errno(crash: Crash) -> str | None:
    """The error number of the write that failed."""
    refused = next((event for event in crash.every(DiskFull) if not event.warning), None)
    if refused is None:
        return None
    number = refused.errno or (28 if "Errno 28" in refused.at.text else None)
    return str(number) if number else None


def disk_quota(crash: Crash) -> str | None:
    """EDQUOT, where a quota was used up and not the disk."""
    return "errno 122" if disk_errno(crash) == "122" else None


def spilling_program(crash: Crash) -> str | None:
    """A program beside Ray that found no room for what it spills."""
    refused = crash.first(SpillRefused)
    return refused.program if refused is not None else None


def spilling_memory(crash: Crash) -> str | None:
    """What it had of its memory limit in use."""
    refused = crash.first(SpillRefused)
    if refused is None or not refused.used_bytes or not refused.limit_bytes:
        return None
    return beside(refused.used_bytes, refused.limit_bytes) if refused.used_bytes <= refused.limit_bytes else None


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


def too_many_requested(crash: Crash) -> str | None:
    """What is requested of the resource that the cluster has less of: "6 GPUs"."""
    lacking = _lacking(crash)
    return _amount(lacking[0], lacking[1]) if lacking is not None else None


def cluster_has(crash: Crash) -> str | None:
    """What the cluster has of it: "4"."""
    lacking = _lacking(crash)
    if lacking is None:
        return None
    return brief(round(lacking[2])) if "memory" in lacking[0] else f"{lacking[2]:g}"


def unplaced(crash: Crash) -> str | None:
    """The request that waits: "1 GPU and 1 CPU", "a placement group of 4 x (1 GPU, 1 CPU)"."""
    request = request_of(crash)
    if request is None:
        return None
    amounts = list(_amounts(request))
    if not amounts:
        return _bundles(request)
    what, count = listed(amounts), request.count or 1
    if request.placement_group:
        what = say("{count} x ({what})", count=count, what=what) if count > 1 else what
        return say("a placement group of {what}", what=what)
    return say("{count} x ({what})", count=count, what=what) if count > 1 else what


def placing_ended(crash: Crash) -> str | None:
    """What became of the request."""
    request = request_of(crash)
    if request is None:
        return None
    match request.state:
        case "infeasible":
            return say("no node can provide it")
        case "timeout":
            return say("given up after {seconds:g} s", seconds=request.seconds) if request.seconds else say("given up")
        case "scattered":
            return say("free in the cluster, but not on one node")
        case "supervisor":
            return say("the job's supervisor has no room either")
    if request.repeats > 1:
        return say("requested {count} times", count=request.repeats)
    return say("still waiting at the end of the log")


def _bundles(request: Unschedulable) -> str | None:
    if not request.bundles:
        return None
    bundles = counted(request.bundles, mark("{count} bundle"), mark("{count} bundles"))
    return say("a placement group of {what}", what=bundles)


def _amounts(request: Unschedulable) -> Iterator[str]:
    ordered = sorted((request.requested or {}).items(), key=lambda each: each[0] != "GPU")
    for name, amount in ordered[:4]:
        if not name.startswith(("node:", "object_store")):
            yield _amount(name, amount)


def _amount(name: str, amount: float) -> str:
    if name == "GPU":
        return (
            counted(1, mark("{amount} GPU"), "", amount=f"{amount:g}")
            if amount == 1
            else say("{amount} GPUs", amount=f"{amount:g}")
        )
    if name == "CPU":
        return say("{amount} CPU", amount=f"{amount:g}") if amount == 1 else say("{amount} CPUs", amount=f"{amount:g}")
    return f"{brief(round(amount))} {name}" if "memory" in name else f"{amount:g} {name}"


def _lacking(crash: Crash) -> tuple[str, float, float] | None:
    """A resource, what is requested of it and what the cluster has, where that is less; GPUs first."""
    request = request_of(crash)
    if request is None:
        return _counted_in_words(crash)
    have, asked = cluster(crash, request), asked_gpus(crash)
    if asked is not None and have.get("GPU") is not None and asked.gpus > have["GPU"]:
        return "GPU", float(asked.gpus), have["GPU"]
    ordered = sorted((request.requested or {}).items(), key=lambda each: each[0] != "GPU")
    for name, amount in ordered if have else ():
        wanted, there = amount * (request.count or 1), have.get(name, 0.0)
        if wanted > there and (name in have or name in ("GPU", "CPU")):
            return name, wanted, there
    return None


def _counted_in_words(crash: Crash) -> tuple[str, float, float] | None:
    root = crash.root
    if not isinstance(root, Shortage) or root.unit != "devices" or root.needed is None or root.available is None:
        return None
    return ("GPU", root.needed, root.available) if root.available < root.needed <= MOST_DEVICES else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        object_size, store_too_small, store_full, store_waits, store_caller, store_of_node, unlisted, store_requested,
        store_in_ram, disk_free, disk_share, disk_object, spilled, disk_errno, disk_quota, spilling_program,
        spilling_memory, shm_user, shm_requested, shm_size, shm_there, volume_limit, too_many_requested, cluster_has,
        unplaced, placing_ended,
    )
}  # fmt: skip
