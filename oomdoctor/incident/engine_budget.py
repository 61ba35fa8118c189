"""The arithmetic of an inference engine's memory: what its share of a card holds, by version, and what would fit.

Sizes are bytes, shares are 0..1. The ledger, the causes and the remedies compute with these functions alone.
"""

from __future__ import annotations

import math
import re
from typing import Final

from oomdoctor.records import dataclass
from oomdoctor.units import GIB

BLOCK_TOKENS: Final = 16  # vLLM's block size on GPUs unless set otherwise
SWAP_SPACE_BYTES: Final = 4 * GIB  # vLLM's default per GPU up to 0.17, when the option was removed
LARGEST_SHARE: Final = 0.98  # above it the driver, graphs and the sampler have nothing left
AT_THE_LIMIT: Final = 0.95  # from here on a larger one starves what the engine needs beside its share
CAPTURE_SLACK_BYTES: Final = GIB // 2  # for the graphs that come after the one that failed

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


def raised_share(share: float, missing: int, total: int) -> float:
    """The share that has so much more room than this one."""
    return ceil_share(share + missing / total)


def lowered_share(share: float, missing: int, total: int) -> float:
    """The share that leaves so much more beside it than this one."""
    return max(0.0, floor_share(share - missing / total))


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


def token_bytes_of_blocks(kv: int, gpu_blocks: int) -> float:
    """... from V0's GPU blocks."""
    return kv / (gpu_blocks * BLOCK_TOKENS)


def token_bytes_of_cpu_blocks(cpu_blocks: int, swap: int = SWAP_SPACE_BYTES) -> float:
    """... from V0's CPU blocks: these are there even where the GPU has room for none."""
    return swap / (cpu_blocks * BLOCK_TOKENS)
