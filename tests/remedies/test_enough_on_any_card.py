"""A share that is enough whatever the GPU and the weights are, as the cache is a part of it."""

from __future__ import annotations

import pytest
from remedy_logs import advise

TOKENS = (
    "{settings}ValueError: The model's max seq len ({wanted}) is larger than the maximum number of tokens that can be "
    "stored in KV cache ({there}). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine.\n"
)
BYTES = (
    "{settings}ValueError: To serve at least one request with the models's max seq len (40960), ({wanted} GiB KV cache "
    "is needed, which is larger than the available KV cache memory ({there} GiB). Try increasing "
    "`gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.\n"
)


def raised(log: str) -> tuple[object, str]:
    found = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")[0]["raise-engine-reservation"]
    return found.suggested, found.derivation or ""


@pytest.mark.parametrize(
    ("settings", "wanted", "there", "share"),
    [
        ("", "41000", "40000", 0.93),  # 0.9225
        ("gpu_memory_utilization=0.8\n", "8192", "7680", 0.86),
        ("gpu_memory_utilization=0.5\n", "8192", "4608", 0.89),
    ],
)
def test_in_proportion_to_the_context(settings: str, wanted: str, there: str, share: float) -> None:
    suggested, derivation = raised(TOKENS.format(settings=settings, wanted=wanted, there=there))
    assert suggested == share
    assert f"x {wanted} / {there} = " in derivation
    assert "enough on any GPU" in derivation


def test_in_proportion_to_the_cache_that_is_needed() -> None:
    suggested, derivation = raised(BYTES.format(settings="gpu_memory_utilization=0.6\n", wanted="5.00", there="4.00"))
    assert (suggested, derivation.startswith("0.6 x 5.00 GiB / 4.00 GiB = 0.75, rounded up")) == (0.75, True)


@pytest.mark.parametrize(
    ("settings", "wanted", "there"),
    [
        ("", "65536", "40000"),  # 1.47
        ("", "42400", "40000"),  # 0.954
        ("gpu_memory_utilization=0.8\n", "16384", "8192"),
    ],
)
def test_a_share_that_would_be_too_large_is_a_step(settings: str, wanted: str, there: str) -> None:
    _, derivation = raised(TOKENS.format(settings=settings, wanted=wanted, there=there))
    assert "enough on any GPU" not in derivation


def test_no_larger_share_is_left() -> None:
    log = TOKENS.format(settings="gpu_memory_utilization=0.95\n", wanted="41000", there="40000")
    chosen, rejected = advise(log, "raise-engine-reservation", cause="max-model-len-too-long")
    assert "raise-engine-reservation" not in chosen
    assert "raise-engine-reservation" in rejected
