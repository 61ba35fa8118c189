"""The arithmetic of training memory: model states, logits, swap space, copies in host RAM. Everything in bytes.

The bytes per parameter are those of DeepSpeed's own estimators and of Megatron's: 2 weights and 2 gradients in 16 bit,
4 gradients, 4 master weights and 8 Adam states in 32 bit.
"""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.units import GIB

WEIGHT_BYTES: Final = 2
STATES_BYTES: Final = 18  # weights' gradients, fp32 gradients, master weights, Adam
ADAM_OFFLOAD_BYTES: Final = 12  # master weights and Adam's two states


def states_on_gpu(parameters: int, shards: int, stage: int, *, optimizer_offloaded: bool = False) -> int:
    """Weights, gradients and optimizer states of one model on one GPU, under ZeRO's stages (0 to 3)."""
    if optimizer_offloaded:
        return WEIGHT_BYTES * parameters // (shards if stage == 3 else 1)
    if stage == 3:
        return STATES_BYTES * parameters // shards
    if stage == 2:
        return WEIGHT_BYTES * parameters + STATES_BYTES * parameters // shards
    if stage == 1:
        return 4 * parameters + ADAM_OFFLOAD_BYTES * parameters // shards
    return 16 * parameters


def weights(parameters: int, shards: int = 1) -> int:
    """Weights in 16 bit."""
    return WEIGHT_BYTES * parameters // shards


def adam_in_host(parameters: int, nodes: int = 1) -> int:
    """What an offloaded Adam takes of one node's RAM."""
    return ADAM_OFFLOAD_BYTES * parameters // nodes


def pinned(size_bytes: float) -> int:
    """What a page-locked buffer really takes: PyTorch's host allocator rounds up to a power of two."""
    return 1 << math.ceil(math.log2(size_bytes)) if size_bytes > 1 else 1


def swap_space(gib_per_gpu: float, layers: int, gpus: int) -> int:
    """What vLLM's CPU swap space takes of one node's RAM: one pinned tensor per layer and GPU."""
    return pinned(gib_per_gpu * GIB / layers) * layers * gpus


def sleep_copies(parameters: int, engines: int) -> int:
    """The copies of the weights that engines keep in host RAM while they sleep at level 1, before rounding."""
    return WEIGHT_BYTES * parameters * engines


def logits(tokens: int, vocabulary: int, bytes_each: int) -> int:
    return tokens * vocabulary * bytes_each


def tokens_of_logits(size_bytes: int, vocabulary: int) -> tuple[int, int] | None:
    """The tokens and the bytes per element whose logits have this size, where they come out whole.

    Sizes are printed with two decimals of a GiB, so a small remainder is allowed.
    """
    for bytes_each in (4, 2):
        tokens = round(size_bytes / (vocabulary * bytes_each))
        if tokens >= 64 and abs(logits(tokens, vocabulary, bytes_each) - size_bytes) <= vocabulary * bytes_each:
            return tokens, bytes_each
    return None
