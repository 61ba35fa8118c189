"""vLLM's reservation: what its share of the card holds, by version, and which context fits."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.arithmetic.kv_cache import BLOCK_TOKENS
from oomdoctor.patterns import late
from oomdoctor.units import GIB, HUNDREDTH
from oomdoctor.versions import Version, Versions, versions

NAME: Final = "vllm"  # among the frameworks
CAPTURE_SLACK_BYTES: Final = GIB // 2  # for the graphs that come after the one that failed
# max_num_seqs of vllm/engine/arg_utils.py where nobody sets it: of V0 always the fewer; of V1 always the many up to
# 0.8.3, then by the card's name (#16158), from 0.9.0 on by its size, the A100 excepted (#17885)
FEW_SEQUENCES: Final = 256
MANY_SEQUENCES: Final = 1024
BY_THE_CARD: Final = versions(">=0.8.4")
_V1_BY_DEFAULT: Final[Version] = (0, 8)
_BY_ITS_SIZE: Final[Version] = (0, 9)
_LARGE_CARD: Final = 70 * GIB
_HOPPER: Final = late(r"\bH[12]00\b")
_AMPERE: Final = "A100"
# vllm/v1/core/kv_cache_utils.py prints what a request needs and what there is in GiB with two digits
ROUNDING_BYTES: Final = HUNDREDTH / 2


class Era(Struct, frozen=True):
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


def default_sequences(releases: Versions, engine: str | None, total: int | None, card: str) -> int | None:
    """max_num_seqs where nobody sets it, in these releases; None where it hangs on what the log does not show."""
    if engine != "V1":
        return FEW_SEQUENCES if engine == "V0" or releases.since < _V1_BY_DEFAULT else None
    if releases.before <= BY_THE_CARD.since or _HOPPER.search(card):
        return MANY_SEQUENCES
    if _AMPERE in card or (total is not None and total < _LARGE_CARD):
        return FEW_SEQUENCES
    return MANY_SEQUENCES if card and total is not None and releases.since >= _BY_ITS_SIZE else None


def longest_context(asked: int, needed: int, available: int, estimated: int | None = None) -> int | None:
    """The longest context that fits. The engine's own estimate is taken as it is: with sliding windows or state
    layers the need is not proportional to the length. Else of all sizes that are printed so the worst pair counts, or
    the engine refuses once more. None where not a single block fits."""
    if estimated is not None:
        return estimated if estimated > 0 else None
    least, most = available - ROUNDING_BYTES, needed + ROUNDING_BYTES
    if least <= 0 or needed <= 0:
        return None
    tokens = int(asked * least / most) // BLOCK_TOKENS * BLOCK_TOKENS
    return tokens or None
