from __future__ import annotations

import pytest
from engine_logs import NO_BLOCKS, WARMUP, context_too_long, crash_of, judged, refusal

from oomdoctor.decision.judgement import Finding, RuledOut
from oomdoctor.families.vllm_error import ContextDoesNotFit
from oomdoctor.signs import Grade

CAUSE = "max-model-len-too-long"
V0 = (
    "ValueError: The model's max seq len (29000) is larger than the maximum number of tokens that can be stored in KV "
    "cache (23648). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing it.\n"
)


def test_without_any_block_a_shorter_context_gains_nothing() -> None:
    assert isinstance(judged(CAUSE, NO_BLOCKS), RuledOut)


def test_without_any_room_no_context_is_short_enough() -> None:
    assert isinstance(judged(CAUSE, context_too_long(32768, 4.5, -0.31)), RuledOut)


@pytest.mark.parametrize("end", [refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0), WARMUP])
def test_other_failures_say_nothing_of_the_context(end: str) -> None:
    assert judged(CAUSE, f"INFO max_model_len=131072\n{end}\n") is None


@pytest.mark.parametrize(
    ("log", "fits"),
    [
        (context_too_long(1048576, 24.0, 9.97), "435,280"),
        (context_too_long(221000, 10.12, 5.59, estimate=122080), "122,080"),
        (V0, "23,648"),
        (context_too_long(221000, 10.12, 5.59, estimate=122080).replace("(221000)", ""), "122,080"),
    ],
)
def test_the_longest_context_that_fits(log: str, fits: str) -> None:
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert fits in finding.why


def test_of_several_ranks_the_tightest_counts() -> None:
    log = context_too_long(65536, 12.0, 9.5) + context_too_long(65536, 12.0, 7.47)
    assert len(crash_of(log).every(ContextDoesNotFit)) == 2
    finding = judged(CAUSE, log)
    assert isinstance(finding, Finding)
    assert "40,736" in finding.why
