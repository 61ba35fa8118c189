"""GPU memory failures without figures: the driver or the runtime refuses, PyTorch cannot say more."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRefusal(Event):
    """The device said "out of memory" and nothing else."""

    family = "cuda_error"
    kind = "device-refusal"

    pool: str = "gpu"  # "pinned" where page-locked host memory was asked for
    strength: int = 2

    device: str  # CUDA, HIP, ...
    # Who was asked: "runtime", "driver", "cumem" (the engine's sleep allocator), "thc" (PyTorch up to 0.4),
    # "nvml" (an out-of-memory report that itself failed)
    layer: str
    source: str | None = None  # the C++ file and line it names
