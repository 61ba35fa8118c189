"""Ray's object store is full, or it is what fills the node."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.host import node_memory, store_bytes
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.ray_store import DiskFull, StoreFull, StoreUsage
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.units import percent, show

# Of what is in use on the node when Ray kills: from here on the store is what fills it.
MOST = 0.4
MUCH = 0.25
LITTLE = 0.05


def judge(crash: Crash) -> Judgement | None:
    full = crash.first(StoreFull)
    if full is not None:
        return _refused(full)
    if any(not event.warning for event in crash.every(DiskFull)):
        return _behind_the_disk(crash)
    stuck = next((usage for usage in crash.every(StoreUsage) if usage.strength), None)
    if stuck is not None:
        return _stuck(stuck)
    return _share_of_the_node(crash)


def _refused(event: StoreFull) -> Finding:
    return Finding(
        weight=0.95, why=_did_not_fit(event.object_bytes, event.capacity_bytes), evidence=(event,), pool="object_store"
    )


def _did_not_fit(size: int | None, capacity: int | None) -> str:
    if size and capacity and size > capacity:
        return say(
            "An object of {size} did not fit into Ray's object store of {capacity}: it alone is larger than the store.",
            size=show(size),
            capacity=show(capacity),
        )
    if size and capacity:
        return say(
            "An object of {size} did not fit into Ray's object store of {capacity}.",
            size=show(size),
            capacity=show(capacity),
        )
    if size:
        return say("An object of {size} did not fit into Ray's object store.", size=show(size))
    if capacity:
        return say("An object did not fit into Ray's object store of {capacity}.", capacity=show(capacity))
    return say("An object did not fit into Ray's object store.")


def _behind_the_disk(crash: Crash) -> Finding:
    """The store is full, too, where nothing can be spilled; the disk is what to mend."""
    event = next(event for event in crash.every(DiskFull) if not event.warning)
    return Finding(
        weight=0.55,
        why=say(
            "The object store was full when the object came; what could have been spilled had no room on the disk."
        ),
        evidence=(event,),
        against=(say("the disk behind the store is full, and a larger store only delays that"),),
        pool="object_store",
    )


def _stuck(event: StoreUsage) -> Finding:
    used, capacity = event.used_bytes or 0, event.capacity_bytes or 0
    return Finding(
        weight=0.9,
        why=say(
            "The store holds {used} with room for {capacity}, nothing in it can be spilled, and "
            "{count} object(s) of {pending} wait.",
            used=show(used),
            capacity=show(capacity),
            count=event.pending_objects,
            pending=show(event.pending_bytes or 0),
        ),
        evidence=(event,),
        pool="object_store",
    )


def _share_of_the_node(crash: Crash) -> Judgement | None:
    kill = crash.first(NodeOutOfMemory)
    if kill is None or not kill.used_bytes:
        return None
    held = store_bytes(crash, kill)
    if held is None:
        return _unseen(crash, kill)
    share = held / kill.used_bytes
    if share < LITTLE:
        return RuledOut(
            say(
                "Ray's object store holds {held} of the {used} in use ({share})",
                held=show(held),
                used=show(kill.used_bytes),
                share=percent(share),
            )
        )
    if share < MUCH:
        return None
    memory = node_memory(crash)
    # Its pages count for the process that wrote them as long as nobody else has touched them.
    in_rows = memory is not None and memory.listed_bytes > kill.used_bytes - held
    return Finding(
        weight=0.92 if share >= MOST else 0.55,
        against=()
        if _printed(kill)
        else (say("how full it was at the kill itself is not printed: this is the most it held"),),
        why=say(
            "Ray's object store holds {held} of the {used} in use ({share}); its pages stand in "
            "the rows of those who wrote them.",
            held=show(held),
            used=show(kill.used_bytes),
            share=percent(share),
        )
        if in_rows
        else say(
            "Ray's object store holds {held} of the {used} in use ({share}).",
            held=show(held),
            used=show(kill.used_bytes),
            share=percent(share),
        ),
        evidence=(kill, *crash.every(StoreUsage)[:1]),
        pool="object_store",
        knobs=("stream-data", "smaller-object-store", "clear-references", "fewer-workers", "more-host-memory"),
    )


def _printed(kill: NodeOutOfMemory) -> bool:
    return kill.object_store_bytes is not None or kill.shared_bytes is not None


def _unseen(crash: Crash, kill: NodeOutOfMemory) -> Judgement | None:
    """Before 2.55 nothing says how full the store is; its pages are in use and may stand in no row."""
    memory = node_memory(crash)
    if memory is None or memory.cut or not kill.used_bytes:
        return None
    missing = kill.used_bytes - memory.listed_bytes
    if missing < MOST * kill.used_bytes:
        return None
    return Finding(
        weight=0.35,
        why=say(
            "{missing} of the {used} in use stand in no row of the table: shared memory, of which "
            "Ray's object store is the most usual, or processes that the table cannot see.",
            missing=show(missing),
            used=show(kill.used_bytes),
        ),
        evidence=(kill,),
        against=(say("how full the object store was is not in the log"),),
        pool="object_store",
        knobs=("collect-evidence", "smaller-object-store", "clear-references", "more-host-memory"),
    )


CAUSE = Cause(
    id="object-store-full",
    title=mark("Ray's object store is full"),
    pools=("object_store", "host_ram", "cgroup"),
    knobs=("bigger-object-store", "stream-data", "clear-references", "fewer-workers", "free-disk", "more-host-memory"),
    rule=judge,
)
