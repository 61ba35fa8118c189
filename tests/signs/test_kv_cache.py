from __future__ import annotations

import pytest
from engine_logs import NO_BLOCKS, context_too_long, crash_of, started, v0_account

from oomdoctor.report.headline import sizes
from oomdoctor.signs import Sign, kv_cache

MLC = (
    "TVMError: Insufficient GPU memory error: The available single GPU memory is {} MB, which is less than the sum of "
    "model weight size ({} MB) and temporary buffer size (900 MB).\n"
)
SGLANG = (
    "[2025-07-02 07:41:58 TP0] Load weight begin. avail mem=20.00 GB\n"
    "[2025-07-02 07:42:09 TP0] Load weight end. type=DemoForCausalLM, dtype=torch.bfloat16, avail mem=4.00 GB, "
    "mem usage=16.00 GB.\n"
    "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. "
    "Current value: mem_fraction_static={}\n"
)


def served_with(share: float) -> str:
    return f"$ vllm serve org/M-7B --gpu-memory-utilization {share}\n{NO_BLOCKS}"


@pytest.mark.parametrize(
    ("sign", "not_yet", "from_here"),
    [
        (kv_cache.activations_are_heavy, v0_account(20, 0.9, 14, 3.98) + NO_BLOCKS, v0_account(20, 0.9, 14, 4.02)),
        (kv_cache.no_larger_share_would_do, served_with(0.94), served_with(0.95)),
        (kv_cache.no_larger_share_would_do, v0_account(20, 0.9, 18.5, 1) + NO_BLOCKS, v0_account(20, 0.9, 18.6, 1)),
        (kv_cache.room_below_nothing, context_too_long(65536, 12.0, 0.01), context_too_long(65536, 12.0, 0.0)),
        (kv_cache.buffers_fill_mlcs_share, MLC.format(7000, 7001), MLC.format(7000, 7000)),
        (kv_cache.sglangs_fraction_should_do, SGLANG.format(0.8), SGLANG.format(0.81)),
        (kv_cache.others_count_inside_the_share, started("0.10.2") + NO_BLOCKS, started("0.8.5") + NO_BLOCKS),
    ],
)
def test_what_is_left_of_the_share(sign: Sign, not_yet: str, from_here: str) -> None:
    assert sign(crash_of(not_yet)) is None
    assert sign(crash_of(from_here)) is not None


LOOK = (
    "Traceback (most recent call last):\n"
    '  File "/env/vllm/worker/worker.py", line 335, in initialize_cache\n'
    "    raise_if_cache_size_invalid(num_gpu_blocks,\n"
)


def test_a_look_at_the_cache_that_is_cut_before_its_words_is_of_its_room() -> None:
    assert kv_cache.the_look_at_the_cache_failed(crash_of(LOOK)) is not None
    assert kv_cache.the_look_at_the_cache_failed(crash_of(NO_BLOCKS)) is None


@pytest.mark.parametrize(
    ("log", "known"),
    [
        (NO_BLOCKS, False),
        (served_with(0.7), False),
        (v0_account(20, 0.9, 14, 3.98) + NO_BLOCKS, True),
    ],
)
def test_what_fills_the_share_is_said_where_the_log_has_its_account_and_else_is_open(log: str, *, known: bool) -> None:
    seen = kv_cache.no_block_fits(crash_of(log))
    assert seen is not None
    assert seen.unsure is not known
    assert bool(seen.next_evidence) is not known
    assert ("does not show what fills the engine's share" in seen.words) is not known


@pytest.mark.parametrize(("room", "weights", "contradicts"), [(7000, 6990, False), (7000, 500, True)])
def test_figures_that_leave_room_are_doubted(room: int, weights: int, contradicts: bool) -> None:
    seen = kv_cache.buffers_fill_mlcs_share(crash_of(MLC.format(room, weights)))
    assert seen is not None
    assert seen.unsure == contradicts
    assert any("mlc-chat-config.json" in command for command in seen.next_evidence) is contradicts
    assert (sizes.share_left(crash_of(MLC.format(room, weights))) is not None) is contradicts


@pytest.mark.parametrize(("used", "told"), [("11.90", False), ("12.10", True)])
def test_what_was_in_use_before_the_profile_fills_the_share(used: str, told: bool) -> None:
    profile = f"Memory profiling results: total_gpu_memory=40.00GiB initial_memory_usage={used}GiB\n"
    seen = kv_cache.no_block_fits(crash_of(profile + served_with(0.3)))
    assert seen is not None
    assert ("in use before the profiling run" in seen.words) is told
    assert seen.unsure is not told
