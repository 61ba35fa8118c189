"""The errors in which vLLM itself says that memory is short (or that it cannot tell), from 0.1 to 0.33."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class NoCacheBlocks(Event):
    """The budget has no room for a single KV-cache block."""

    family = "vllm_error"
    kind = "no-cache-blocks"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 2

    backend: str = "gpu"  # "cpu" and "openvino" have their own environment variable for the size


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextDoesNotFit(Event):
    """One request of the full length needs more KV cache than there is."""

    family = "vllm_error"
    kind = "context-does-not-fit"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 3

    needed_bytes: int | None = usage()
    kv_bytes: int | None = usage()  # may be negative
    kv_tokens: int | None = usage()  # V0 counts tokens instead of bytes
    estimated_tokens: int | None = usage()  # the longest context that fits, by vLLM's own reckoning
    max_model_len: int | None = threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEnoughFree(Event):
    """At start, less of the card is free than the engine's share of it."""

    family = "vllm_error"
    kind = "not-enough-free"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 3

    free_bytes: int | None = usage()
    total_bytes: int | None = usage()
    utilization: float | None = threshold()
    requested_bytes: int | None = threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilingDisturbed(Event):
    """Free memory grew while the engine measured: a neighbour gave memory back, nothing is short."""

    family = "vllm_error"
    kind = "profiling-disturbed"

    pool: str = "gpu"
    stage: str = "memory_profiling"
    strength: int = 2

    initial_free_bytes: int | None = usage()
    current_free_bytes: int | None = usage()
    initial_used_bytes: int | None = usage()
    current_used_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmupOutOfMemory(Event):
    """The sampler (or pooler) ran out of device memory with its dummy requests."""

    family = "vllm_error"
    kind = "warmup-out-of-memory"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 2

    what: str = "sampler"  # or "pooler"
    requests: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsDoNotFit(Event):
    """Loading the model ran out of device memory; the engine has reserved nothing by then."""

    family = "vllm_error"
    kind = "weights-do-not-fit"

    pool: str = "gpu"
    stage: str = "model_load"
    strength: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SequencesExceedState(Event):
    """More sequences are asked for than there are blocks for the Mamba layers' state."""

    family = "vllm_error"
    kind = "sequences-exceed-state"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 3

    state_blocks: int | None = usage()
    max_num_seqs: int | None = threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapSpaceTooLarge(Event):
    """The swap space of all GPUs together is more of the node's RAM than vLLM allows itself."""

    family = "vllm_error"
    kind = "swap-space-too-large"

    pool: str = "host_ram"
    stage: str = "engine_init"
    strength: int = 3

    swap_bytes: int | None = usage()
    host_total_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapSpaceExhausted(Event):
    """V0, while serving: the KV cache is full and so is the host memory that sequences are swapped to."""

    family = "vllm_error"
    kind = "swap-space-exhausted"

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeFailed(Event):
    """The sleep-mode allocator got no memory for what it has to map: somebody else holds it."""

    family = "vllm_error"
    kind = "wake-failed"

    pool: str = "gpu"
    stage: str = "weight_sync"
    strength: int = 2

    source_line: int | None = None
