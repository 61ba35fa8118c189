"""The closed lists of the contract that no other room keeps, each word with what a person reads for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

POOLS: Final[Mapping[str, str]] = {
    "host_ram": "the node's memory (RAM) ran out",
    "cgroup": "a container's or job's memory limit was hit",
    "gpu": "GPU memory ran out",
    "kv_cache": "there was no room for the KV cache",
    "object_store": "Ray's object store was full",
    "shm": "shared memory (/dev/shm) ran out",
    "pinned": "page-locked host memory was refused",
    "scheduling": "Ray waits for what the cluster does not have",
    "none": "",
}

# Where the cause says better than the pool what there was too little of.
CAUSES: Final[Mapping[str, str]] = {
    "max-model-len-too-long": "one request of the configured length needs more KV cache than there is",
    "kv-pool-exhausted": "the KV cache was full",
}

STAGES: Final[Mapping[str, str]] = {
    "launch": "at launch",
    "cluster_start": "while the cluster started",
    "model_load": "while loading the model",
    "engine_init": "while the engine was set up",
    "memory_profiling": "while the engine measured its memory",
    "kv_cache_init": "while setting up the KV cache",
    "cuda_graph_capture": "while capturing CUDA graphs",
    "data_load": "while loading data",
    "rollout": "during the rollout",
    "reward": "while computing rewards",
    "logprob": "while computing log probabilities",
    "forward": "in the forward pass",
    "backward": "in the backward pass",
    "optimizer_step": "in the optimizer's step",
    "weight_sync": "while sending weights to the engine",
    "checkpoint_save": "while saving a checkpoint",
    "checkpoint_load": "while loading a checkpoint",
    "eval": "during evaluation",
    "serving": "while serving",
    "shutdown": "at shutdown",
    "unknown": "",
}

# The stage "weight_sync" where the engine's allocator maps its own memory again.
WAKING: Final = "while the engine took its memory back"

ROLES: Final = ("root", "cascade", "confirmation", "advice", "context")
BASES: Final = ("printed", "derived", "assumed", "unknown")
