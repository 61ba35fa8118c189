"""Memory failures of JAX and TensorFlow: XLA's RESOURCE_EXHAUSTED, the BFC allocator, TPU programs."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOutOfMemory(Event):
    """JAX or TensorFlow could not get memory for an array or a program."""

    family = "jax_tf"
    kind = "array-out-of-memory"

    pool: str = "gpu"  # "host_ram" where the allocator is the CPU's
    strength: int = 3

    framework: str  # jax, tensorflow
    tried_bytes: int | None = usage()
    used_bytes: int | None = usage()
    total_bytes: int | None = usage()
    exceeded_bytes: int | None = usage()
    shape: str | None = None
    dtype: str | None = None
    allocator: str | None = None
