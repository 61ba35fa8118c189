"""Slots about Ray's object store and the disk behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.ray_store import DiskFull, Spilled, StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import ray_kill, store_bytes
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.signs.node import table
from oomdoctor.signs.store import MOST, df_shows_the_disk_full, spill_disk
from oomdoctor.units import percent

# Behind the name of a task of Dask
_ID: Final = late(r"-[0-9a-f]{8}(?:-[0-9a-f]{0,12}){1,4}$|-[0-9a-f]{16,64}$")


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
        return say("{figures} used", figures=beside(event.used_bytes, event.capacity_bytes))
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
    name = (full.process.name or next(iter(full.callers), None)) if full is not None else None
    return short_name(_ID.sub("", name)) if name else None


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
    return percent(warning.fraction).replace(".0%", "%") if warning is not None else None


def disk_object(crash: Crash) -> str | None:
    """The object that found room neither in the store nor on the disk."""
    refused = next((event for event in crash.every(DiskFull) if event.object_bytes), None)
    return brief(refused.object_bytes) if refused is not None and refused.object_bytes else None


def spilled(crash: Crash) -> str | None:
    """How much Ray had spilled."""
    most = max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0)
    return brief(most) if most else None


def full_disk(crash: Crash) -> str | None:
    """The disk behind the store, where a write to it failed."""
    refused = any(not event.warning for event in crash.every(DiskFull))
    return say("the disk that it spills to") if refused else None


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


def df_mount(crash: Crash) -> str | None:
    """The full mount that holds Ray's temporary folder, by df."""
    disk = spill_disk(crash) if df_shows_the_disk_full(crash) is not None else None
    return disk.mount if disk is not None else None


def df_share(crash: Crash) -> str | None:
    """How full it is."""
    disk = spill_disk(crash) if df_shows_the_disk_full(crash) is not None else None
    return percent(disk.used_fraction) if disk is not None else None


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


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        object_size, store_too_small, store_full, store_waits, store_caller, store_of_node, unlisted, store_requested,
        store_in_ram, disk_free, disk_share, disk_object, full_disk, spilled, disk_errno, disk_quota, spilling_program,
        spilling_memory, df_mount, df_share,
    )
}  # fmt: skip
