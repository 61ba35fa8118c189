"""Ray's object store: full, spilling to a disk that is full, or on a /dev/shm that is too small for it."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFull(Event):
    """An object did not fit into the store: ObjectStoreFullError, or the store's own refusal."""

    family = "ray_store"
    kind = "store-full"

    pool: str = "object_store"
    strength: int = 3

    object_bytes: int | None = usage()
    used_bytes: int | None = usage()
    capacity_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFull(Event):
    """The disk that Ray spills to (or keeps its session on) is full: OutOfDiskError, "is over 95% full"."""

    family = "ray_store"
    kind = "disk-full"

    pool: str = "object_store"
    strength: int = 3

    object_bytes: int | None = usage()
    available_bytes: int | None = usage()
    total_bytes: int | None = usage()
    fraction: float | None = threshold()
    warning: bool | None = None  # only said to be full: nothing was refused


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage(Event):
    """How full the store is: "Plasma store at capacity" and the store's statistics. A full store may still spill."""

    family = "ray_store"
    kind = "store-usage"

    role: Role = "context"
    pool: str = "object_store"

    used_bytes: int | None = usage()
    capacity_bytes: int | None = usage()
    spillable_bytes: int | None = usage()
    spilled_bytes: int | None = usage()
    spillable_objects: int | None = None
    in_use_objects: int | None = None
    pending_bytes: int | None = usage()
    fallback_bytes: int | None = usage()  # already in files on disk, because the store is full


@dataclass(frozen=True, slots=True, kw_only=True)
class Spilled(Event):
    """Objects went to disk or came back: the store works, it is small for the work."""

    family = "ray_store"
    kind = "spilled"

    role: Role = "context"
    pool: str = "object_store"

    spilled_bytes: int | None = usage()
    restored_bytes: int | None = usage()
    objects: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreTooLarge(Event):
    """The store that was asked for is larger than /dev/shm (or than memory): slow with a warning, or refused."""

    family = "ray_store"
    kind = "store-too-large"

    pool: str = "shm"
    strength: int = 3

    requested_bytes: int | None = usage()
    shm_bytes: int | None = usage()
    advised_bytes: int | None = usage()  # what the warning would pass as --shm-size
    refused: bool | None = None
