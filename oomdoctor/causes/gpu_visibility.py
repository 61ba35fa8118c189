"""CUDA_VISIBLE_DEVICES, num_gpus and the devices there do not agree."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.ray_schedule import ClusterStarted, ClusterStatus, Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say


def judge(crash: Crash) -> Judgement | None:
    event = crash.first(GpuVisibility)
    if event is not None:
        return Finding(weight=0.93 if event.asked is not None else 0.85, why=_why(crash, event), evidence=(event,))
    return _fewer_than_asked(crash)


def _why(crash: Crash, event: GpuVisibility) -> str:
    if event.problem == "more-than-visible":
        return say(
            "Ray was told of {asked} GPUs, but CUDA_VISIBLE_DEVICES lets {visible} through ({mask}).",
            asked=event.asked,
            visible=event.visible,
            mask=event.mask,
        )
    if event.problem == "invalid-ordinal":
        asks = (
            say("The process asks for device {number}, which is not among those it may see.", number=event.ordinal)
            if event.ordinal is not None
            else say("The process asks for device, which is not among those it may see.")
        )
        return joined((asks, _mask(event)))
    worker = ""
    if "ray::" in " ".join(crash.root.around.before) or "ray" in crash.context.frameworks:
        worker = say(
            "A Ray worker sees only the GPUs it asked for: without num_gpus (or resources per trial) it sees none."
        )
    return joined((say("The process finds no GPU at all."), _mask(event), worker))


def _mask(event: GpuVisibility) -> str:
    if event.mask is None:
        return ""
    if not event.mask:
        return say("CUDA_VISIBLE_DEVICES is empty.")
    return say("CUDA_VISIBLE_DEVICES is {mask}.", mask=event.mask)


def _fewer_than_asked(crash: Crash) -> Judgement | None:
    """Ray counts fewer GPUs than a request needs although the head was told of them."""
    requests = [r for r in crash.every(Unschedulable) if (r.requested or {}).get("GPU")]
    if not requests:
        return None
    started = crash.first(ClusterStarted)
    status = crash.first(ClusterStatus)
    seen = (status.total or {}).get("GPU", 0.0) if status is not None else None
    told = started.num_gpus if started is not None else None
    if told is not None and seen is not None:
        if seen < told:
            return Finding(
                weight=0.6,
                why=say("Ray was started with {told:g} GPUs and counts {seen:g}.", told=told, seen=seen),
                evidence=(requests[0],),
            )
        return RuledOut(say("Ray counts the {told:g} GPUs it was started with", told=told))
    wanted = max((r.requested or {}).get("GPU", 0.0) * (r.count or 1) for r in requests)
    if seen is not None and seen < wanted:
        return Finding(
            weight=0.4,
            why=say(
                "{wanted:g} GPUs are asked for and Ray counts {seen:g}: if the machine has more, Ray "
                "was not told of them or may not see them.",
                wanted=wanted,
                seen=seen,
            ),
            evidence=(requests[0],),
            against=(say("how many GPUs the machine has is not in the log"),),
        )
    return None


CAUSE = Cause(
    id="gpu-visibility",
    title=mark("The GPUs asked for and the GPUs a process may see do not agree"),
    pools=("scheduling",),
    knobs=("fix-environment", "fix-resource-request", "add-nodes", "more-gpus"),
    rule=judge,
)
