"""Ray's object store, and the disk behind it."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.budget import SpillRefused
from oomdoctor.families.df import DiskUsage
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_store import DiskFull, Spilled, StoreFull, StoreUsage
from oomdoctor.families.traceback_cut import CutProgram
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import NodeMemory, node_memory, ray_kill, store_bytes
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import SHM, WHOLE_LOG
from oomdoctor.units import percent, show

# Of what is in use on the node when Ray kills: from here on the store is what fills it.
MOST: Final = 0.4
MUCH: Final = 0.25
LITTLE: Final = 0.05
FULL: Final = 0.95  # from here on Ray spills whatever it can
SESSIONS: Final = "/tmp/ray"  # noqa: S108  (Ray's own folder)
NO_QUOTA: Final = 122  # EDQUOT


@sign
def object_did_not_fit(crash: Crash) -> Seen | None:
    """Ray rejects an object because the object store has no room."""
    event = crash.first(StoreFull)
    if event is None:
        return None
    return Seen(words=_did_not_fit(event.object_bytes, event.capacity_bytes), evidence=(event,), pool="object_store")


@sign
def disk_behind_the_store_is_full(crash: Crash) -> Seen | None:
    """Nothing can be spilled: the object store is full and so is its disk."""
    event = refused_write(crash)
    if event is None:
        return None
    return Seen(
        words=say("The object store was full, and the disk had no room for spilled objects."),
        evidence=(event,),
        against=(say("the disk behind the store is full; a larger store only delays the failure"),),
        pool="object_store",
    )


@sign
def objects_wait_for_room(crash: Crash) -> Seen | None:
    """The object store's statistics show waiting objects, and nothing that can be spilled."""
    event = next((usage for usage in crash.every(StoreUsage) if usage.strength), None)
    if event is None:
        return None
    words = say(
        "The object store holds {used} of {capacity} and nothing in it can be spilled. Waiting objects: "
        "{count} ({pending}).",
        used=show(event.used_bytes or 0),
        capacity=show(event.capacity_bytes or 0),
        count=event.pending_objects,
        pending=show(event.pending_bytes or 0),
    )
    return Seen(words=words, evidence=(event,), pool="object_store")


@sign
def cut_while_an_object_was_stored(crash: Crash) -> Seen | None:
    """The log ends inside a traceback through the call that puts an object into Ray's object store."""
    if not isinstance(crash.root, CutProgram) or crash.root.step != "store":
        return None
    words = say("The traceback ends in the call that stores an object in Ray's object store.")
    return Seen(words=words, evidence=(crash.root,), next_evidence=(WHOLE_LOG, SHM))


@sign
def store_was_full_and_spilled(crash: Crash) -> Seen | None:
    """`ray memory` shows the object store 95% full, with objects on disk, and the failure is one of the store."""
    usage = _full_usage(crash)
    if usage is None or crash.pool != "object_store":
        return None
    return _full(crash, usage)


@sign
def store_was_full_beside_a_death(crash: Crash) -> Seen | None:
    """`ray memory` shows the object store 95% full, with objects on disk, and a worker of Ray died for no printed
    reason."""
    usage = _full_usage(crash)
    if usage is None or not isinstance(crash.root, WorkerDeath) or crash.proven:
        return None
    seen = _full(crash, usage)
    return replace(seen, against=(say("a full store spills and goes on; the log does not explain the death"),))


def _full_usage(crash: Crash) -> StoreUsage | None:
    full = (usage for usage in crash.every(StoreUsage) if (usage.used_fraction or 0) >= FULL)
    overflows = any(one.spilled_bytes for one in crash.every(Spilled))
    return next((usage for usage in full if overflows or usage.fallback_bytes), None)


def _full(crash: Crash, usage: StoreUsage) -> Seen:
    spilled = [one for one in crash.every(Spilled) if one.spilled_bytes]
    on_disk = show(spilled[-1].spilled_bytes or 0) if spilled else show(usage.fallback_bytes or 0)
    words = say(
        "Ray's object store is {share} full ({used}), and {on_disk} of objects went to disk.",
        share=percent(usage.used_fraction),
        used=show(usage.used_bytes or 0),
        on_disk=on_disk,
    )
    return Seen(words=words, evidence=(usage, *spilled[-1:]), pool="object_store")


@sign
def store_fills_the_node(crash: Crash) -> Seen | None:
    """The object store holds 40% of the memory in use at the kill."""
    return _part_of_the_node(crash, MOST)


@sign
def store_holds_much_of_the_node(crash: Crash) -> Seen | None:
    """The object store holds a quarter of the memory in use at the kill."""
    return _part_of_the_node(crash, MUCH)


@sign
def store_holds_little_of_the_node(crash: Crash) -> Seen | None:
    """The object store holds less than 5% of the memory in use at the kill."""
    share = _share(crash)
    if share is None or share >= LITTLE or _store_is_the_matter(crash):
        return None
    kill, held = _kill(crash)
    words = say(
        "Ray's object store holds {held} of the {used} in use ({share})",
        held=show(held or 0),
        used=show((kill.used_bytes if kill else 0) or 0),
        share=percent(share),
    )
    return Seen(words=words)


@sign
def much_stands_in_no_row(crash: Crash) -> Seen | None:
    """Before Ray 2.55 the log does not say how full the object store is; 40% of the memory in use is in no row of the
    table."""
    kill, held = _kill(crash)
    memory = node_memory(crash)
    if kill is None or held is not None or memory is None or memory.cut or not kill.used_bytes:
        return None
    missing = kill.used_bytes - memory.listed_bytes
    if missing < MOST * kill.used_bytes:
        return None
    return Seen(
        words=say(
            "{missing} of the {used} in use is not in the table: shared memory (most often Ray's object "
            "store) or processes outside the table.",
            missing=show(missing),
            used=show(kill.used_bytes),
        ),
        evidence=(kill,),
        against=(say("the log does not say how full the object store was"),),
        pool="object_store",
    )


@sign
def program_found_no_space_to_spill(crash: Crash) -> Seen | None:
    """A program that writes to disk what does not fit in memory found no space there."""
    refused = crash.first(SpillRefused)
    if refused is None:
        return None
    words = say("Data that did not fit in memory had to go to disk, and the disk had no room.")
    return Seen(words=words, evidence=(refused,))


@sign
def df_shows_the_disk_full(crash: Crash) -> Seen | None:
    """Objects went to disk, a worker of Ray died for no printed reason, and df shows the disk of /tmp/ray 95% full."""
    disk = spill_disk(crash)
    if disk is None or not isinstance(crash.root, WorkerDeath) or crash.proven:
        return None
    words = say(
        "Ray spilled objects to disk, and df shows {mount} {share} full. Ray stops spilling at 95%.",
        mount=disk.mount,
        share=percent(disk.used_fraction),
    )
    doubt = say("the log does not show that Ray could not spill")
    return Seen(words=words, evidence=(disk, crash.root), against=(doubt,), pool="object_store")


def spill_disk(crash: Crash) -> DiskUsage | None:
    """The mount that holds Ray's temporary folder, where it is full and objects were spilled."""
    holding = [one for one in crash.every(DiskUsage) if f"{SESSIONS}/".startswith(one.mount.rstrip("/") + "/")]
    disk = max(holding, key=lambda one: len(one.mount), default=None)
    if disk is None or (disk.used_fraction or 0) < FULL or not crash.every(Spilled):
        return None
    return disk


@sign
def spill_worker_found_no_space(crash: Crash) -> Seen | None:
    """The process that spills Ray's objects to disk found no space."""
    refused = refused_write(crash)
    if refused is None or not refused.io_worker:
        return None
    words = (
        say(
            "Ray spills objects from the full store to disk, and its spill worker reports that the disk quota "
            "is used up."
        )
        if refused.errno == NO_QUOTA
        else say("Ray spills objects from the full store to disk, and its spill worker reports no space left.")
    )
    return Seen(words=words, evidence=(refused,), pool="object_store")


@sign
def write_failed_after_spilling(crash: Crash) -> Seen | None:
    """Ray had spilled, then a write found no space; the log does not say whose write."""
    refused = refused_write(crash)
    if refused is None or refused.io_worker or not refused.spilling:
        return None
    spilled = max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0)
    return Seen(
        words=say("Ray spilled {spilled} of objects to disk; then a write found no space left.", spilled=show(spilled)),
        evidence=(refused, *crash.every(Spilled)[-1:]),
        against=(say("the failed write may belong to another program"),),
        pool="object_store",
    )


@sign
def store_and_disk_are_full(crash: Crash) -> Seen | None:
    """Ray says that an object found room neither in the object store nor on disk."""
    refused = refused_write(crash)
    if refused is None:
        return None
    warned = _warning(crash)
    words = say("An object could not be created: the object store and its spill disk are full.")
    return Seen(
        words=joined((words, _room(warned) if warned is not None else "")),
        evidence=tuple(event for event in (refused, warned) if event is not None),
        pool="object_store",
    )


@sign
def disk_is_nearly_full(crash: Crash) -> Seen | None:
    """Ray warns that the disk is nearly full; no object was rejected yet."""
    warned = _warning(crash)
    if warned is None:
        return None
    return Seen(
        words=joined((_room(warned), say("Ray rejects objects as soon as one has to be spilled."))),
        evidence=(warned,),
        against=(say("no object was rejected in this log"),),
        shows_memory=True,
        pool="object_store",
    )


def _did_not_fit(size: int | None, capacity: int | None) -> str:
    if size and capacity and size > capacity:
        return say(
            "An object of {size} did not fit in Ray's object store of {capacity}: the object alone is larger.",
            size=show(size),
            capacity=show(capacity),
        )
    if size and capacity:
        return say(
            "An object of {size} did not fit in Ray's object store of {capacity}.",
            size=show(size),
            capacity=show(capacity),
        )
    if size:
        return say("An object of {size} did not fit in Ray's object store.", size=show(size))
    if capacity:
        return say("An object did not fit in Ray's object store of {capacity}.", capacity=show(capacity))
    return say("An object did not fit in Ray's object store.")


def refused_write(crash: Crash) -> DiskFull | None:
    return next((event for event in crash.every(DiskFull) if not event.warning), None)


def _warning(crash: Crash) -> DiskFull | None:
    return next((event for event in crash.every(DiskFull) if event.warning), None)


def only_the_disk_is_short(crash: Crash) -> bool:
    """Ray warns of the disk, and nothing says that the object store is full, or that a write to the disk failed."""
    return _warning(crash) is not None and refused_write(crash) is None and crash.first(StoreFull) is None


def _room(warned: DiskFull) -> str:
    left, total, share = warned.available_bytes, warned.total_bytes, percent(warned.fraction)
    if left is None or total is None:
        return say("The disk is more than {share} full.", share=share)
    return say(
        "The disk is more than {share} full: {left} of {total} is left.",
        share=share,
        left=show(left),
        total=show(total),
    )


def _store_is_the_matter(crash: Crash) -> bool:
    signs = (object_did_not_fit, disk_behind_the_store_is_full, objects_wait_for_room)
    return any(sign_of_it(crash) is not None for sign_of_it in signs)


def _kill(crash: Crash) -> tuple[NodeOutOfMemory | None, int | None]:
    """The kill, and what the store held at it or at most."""
    kill = ray_kill(crash)
    return kill, store_bytes(crash, kill) if kill is not None else None


def _share(crash: Crash) -> float | None:
    kill, held = _kill(crash)
    return held / kill.used_bytes if kill is not None and kill.used_bytes and held is not None else None


def _part_of_the_node(crash: Crash, least: float) -> Seen | None:
    share = _share(crash)
    kill, held = _kill(crash)
    if share is None or share < least or kill is None or not kill.used_bytes or held is None:
        return None
    figures = {"held": show(held), "used": show(kill.used_bytes), "share": percent(share)}
    words = (
        say(
            "Ray's object store holds {held} of the {used} in use ({share}); its pages count in the rows of "
            "the processes that wrote them.",
            **figures,
        )
        if _stands_in_rows(node_memory(crash), kill.used_bytes - held)
        else say("Ray's object store holds {held} of the {used} in use ({share}).", **figures)
    )
    printed = kill.object_store_bytes is not None or kill.shared_bytes is not None
    return Seen(
        words=words,
        evidence=(kill, *crash.every(StoreUsage)[:1]),
        against=() if printed else (say("the log does not show the object store at the kill; this is its maximum"),),
        pool="object_store",
    )


def _stands_in_rows(memory: NodeMemory | None, others_bytes: int) -> bool:
    """A page counts for the process that wrote it as long as nobody else has touched it."""
    return memory is not None and memory.listed_bytes > others_bytes
