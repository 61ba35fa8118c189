from __future__ import annotations

import pytest
from engine_logs import ABORTED, NO_BLOCKS, PREEMPTED, SWAP_TOO_LARGE, judged, refusal

from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade

CAUSE = "kv-pool-exhausted"


@pytest.mark.parametrize("end", [NO_BLOCKS, SWAP_TOO_LARGE, refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0)])
def test_preemption_and_another_failure(end: str) -> None:
    assert not isinstance(judged(CAUSE, f"{PREEMPTED}{end}\n"), Finding)


def test_a_pool_and_a_swap_space_that_are_full() -> None:
    finding = judged(CAUSE, PREEMPTED + ABORTED)
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "preempted before: 51" in finding.why
    assert isinstance(judged(CAUSE, ABORTED), Finding)


def sglang(batch: str, asked: int, available: int) -> str:
    return (
        f"RuntimeError: {batch} out of memory. Try to lower your batch size.\nTry to allocate {asked} tokens.\n"
        f"Available tokens: {available}\n"
    )


def test_retraction_is_no_failure() -> None:
    retracted = "[2025-08-11 13:01:20 TP0] KV cache pool is full. Retract requests. #retracted_reqs: 3\n"
    log = retracted + refusal("2.00 GiB", 23.55, 1.0, 22.0, 21.0) + "\n"
    assert not isinstance(judged(CAUSE, log), Finding)


def test_sglangs_pool_in_tokens() -> None:
    finding = judged(CAUSE, sglang("Prefill", 8192, 4410))
    assert isinstance(finding, Finding)
    assert finding.grade == Grade.PROVES
    assert "8,192" in finding.why
    assert finding.knobs[:2] == ("fewer-sequences", "smaller-prefill")


def test_a_pool_that_counts_more_than_it_can_give_wants_another_version() -> None:
    finding = judged(CAUSE, sglang("Prefill", 4096, 612000))
    assert isinstance(finding, Finding)
    assert finding.knobs[0] == "pin-version"


HYBRID = (
    "RuntimeError: Prefill out of memory. Try to lower your batch size.\n"
    "Try to allocate 7168 tokens.\n"
    "Available full tokens: 611200 (full_available_size=9216 + full_evictable_size_=601984)\n"
)


def test_the_pool_of_the_sliding_window_runs_out_on_its_own() -> None:
    finding = judged(CAUSE, HYBRID + "Available swa: 2816 (available_size=2816 + component_evictable_size_=0)\n")
    assert isinstance(finding, Finding)
    assert "sliding-window pool" in finding.why
    assert finding.knobs[:2] == ("fewer-sequences", "smaller-prefill")


def test_the_states_of_mamba_layers_run_out_on_their_own() -> None:
    finding = judged(CAUSE, HYBRID + "Available mamba: 0 (available_size=0 + component_evictable_size_=0)\n")
    assert isinstance(finding, Finding)
    assert "Mamba" in finding.why
    assert finding.knobs[0] == "fewer-sequences"


def test_enough_of_everything_is_a_miscount() -> None:
    finding = judged(CAUSE, HYBRID + "Available mamba: 40 (available_size=31 + component_evictable_size_=9)\n")
    assert isinstance(finding, Finding)
    assert finding.knobs[0] == "pin-version"


def test_no_larger_cache_makes_more_slots() -> None:
    log = (
        "[2026-01-14 10:00:00 TP0] Decode batch. #running-req: 9, #token: 812, token usage: {}, cuda graph: True\n"
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
        "req_to_token_pool.available_size()=2, num_reqs=3, \n"
    )
    free, full = judged(CAUSE, log.format("0.03")), judged(CAUSE, log.format("0.93"))
    assert isinstance(free, Finding)
    assert isinstance(full, Finding)
    assert free.knobs == ("fewer-sequences", "pin-version")
    assert "token usage was 0.03" in free.why
    assert "raise-engine-reservation" in full.knobs


def test_places_for_requests_were_left() -> None:
    log = (
        "RuntimeError: alloc_req_slots runs out of memory. Please set a smaller number for `--max-running-requests`. "
        "req_to_token_pool.available_size()={}, num_reqs=3, \n"
    )
    short, left = judged(CAUSE, log.format(2)), judged(CAUSE, log.format(4))
    assert isinstance(short, Finding)
    assert isinstance(left, Finding)
    assert short.against == ()
    assert "Mamba" in left.against[0]
