"""Signs that the GPU allocator is short but goes on: refused and retried requests, flushed caches."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorPressure(Event):
    """The allocator got over it: context for a failure, and no failure by itself."""

    family = "cuda_warning"
    kind = "allocator-pressure"

    role: Role = "context"
    pool: str = "gpu"
    strength: int = 1

    tried_bytes: int | None = usage()
    free_bytes: int | None = usage()
    total_bytes: int | None = usage()
    retries: int | None = None  # torchtitan's count
    cache_flushes: int | None = None  # DeepSpeed's count
