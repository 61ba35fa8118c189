"""What was missing, and which remedies make up for it: one alone, or the first ones together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import crashes_of

from oomdoctor import diagnose
from oomdoctor.incident.model import Crash
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.gap import gap

STORIES = Path(__file__).parents[2] / "fixtures" / "stories"
CONTEXT = (
    "INFO 03-01 10:00:00 [utils.py:233] non-default args: {'model': 'acme/chat', 'gpu_memory_utilization': 0.8, "
    "'max_model_len': 131072}\n"
    "INFO 03-01 10:00:29 [gpu_worker.py:391] Free memory on device (78.0/79.15 GiB) on startup. Desired GPU memory "
    "utilization is (0.8, 63.32 GiB). Actual usage is 51.26 GiB for weight, 2.31 GiB for peak activation, 0.44 GiB for "
    "non-torch memory, and 0.31 GiB for CUDAGraph memory.\n"
    "INFO 03-01 10:00:30 [gpu_worker.py:298] Available KV cache memory: 9.00 GiB\n"
    "ValueError: To serve at least one request with the models's max seq len (131072), (24.00 GiB KV cache is needed, "
    "which is larger than the available KV cache memory (9.00 GiB). Based on the available memory, the estimated "
    "maximum model length is 49152.\n"
)


def turned(knob: str, setting: str, suggested: Any) -> Remedy:
    return Remedy(knob=knob, action="", setting=setting, suggested=suggested)


FP8 = turned("quantize-kv-cache", "--kv-cache-dtype", "fp8")
MORE = turned("raise-engine-reservation", "--gpu-memory-utilization", 0.85)
SHORTER = turned("shorter-context", "--max-model-len", 49152)


@pytest.fixture
def crash() -> Crash:
    return next(one for one in crashes_of(CONTEXT) if one.pool == "kv_cache")


def test_what_is_missing_is_shown_with_its_formula(crash: Crash) -> None:
    found = gap(crash, [])
    assert found is not None
    assert (found.pool, found.missing_low_bytes) == ("kv_cache", 15 * 1024**3)
    assert found.derivation == "24.00 GiB needed - 9.00 GiB available = 15.00 GiB"
    assert (found.alone, found.together) == ((), ())


def test_one_that_is_enough(crash: Crash) -> None:
    found = gap(crash, [FP8, SHORTER])
    assert found is not None
    assert found.alone == ("shorter-context",)
    assert found.together == ()


def test_two_that_are_enough_together(crash: Crash) -> None:
    found = gap(crash, [FP8, MORE])  # 12.00 GiB needed; 9.00 GiB and 0.05 of 79.15 GiB more
    assert found is not None
    assert found.alone == ()
    assert found.together == ("quantize-kv-cache", "raise-engine-reservation")


def test_what_is_not_enough_says_how_much_stays_missing(crash: Crash) -> None:
    little = turned("raise-engine-reservation", "--gpu-memory-utilization", 0.81)
    found = gap(crash, [FP8, little])
    assert found is not None
    assert (found.alone, found.together) == ((), ())
    assert found.still_missing_bytes is not None
    assert 2.1 < found.still_missing_bytes / 1024**3 < 2.3  # 3.00 GiB, less 0.01 of 79.15 GiB


def test_what_cannot_be_reckoned_closes_nothing(crash: Crash) -> None:
    found = gap(crash, [turned("clear-references", "", None), turned("smaller-model", "--model", "acme/small")])
    assert found is not None
    assert (found.alone, found.together, found.still_missing_bytes) == ((), (), None)


@pytest.mark.parametrize(
    ("story", "knob"),
    [
        ("open-reasoner-zero-colocated", "lower-engine-reservation"),
        ("simplerl-third-rollout", "less-swap-space"),
    ],
)
def test_a_storys_remedy_closes_its_gap(story: str, knob: str) -> None:
    report = diagnose(STORIES / story).as_json()
    assert report["gap"]["alone"] == [knob]
    numbered = [remedy["knob"] for remedy in report["diagnoses"][0]["remedies"]]
    assert knob in numbered


def test_a_constant_is_no_cure_for_what_grows_by_more_each_step() -> None:
    """478 MiB were missing and 238.62 GiB come with each step: a smaller swap space of 4 GiB changes nothing."""
    crash = crashes_of((STORIES / "simplerl-third-rollout" / "log.txt").read_text())[0]
    enough, little = turned("less-swap-space", "swap_space", 0), turned("less-swap-space", "swap_space", 39)
    found = gap(crash, [enough])
    assert found is not None
    assert found.alone == ("less-swap-space",)
    assert 239 < found.missing_low_bytes / 1024**3 < 240
    assert "growth of memory used per step" in found.derivation
    found = gap(crash, [little])
    assert found is not None
    assert found.alone == ()
