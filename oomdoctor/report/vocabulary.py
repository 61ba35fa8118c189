"""The closed lists of the contract that no other room keeps, each word with what a person reads for it.

What a person reads is marked here, and translated where it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.language import mark, translated

POOLS: Final[Mapping[str, str]] = {
    "host_ram": mark("the node's memory (RAM) ran out"),
    "cgroup": mark("a container's or job's memory limit was hit"),
    "gpu": mark("GPU memory ran out"),
    "kv_cache": mark("there was no room for the KV cache"),
    "object_store": mark("Ray's object store was full"),
    "shm": mark("shared memory (/dev/shm) ran out"),
    "pinned": mark("page-locked host memory was refused"),
    "scheduling": mark("Ray waits for what the cluster does not have"),
    "none": "",
}

# Where nothing says which, and where nothing shows that it was memory.
SOME_MEMORY: Final = mark("memory ran out")
THE_MEMORY: Final = mark("the memory")
NOT_SHOWN: Final = mark("something died, and the log does not show of what")

# The pools themselves.
POOL_NAMES: Final[Mapping[str, str]] = {
    "gpu": mark("GPU memory"),
    "kv_cache": mark("the KV cache"),
    "host_ram": mark("host RAM"),
    "cgroup": mark("the container's memory"),
    "object_store": mark("Ray's object store"),
    "shm": mark("shared memory"),
    "pinned": mark("page-locked memory"),
    "scheduling": mark("the cluster"),
}

STAGES: Final[Mapping[str, str]] = {
    "launch": mark("at launch"),
    "cluster_start": mark("while the cluster started"),
    "model_load": mark("while loading the model"),
    "engine_init": mark("while the engine was set up"),
    "memory_profiling": mark("while the engine measured its memory"),
    "kv_cache_init": mark("while setting up the KV cache"),
    "cuda_graph_capture": mark("while capturing CUDA graphs"),
    "data_load": mark("while loading data"),
    "rollout": mark("during the rollout"),
    "reward": mark("while computing rewards"),
    "logprob": mark("while computing log probabilities"),
    "forward": mark("in the forward pass"),
    "backward": mark("in the backward pass"),
    "optimizer_step": mark("in the optimizer's step"),
    "weight_sync": mark("while sending weights to the engine"),
    "checkpoint_save": mark("while saving a checkpoint"),
    "checkpoint_load": mark("while loading a checkpoint"),
    "eval": mark("during evaluation"),
    "serving": mark("while serving"),
    "shutdown": mark("at shutdown"),
    "unknown": "",
}

# The stage "weight_sync" where the engine's allocator maps its own memory again.
WAKING: Final = mark("while the engine took its memory back")

ROLES: Final = ("root", "cascade", "confirmation", "advice", "context")
BASES: Final = ("printed", "derived", "assumed", "unknown")

# What a person reads for a role and for a basis, which are words of English already.
NAMES: Final = (
    mark("root"), mark("cascade"), mark("confirmation"), mark("advice"), mark("context"),
    mark("printed"), mark("derived"), mark("assumed"), mark("unknown"),
)  # fmt: skip


def failed(pool: str, *, proven: bool) -> str:
    """What ran out, as far as the log shows it."""
    return translated(POOLS.get(pool, pool) or SOME_MEMORY) if proven else translated(NOT_SHOWN)
