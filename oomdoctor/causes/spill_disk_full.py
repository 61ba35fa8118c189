"""The disk that Ray spills to, or keeps its session on, is full."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.ray_store import DiskFull, Spilled
from oomdoctor.incident.model import Crash
from oomdoctor.units import percent, show

NO_QUOTA = 122


def judge(crash: Crash) -> Judgement | None:
    events = crash.every(DiskFull)
    if not events:
        return None
    refused = next((event for event in events if not event.warning), None)
    warned = next((event for event in events if event.warning), None)
    if refused is not None and refused.io_worker:
        full = "its quota is used up" if refused.errno == NO_QUOTA else "there is no space left"
        return Finding(
            weight=0.92,
            why=f"Ray moves objects from the full store to disk, and the process that writes them reports that {full}.",
            evidence=(refused,),
            pool="object_store",
        )
    if refused is not None and refused.spilling:
        spilled = max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0)
        return Finding(
            weight=0.8,
            why=f"Ray spilled {show(spilled)} of objects to disk, and then a write found no space left.",
            evidence=(refused, *crash.every(Spilled)[-1:]),
            against=("the write that failed may have been another program's",),
            pool="object_store",
        )
    if refused is not None:
        room = f" {_room(warned)}" if warned is not None else ""
        return Finding(
            weight=0.93,
            why=f"An object could not be created: the object store is full and so is the disk it spills to.{room}",
            evidence=tuple(event for event in (refused, warned) if event is not None),
            pool="object_store",
        )
    if warned is None:
        return None
    return Finding(
        weight=0.6,
        shows_memory=True,
        why=f"{_room(warned)} Objects are refused as soon as one has to be spilled.",
        evidence=(warned,),
        against=("no object was refused in this log",),
        pool="object_store",
    )


def _room(event: DiskFull) -> str:
    limit = f"over {percent(event.fraction)} full" if event.fraction is not None else "nearly full"
    if event.available_bytes is None or event.total_bytes is None:
        return f"The disk is {limit}."
    return f"The disk is {limit}: {show(event.available_bytes)} left of {show(event.total_bytes)}."


CAUSE = Cause(
    id="spill-disk-full",
    title="The disk that Ray's object store spills to is full",
    pools=("object_store", "host_ram", "cgroup"),
    knobs=("free-disk", "bigger-object-store", "stream-data", "clear-references"),
    judge=judge,
)
