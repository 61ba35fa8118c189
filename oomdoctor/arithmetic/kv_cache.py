"""KV-cache bytes per token and GPU, in the ways that logs allow to recover them."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.units import GIB

BLOCK_TOKENS: Final = 16  # vLLM's block size on GPUs unless set otherwise
SWAP_SPACE_BYTES: Final = 4 * GIB  # vLLM's default per GPU up to 0.17, when the option was removed


def of_need(needed: float, tokens: int) -> float:
    """From "<needed> KV cache is needed" for this length."""
    return needed / tokens


def of_cpu_blocks(cpu_blocks: int, swap: int = SWAP_SPACE_BYTES) -> float:
    """From V0's CPU blocks: these are there even where the GPU has room for none."""
    return swap / (cpu_blocks * BLOCK_TOKENS)


def of_model(layers: int, kv_heads: int, head_dim: int, tensor_parallel: int = 1, bytes_each: int = 2) -> int:
    """A key and a value per layer and head. Heads are copied where ranks outnumber them; an upper bound where layers
    look at a window only."""
    return 2 * layers * max(1, kv_heads // tensor_parallel) * head_dim * bytes_each


def fitting(room: float, bytes_per_token: float) -> int:
    """How many tokens this room holds, in whole blocks."""
    return max(0, int(room / bytes_per_token)) // BLOCK_TOKENS * BLOCK_TOKENS


def need(bytes_per_token: float, tokens: int) -> int:
    """What the cache of one request takes, in whole blocks."""
    return round(bytes_per_token * math.ceil(tokens / BLOCK_TOKENS) * BLOCK_TOKENS)
