"""Options by all their names: the flags of the frameworks, and what an engine's dump calls the same thing."""

from __future__ import annotations

from typing import Final

from oomdoctor.incident.engine_facts import FRACTION_SETTINGS, SHARE_SETTINGS

SHARE: Final = SHARE_SETTINGS
FRACTION: Final = FRACTION_SETTINGS
LENGTH: Final = ("max_model_len", "vllm_max_model_len", "max_seq_len", "context_length")
SEQUENCES: Final = ("max_num_seqs", "vllm_max_num_seqs", "max_running_requests")
TOKENS: Final = ("max_num_batched_tokens", "chunked_prefill_size")
PARALLEL: Final = ("tensor_parallel_size", "tensor_model_parallel_size", "vllm_tensor_parallel_size", "tp_size", "tp")
EAGER: Final = ("enforce_eager", "vllm_enforce_eager", "disable_cuda_graph")
SLEEP: Final = ("enable_sleep_mode", "vllm_enable_sleep", "vllm_enable_sleep_mode")
SWAP: Final = ("swap_space", "vllm_swap_space")
CACHE_TYPE: Final = ("kv_cache_dtype", "vllm_kv_cache_dtype")
RECOMPUTING: Final = ("gradient_checkpointing", "enable_gradient_checkpointing", "gradient_checkpointing_enable")
ALLOCATOR: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
STORE: Final = ("object_store_memory",)
SAME: Final[tuple[tuple[str, ...], ...]] = (
    SHARE, FRACTION, LENGTH, SEQUENCES, TOKENS, PARALLEL, EAGER, SLEEP, SWAP, CACHE_TYPE,
    ("zero_stage", "zero_optimization_stage"), RECOMPUTING, ALLOCATOR, STORE,
)  # fmt: skip


def leaf(name: str) -> str:
    """The option's own name, without what stands before its last dot."""
    return name.strip("-+").replace("-", "_").rsplit(".", 1)[-1]


def spellings(name: str) -> tuple[str, ...]:
    """All names of the same option."""
    return next((group for group in SAME if leaf(name) in group), (leaf(name),))
