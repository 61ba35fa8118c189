"""The devices a process was given and the devices it finds do not agree."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuVisibility(Event):
    """No GPU where one was asked for, a device number that is not there, or a count that contradicts the mask."""

    family = "gpu_visibility"
    kind = "gpu-visibility"

    pool: str = "scheduling"
    strength: int = 3

    # "no-gpu", "invalid-ordinal", "more-than-visible", "not-available" (a count of devices is compared)
    problem: str = "no-gpu"
    asked: int | None = None  # GPUs wanted
    visible: int | None = None  # GPUs there
    mask: str | None = None  # CUDA_VISIBLE_DEVICES as printed
    ordinal: int | None = None
