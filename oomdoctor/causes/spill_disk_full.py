"""The disk that Ray spills to, or keeps its session on, is full."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.ray_store import DiskFull, Spilled
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import percent, show

NO_QUOTA = 122


def judge(crash: Crash) -> Judgement | None:
    events = crash.every(DiskFull)
    if not events:
        return None
    refused = next((event for event in events if not event.warning), None)
    if refused is None:
        return _nearly_full(events[0])
    if refused.io_worker:
        return Finding(
            weight=0.92,
            why=say(
                "Ray moves objects from the full store to disk, and the process that writes them "
                "reports that its quota is used up."
            )
            if refused.errno == NO_QUOTA
            else say(
                "Ray moves objects from the full store to disk, and the process that writes them "
                "reports that there is no space left."
            ),
            evidence=(refused,),
            pool="object_store",
        )
    if refused.spilling:
        spilled = max((event.spilled_bytes or 0 for event in crash.every(Spilled)), default=0)
        return Finding(
            weight=0.8,
            why=say(
                "Ray spilled {spilled} of objects to disk, and then a write found no space left.", spilled=show(spilled)
            ),
            evidence=(refused, *crash.every(Spilled)[-1:]),
            against=(say("the write that failed may have been another program's"),),
            pool="object_store",
        )
    warned = next((event for event in events if event.warning), None)
    told = say("An object could not be created: the object store is full and so is the disk it spills to.")
    return Finding(
        weight=0.93,
        why=joined((told, _room(warned) if warned is not None else "")),
        evidence=tuple(event for event in (refused, warned) if event is not None),
        pool="object_store",
    )


def _nearly_full(warned: DiskFull) -> Finding:
    return Finding(
        weight=0.6,
        shows_memory=True,
        why=joined((_room(warned), say("Objects are refused as soon as one has to be spilled."))),
        evidence=(warned,),
        against=(say("no object was refused in this log"),),
        pool="object_store",
    )


def _room(warned: DiskFull) -> str:
    left, total, share = warned.available_bytes, warned.total_bytes, percent(warned.fraction)
    if left is None or total is None:
        return say("The disk is over {share} full.", share=share)
    return say(
        "The disk is over {share} full: {left} left of {total}.", share=share, left=show(left), total=show(total)
    )


CAUSE = Cause(
    id="spill-disk-full",
    title=mark("The disk that Ray's object store spills to is full"),
    pools=("object_store", "host_ram", "cgroup"),
    knobs=("free-disk", "bigger-object-store", "stream-data", "clear-references"),
    rule=judge,
)
