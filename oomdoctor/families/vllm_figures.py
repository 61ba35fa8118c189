"""What vLLM prints about its memory while it starts, sleeps and wakes: figures, never failures."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsLoaded(Event):
    """What loading the weights took on one GPU (one rank's share)."""

    family = "vllm_figures"
    kind = "weights-loaded"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    weights_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryProfile(Event):
    """The engine's account of one GPU after its profiling run: what its budget is and what goes into it."""

    family = "vllm_figures"
    kind = "memory-profile"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "memory_profiling"

    total_bytes: int | None = usage()
    free_bytes: int | None = usage()  # when the engine started; includes nothing of its own
    free_after_bytes: int | None = usage()  # after the profiling run
    weights_bytes: int | None = usage()
    non_torch_bytes: int | None = usage()
    consumed_bytes: int | None = usage()  # weights and non-torch together, from 0.28 on
    activation_bytes: int | None = usage()
    graph_bytes: int | None = usage()
    kv_bytes: int | None = usage()  # what is left for the KV cache, or is in use by it; may be negative
    kv_to_fit_bytes: int | None = usage()  # the engine's own --kv-cache-memory suggestion for its budget
    kv_to_fill_bytes: int | None = usage()  # ... and for the whole card
    utilization: float | None = threshold()
    requested_bytes: int | None = threshold()


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCacheSize(Event):
    """How large the KV cache became on one GPU, in bytes, blocks or tokens: what the line prints of it."""

    family = "vllm_figures"
    kind = "kv-cache-size"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "kv_cache_init"

    kv_bytes: int | None = usage()  # may be negative
    gpu_blocks: int | None = usage()
    cpu_blocks: int | None = usage()
    tokens: int | None = usage()
    concurrency: float | None = usage()  # how many requests of the full length fit at once
    request_tokens: int | None = threshold()  # that full length: max_model_len


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphCapture(Event):
    """CUDA graphs: that capturing began, what it is estimated to take, what it took."""

    family = "vllm_figures"
    kind = "graph-capture"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "cuda_graph_capture"

    phase: str  # "begun", "estimated", "finished"
    graph_bytes: int | None = usage()  # what it took; may be negative
    estimated_bytes: int | None = usage()
    utilization: float | None = None  # the setting, where the line prints it
    equivalent_utilization: float | None = None  # what it amounts to without the estimate
    compensating_utilization: float | None = None  # what would give the KV cache its old size back


@dataclass(frozen=True, slots=True, kw_only=True)
class Sleep(Event):
    """The engine gave memory back, or took it again: level 1 keeps a pinned copy of the weights in host RAM."""

    family = "vllm_figures"
    kind = "sleep"

    role: Role = "context"
    pool: str = "gpu"

    phase: str  # "asleep", "awake"
    freed_bytes: int | None = usage()
    device_in_use_bytes: int | None = usage()  # of all processes on the card
    backed_up_bytes: int | None = usage()  # in host RAM
    discarded_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderProfile(Event):
    """The vision or audio encoder is about to be profiled with items of the largest size."""

    family = "vllm_figures"
    kind = "encoder-profile"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "memory_profiling"

    modality: str | None = None  # "image", "video", "audio"
    items: int | None = None
    budget_tokens: int | None = None
