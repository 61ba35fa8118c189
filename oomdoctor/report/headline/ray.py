"""Slots about Ray's object store and the disk behind it."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.ray_store import DiskFull, Spilled, StoreFull, StoreTooLarge, StoreUsage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import ray_kill, store_bytes
from oomdoctor.job.roles import short_name
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief, briefly
from oomdoctor.report.headline.slot import about, first
from oomdoctor.signs.node import table
from oomdoctor.signs.store import MOST, df_shows_the_disk_full, refused_write, spill_disk
from oomdoctor.units import percent, show

# Behind the name of a task of Dask
_ID: Final = late(r"-[0-9a-f]{8}(?:-[0-9a-f]{0,12}){1,4}$|-[0-9a-f]{16,64}$")


def _shortage(crash: Crash) -> StoreUsage | None:
    return next((usage for usage in crash.every(StoreUsage) if usage.strength), None)


@about(first(StoreFull))
def object_size(full: StoreFull) -> str | None:
    """The object that Ray's store refused."""
    return briefly(full.object_bytes)


@about(first(StoreFull))
def store_too_small(full: StoreFull) -> str | None:
    """The store's capacity, where the refused object alone is larger."""
    return briefly(full.capacity_bytes) if (full.object_bytes or 0) > (full.capacity_bytes or 0) else None


def store_full(crash: Crash) -> str | None:
    """What the store holds: "3 of 3 GiB in use", or beyond its capacity "20 GiB in use, room for 14.7 GiB"."""
    event = crash.first(StoreFull) or _shortage(crash)
    if event is None or not event.used_bytes or not event.capacity_bytes:
        return None
    if event.used_bytes <= event.capacity_bytes:
        return say("{figures} used", figures=beside(event.used_bytes, event.capacity_bytes))
    return say("{used} in use, room for {room}", used=brief(event.used_bytes), room=brief(event.capacity_bytes))


@about(_shortage)
def store_waits(usage: StoreUsage) -> str | None:
    """How many objects wait for room, and how large they are together."""
    if not usage.pending_objects or not usage.pending_bytes:
        return None
    size = brief(usage.pending_bytes)
    return counted(
        usage.pending_objects, mark("{count} object of {size}"), mark("{count} objects of {size}"), size=size
    )


@about(first(StoreFull))
def store_caller(full: StoreFull) -> str | None:
    """The remote call whose object found no room."""
    name = full.process.name or next(iter(full.callers), None)
    return short_name(_ID.sub("", name)) if name else None


def store_of_node(crash: Crash) -> str | None:
    """What the store held of what was in use on the node when Ray killed."""
    kill = ray_kill(crash)
    return beside(store_bytes(crash, kill), kill.used_bytes) if kill is not None else None


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
    return next((briefly(store.requested_bytes) for store in crash.every(StoreTooLarge) if store.strength), None)


def store_excess(crash: Crash) -> str | None:
    """How much larger it is than /dev/shm, where both look the same in three digits."""
    for store in crash.every(StoreTooLarge):
        if store.strength and store.requested_bytes and store.shm_bytes:
            alike = briefly(store.requested_bytes) == briefly(store.shm_bytes)
            return briefly(store.requested_bytes - store.shm_bytes) if alike else None
    return None


def store_in_ram(crash: Crash) -> str | None:
    """Ray's object store, where it was refused for want of RAM and not of /dev/shm."""
    refused = any(store.refused and store.pool != "shm" for store in crash.every(StoreTooLarge))
    return say("Ray's object store") if refused else None


def disk_free(crash: Crash) -> str | None:
    """What is free of the disk that Ray spills to, by its warning: "42.7 of 876 GiB"."""
    for event in crash.every(DiskFull):
        if event.available_bytes == 0:
            return show(0)
        if share := beside(event.available_bytes, event.total_bytes):
            return share
    return None


def disk_share(crash: Crash) -> str | None:
    """From which share on Ray stops using that disk."""
    shares = (percent(event.fraction) for event in crash.every(DiskFull) if event.fraction)
    return next((share.replace(".0%", "%") for share in shares), None)


def disk_object(crash: Crash) -> str | None:
    """The object that found room neither in the store nor on the disk."""
    return next((briefly(event.object_bytes) for event in crash.every(DiskFull) if event.object_bytes), None)


def spilled(crash: Crash) -> str | None:
    """How much Ray had spilled."""
    return briefly(max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0))


@about(refused_write)
def full_disk(_: DiskFull) -> str | None:
    """The disk behind the store, where a write to it failed."""
    return say("the disk that it spills to")


@about(refused_write)
def disk_errno(refusal: DiskFull) -> str | None:
    """The error number of the write that failed."""
    number = refusal.errno or (28 if "Errno 28" in refusal.at.text else None)
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


@about(first(SpillRefused))
def spilling_program(refusal: SpillRefused) -> str | None:
    """A program beside Ray that found no room for what it spills."""
    return refusal.program


@about(first(SpillRefused))
def spilling_folder(refusal: SpillRefused) -> str | None:
    """Where that was to lie."""
    return refusal.folder


@about(first(SpillRefused))
def spilling_memory(refusal: SpillRefused) -> str | None:
    """What it had of its memory limit in use."""
    return beside(refusal.used_bytes, refusal.limit_bytes)
