"""The arithmetic of an inference engine's memory: what its share of a card holds, by version, and what would fit.

Sizes are bytes, shares are 0..1. The ledger, the causes and the remedies compute with these functions alone.
"""

from __future__ import annotations

import math
import re
from typing import Final

from oomdoctor.records import dataclass
from oomdoctor.units import GIB, MIB

BLOCK_TOKENS: Final = 16  # vLLM's block size on GPUs unless set otherwise
SWAP_SPACE_BYTES: Final = 4 * GIB  # vLLM's default per GPU up to 0.17, when the option was removed
BUFFER_BYTES: Final = 150 * MIB  # what vLLM itself keeps free beside a cache of a given size
LARGEST_SHARE: Final = 0.98  # above it the driver, graphs and the sampler have nothing left
AT_THE_LIMIT: Final = 0.95  # from here on a larger one starves what the engine needs beside its share
CAPTURE_SLACK_BYTES: Final = GIB // 2  # for the graphs that come after the one that failed
LOGITS_COPIES: Final = 3  # logits, their float32 copy and the sampler's sorted one

Version = tuple[int, ...]


def version_of(text: str | None) -> Version | None:
    """The release that a version names: "v0.10.1.1+cu128" is (0, 10, 1, 1), "0.8.5.post1" is (0, 8, 5)."""
    match = re.match(r"v?(\d{1,4}(?:\.\d{1,4}){1,3})", text or "")
    return tuple(int(part) for part in match[1].split(".")) if match else None


@dataclass(frozen=True, slots=True)
class Era:
    """How a generation of vLLM reckons the room for its KV cache: the share of the card, minus what it counts."""

    others_counted: bool  # other processes' memory comes off the share: lowering it leaves less, not more
    free_checked: bool  # it refuses to start where less than the share is free
    graphs_inside: bool  # the share holds the CUDA graphs; before, they come on top


_IGNORES = Era(others_counted=False, free_checked=False, graphs_inside=False)
_COUNTS = Era(others_counted=True, free_checked=False, graphs_inside=False)
_CHECKS = Era(others_counted=False, free_checked=True, graphs_inside=False)
_ESTIMATES = Era(others_counted=False, free_checked=True, graphs_inside=True)

# The first release of each way of reckoning, newest first. From 0.6.4 to 0.9.0 the two engines differ.
_V0 = (((0, 6, 5), _IGNORES), ((0, 6, 4), _COUNTS), ((0, 3, 1), _IGNORES), ((0, 2, 5), _COUNTS), ((0, 1), _IGNORES))
_V1 = (((0, 20), _ESTIMATES), ((0, 9, 1), _CHECKS), ((0, 6, 4), _COUNTS))


def era(version: Version | None, engine: str | None) -> Era | None:
    """The way of reckoning of this version and engine ("V0", "V1"); None where the log does not settle it."""
    if version is None:
        return None
    if version >= (0, 11):
        engine = "V1"  # V0 was removed
    elif version < (0, 6, 4):
        engine = "V0"
    if engine is None:
        return None
    return next((reckoning for first, reckoning in (_V1 if engine == "V1" else _V0) if version >= first), None)


def default_share(version: Version | None) -> float | None:
    """gpu_memory_utilization where nobody sets it."""
    if version is None:
        return None
    return 0.92 if version >= (0, 20) else 0.9


def floor_share(share: float, digits: int = 2) -> float:
    """Rounded down: a share that is rounded up is refused."""
    scale = float(10**digits)
    return math.floor(share * scale + 1e-6) / scale


def ceil_share(share: float, digits: int = 2) -> float:
    scale = float(10**digits)
    return math.ceil(share * scale - 1e-6) / scale


def largest_share(free: int, total: int, keep: int = 0) -> float:
    """The largest share that what was free at start still allows, with so much kept beside it."""
    return max(0.0, floor_share((free - keep) / total))


def smallest_share(needed: int, total: int) -> float:
    """The smallest share that holds this: weights, non-torch memory, activations and the cache (and graphs where the
    share holds them, and other processes where they come off it)."""
    return ceil_share(needed / total)


def raised_share(share: float, missing: int, total: int) -> float:
    """The share that has so much more room than this one."""
    return ceil_share(share + missing / total)


def lowered_share(share: float, missing: int, total: int) -> float:
    """The share that leaves so much more beside it than this one."""
    return max(0.0, floor_share(share - missing / total))


def share_for_capture(share: float, tried: int, free: int, total: int) -> float:
    """The share that leaves room for graphs, after an allocation of this size failed while capturing them."""
    return lowered_share(share, tried - free + CAPTURE_SLACK_BYTES, total)


def longest_context(asked: int, needed: int, available: int, estimated: int | None = None) -> int | None:
    """The longest context that fits. The engine's own estimate is taken as it is: with sliding windows or state
    layers the need is not proportional to the length. None where not a single block fits."""
    if estimated is not None:
        return estimated if estimated > 0 else None
    if available <= 0 or needed <= 0:
        return None
    tokens = int(asked * available / needed) // BLOCK_TOKENS * BLOCK_TOKENS
    return tokens or None


def cache_need(bytes_per_token: float, tokens: int) -> int:
    """What the cache of one request takes, in whole blocks."""
    return round(bytes_per_token * math.ceil(tokens / BLOCK_TOKENS) * BLOCK_TOKENS)


def token_bytes_of_need(needed: int, tokens: int) -> float:
    """KV bytes per token and GPU, from "<needed> KV cache is needed" for this length."""
    return needed / tokens


def token_bytes_of_cache(kv: int, tokens: int) -> float:
    """... from the cache's size and its tokens: an upper bound, another rank may have had less room."""
    return kv / tokens


def token_bytes_of_blocks(kv: int, gpu_blocks: int) -> float:
    """... from V0's GPU blocks."""
    return kv / (gpu_blocks * BLOCK_TOKENS)


def token_bytes_of_cpu_blocks(cpu_blocks: int, swap: int = SWAP_SPACE_BYTES) -> float:
    """... from V0's CPU blocks: these are there even where the GPU has room for none."""
    return swap / (cpu_blocks * BLOCK_TOKENS)


def token_bytes_of_model(layers: int, kv_heads: int, head_dim: int, bytes_each: int, tensor_parallel: int = 1) -> int:
    """... from the model: a key and a value per layer and head; heads are copied where ranks outnumber them."""
    return 2 * layers * max(1, kv_heads // tensor_parallel) * head_dim * bytes_each


def total_of_estimate(estimate: int, share: float, compensating: float) -> float:
    """The card's size, from what the graphs are estimated to take and the share that makes up for it."""
    return estimate / (compensating - share)


def cache_to_fit(requested: int, consumed: int, activation: int, graphs: int) -> int:
    """--kv-cache-memory-bytes for this budget. The engine's own suggestion counts the graphs twice in some versions
    (0.18, 0.28)."""
    return requested - consumed - activation - graphs - BUFFER_BYTES


def warmup_bytes(requests: int, vocabulary: int) -> int:
    """What the sampler's dummy requests take: float32 logits, in several copies."""
    return requests * vocabulary * 4 * LOGITS_COPIES


# SGLang's fraction is one of what was free before the weights were loaded ("pre"), not of the card.


def sglang_rest(pre: int, after_weights: int, fraction: float) -> int:
    """What mem_fraction_static leaves for the KV pool; negative where the weights alone are more."""
    return round(after_weights - pre * (1 - fraction))


def sglang_smallest_fraction(pre: int, after_weights: int, needed: int = 0) -> float:
    """The smallest mem_fraction_static with so much room for the KV pool."""
    return ceil_share(1 - (after_weights - needed) / pre, 3)


def sglang_lowered_fraction(fraction: float, pre: int, available: int, wanted: int) -> float:
    """The fraction that leaves what is wanted beside the pool, where this one left what is available."""
    return floor_share(fraction - (wanted - available) / pre, 3)
