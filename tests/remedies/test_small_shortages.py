"""A small allocation that an engine's share leaves no room for: as small a step down, and what it may cost."""

from __future__ import annotations

import pytest
from engine_logs import NO_BLOCKS, v0_account
from remedy_logs import advise, cuda

from oomdoctor.remedies import Remedy

SERVED = "vllm serve acme/m --gpu-memory-utilization {share} {length}\n{cache}"
WITHIN = '  File "/opt/vllm/v1/engine/core.py", line 900, in run_busy_loop\n'
CACHE = (
    "INFO 03-03 10:00:01 [gpu_worker.py:300] Available KV cache memory: 6.00 GiB\n"
    "INFO 03-03 10:00:01 [kv_cache_utils.py:700] GPU KV cache size: 120,000 tokens\n"
)


def lowered(tried: str, free: str, share: str = "0.90", length: str = "", cache: str = "") -> Remedy:
    refused = cuda(tried=tried, total="32.00 GiB", free=free, own="29.00 GiB")
    log = SERVED.format(share=share, length=length, cache=cache) + WITHIN + refused
    return advise(log, "lower-engine-reservation", cause="vllm-utilization-too-high")[0]["lower-engine-reservation"]


def test_what_lies_in_pieces_does_not_count() -> None:
    remedy = lowered("64.00 MiB", "72.00 MiB")
    assert remedy.suggested == 0.88
    assert remedy.derivation == "0.90 - (64 MiB requested + 512 MiB spare) / 32.00 GiB = 0.88 at most"
    assert remedy.assumes == ("512 MiB spare for the next allocations (a guess)",)


@pytest.mark.parametrize(
    ("tried", "free", "then", "why"),
    [
        ("1.20 GiB", "1.30 GiB", 0.85, "a large allocation needs more than a step: steps, until it fits"),
        ("64.00 MiB", "60.00 MiB", 0.88, "less was free than requested: the difference counts"),
        ("1.20 GiB", "0.10 GiB", 0.85, "less was free than requested, of a large allocation, too"),
    ],
)
def test_the_way_down_hangs_on_what_is_missing(tried: str, free: str, then: float, why: str) -> None:
    remedy = lowered(tried, free)
    assert remedy.suggested == then, why
    assert "64 MiB requested + 512" not in (remedy.derivation or ""), why


def test_room_for_no_block_is_room_for_a_request_too() -> None:
    log = SERVED.format(share="0.70", length="", cache="") + v0_account(8.0, 0.7, 5.2, 1.42) + NO_BLOCKS
    remedy = advise(log, "raise-engine-reservation", cause="kv-cache-no-room")[0]["raise-engine-reservation"]
    assert remedy.suggested == 0.89
    assert "+ 0.05 for the KV cache = 0.89" in (remedy.derivation or "")
    assert any("0.05 for the KV cache is a guess" in one for one in remedy.assumes)


def test_no_share_below_the_least() -> None:
    refused = cuda(tried="64.00 MiB", total="32.00 GiB", free="72.00 MiB", own="2.00 GiB")
    log = SERVED.format(share="0.11", length="", cache="") + WITHIN + refused
    chosen, rejected = advise(log, "lower-engine-reservation", cause="vllm-utilization-too-high")
    assert not chosen
    assert "no lower share makes enough room" in rejected["lower-engine-reservation"].why


@pytest.mark.parametrize(
    ("tried", "free"), [("64.00 MiB", "72.00 MiB"), ("2.00 GiB", "2.20 GiB"), ("2.00 GiB", "0.10 GiB")]
)
def test_a_long_context_may_no_longer_fit(tried: str, free: str) -> None:
    """Whichever way the lower share was found."""
    cost = lowered(tried, free, length="--max-model-len 98304").cost
    assert cost == "slower generation; no start if 98304 tokens no longer fit: then shorten the context"


@pytest.mark.parametrize(
    ("length", "cache", "why"),
    [
        ("", "", "the length is not in the log"),
        ("--max-model-len 8192", "", "short contexts fit"),
        ("--max-model-len 98304", CACHE, "the size of the cache says itself what may go"),
    ],
)
def test_the_usual_cost(length: str, cache: str, why: str) -> None:
    assert lowered("64.00 MiB", "72.00 MiB", length=length, cache=cache).cost == (
        "slower generation (fewer KV-cache blocks)"
    ), why
