"""Slots about GPUs that a process, or Ray, may see."""

from __future__ import annotations

from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.ray_schedule import ClusterStarted, ClusterStatus, Unschedulable
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, say
from oomdoctor.report.headline.figures import GPUS
from oomdoctor.report.headline.slot import about, first


@about(first(GpuVisibility))
def gpus_wanted(seen: GpuVisibility) -> str | None:
    """How many GPUs were requested, where fewer are visible."""
    if seen.asked is None or seen.visible is None or seen.asked <= seen.visible:
        return None
    return counted(seen.asked, *GPUS)


@about(first(GpuVisibility))
def gpus_visible(seen: GpuVisibility) -> str | None:
    """How many of them the process may see."""
    return str(seen.visible) if seen.visible is not None else None


@about(first(GpuVisibility))
def visible_mask(seen: GpuVisibility) -> str | None:
    """CUDA_VISIBLE_DEVICES as printed."""
    return f"CUDA_VISIBLE_DEVICES={seen.mask}" if seen.mask else None


@about(first(GpuVisibility))
def ordinal(seen: GpuVisibility) -> str | None:
    """The GPU that the process asks for and may not see."""
    if seen.problem != "invalid-ordinal":
        return None
    return say("GPU {number}", number=seen.ordinal) if seen.ordinal is not None else say("a GPU")


def sees_none(crash: Crash) -> str | None:
    """The process that finds no GPU at all."""
    seen = crash.first(GpuVisibility)
    if seen is None or seen.problem in ("more-than-visible", "invalid-ordinal"):
        return None
    ray = "ray::" in " ".join(crash.root.around.before) or "ray" in crash.context.frameworks
    return say("the Ray worker") if ray else say("the process")


def ray_told(crash: Crash) -> str | None:
    """How many GPUs Ray was started with, where it counts fewer."""
    started, has = crash.first(ClusterStarted), _counted_by_ray(crash)
    told = started.num_gpus if started is not None else None
    return counted(int(told), *GPUS) if told is not None and has is not None and has < told else None


def ray_wanted(crash: Crash) -> str | None:
    """How many GPUs a request waits for, where Ray counts fewer."""
    wants = ((r.requested or {}).get("GPU", 0.0) * (r.count or 1) for r in crash.every(Unschedulable))
    most, has = max(wants, default=0.0), _counted_by_ray(crash)
    return say("{count:g} GPUs", count=most) if has is not None and has < most and most > 1 else None


def _counted_by_ray(crash: Crash) -> float | None:
    status = crash.first(ClusterStatus)
    return (status.total or {}).get("GPU", 0.0) if status is not None else None


@about(_counted_by_ray)
def ray_counts(gpus: float) -> str | None:
    """How many GPUs Ray counts."""
    return f"{gpus:g}"
