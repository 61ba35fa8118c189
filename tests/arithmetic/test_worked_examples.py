"""Figures that programs printed, and the formulas that give them again: to the digit, where the inputs allow it.

Inputs are rounded as they were printed, so a result may differ by what that rounding leaves open; each case says so.
"""

from __future__ import annotations

import pytest

from oomdoctor.arithmetic import host, kv_cache, sglang, shares, training, vllm
from oomdoctor.units import GIB

LLAMA_8B = 131_072  # KV bytes per token


def gib(value: float) -> int:
    return round(value * GIB)


# vLLM: what a share holds


@pytest.mark.parametrize(
    ("total", "share", "printed"),
    [(47.38, 0.95, 45.01), (4.0, 0.9, 3.60), (22.05, 0.9, 19.84), (79.32, 0.6, 47.59), (61.27, 0.9, 55.14)],
)
def test_what_the_engine_wants_is_its_share_of_the_card(total: float, share: float, printed: float) -> None:
    assert share * total == pytest.approx(printed, abs=0.0051)


@pytest.mark.parametrize(
    ("free", "total", "most"), [(31.44, 47.38, 0.66), (3.22, 4.0, 0.80), (19.77, 22.05, 0.89), (0.49, 79.32, 0.0)]
)
def test_the_largest_share_that_what_is_free_allows(free: float, total: float, most: float) -> None:
    assert shares.largest(gib(free), gib(total)) == most


@pytest.mark.parametrize(
    ("total", "share", "held", "printed"),
    [
        (79.22, 0.90, (19.86, 0.16, 36.63), 14.65),
        (79.22, 0.90, (14.96, 1.79, 1.26), 53.29),
        (23.58, 0.99, (21.21, 0.20, 0.37), 1.57),
        (8.00, 0.70, (5.20, 0.03, 1.42), -1.05),
        (23.58, 0.90, (17.06, 0.35), 3.81),
        (23.58, 0.90, (17.98, 0.35), 2.89),
        (15.77, 0.90, (7.51, 0.39, 2.53), 3.76),
        (79.14, 0.25, (8.64, 0.15, 0.25), 10.74),
    ],
)
def test_what_is_left_for_the_cache(total: float, share: float, held: tuple[float, ...], printed: float) -> None:
    left = vllm.cache_room(share, gib(total), *map(gib, held)) / GIB
    assert left == pytest.approx(printed, abs=0.01)  # the card and each part are rounded to two decimals


def test_to_the_byte_where_all_inputs_are_bytes() -> None:
    assert round(vllm.cache_room(0.3, 84_974_239_744, 770_516_480, 566_099_456)) == 24_155_655_987


@pytest.mark.parametrize(
    ("free", "total", "share", "held", "printed"),
    [
        (177.66, 178.36, 0.90, (8.58, 9.96, 0.07, 0.65), 151_519_866_880),
        (60.86, 61.27, 0.90, (1.14, 0.22, 0.13, 0.04), 57_403_864_576),
    ],
)
def test_the_cache_that_vllm_suggests(
    free: float, total: float, share: float, held: tuple[float, ...], printed: int
) -> None:
    suggested = vllm.suggested_cache(gib(free), gib(total), share, *map(gib, held))
    assert suggested / GIB == pytest.approx(printed / GIB, abs=0.02)


def test_a_suggestion_that_counts_graphs_once() -> None:
    """It printed -20.83 GiB, which counts them twice."""
    whole = 164.08 / 0.92
    right = vllm.suggested_cache(gib(175.81), gib(whole), 0.92, gib(58.44), gib(4.88), gib(63.99))
    assert right / GIB == pytest.approx(36.62, abs=0.015)


def test_the_card_from_the_two_shares_printed_for_graphs() -> None:
    assert vllm.card_of_shares(gib(0.36), 0.82, 0.8352) / GIB == pytest.approx(23.7, abs=0.05)


@pytest.mark.parametrize(
    ("asked", "needed", "available", "longest"),
    [
        (1_048_576, 24.00, 9.97, 435_584),
        (221_000, 10.12, 5.59, 122_064),  # the engine's own estimate is 122,080: both sizes are rounded
        (262_144, 24.0, 3.18, 34_720),  # its estimate is 34,736
    ],
)
def test_the_longest_context(asked: int, needed: float, available: float, longest: int) -> None:
    assert vllm.longest_context(asked, gib(needed), gib(available)) == longest


def test_the_context_in_half_the_bytes() -> None:
    longest = vllm.longest_context(1_048_576, gib(12.0), gib(9.97))
    assert longest is not None
    assert longest // 1000 == 871


def test_the_share_that_a_context_takes() -> None:
    cache = kv_cache.need(kv_cache.of_cpu_blocks(4681), 4096)
    assert shares.smallest(gib(5.20 + 0.03 + 1.42) + cache, gib(8.00)) == 0.86
    cache = kv_cache.need(LLAMA_8B, 29_000)
    assert shares.smallest(gib(17.98 + 0.35) + cache, gib(23.58)) == 0.93


# bytes per token


@pytest.mark.parametrize(
    ("found", "exact", "within"),
    [
        (kv_cache.of_need(gib(24.0), 1_048_576), 24_576, 0),
        (kv_cache.of_need(gib(24.0), 262_144), 98_304, 0),
        (kv_cache.of_need(gib(10.12), 221_000), 49_168, 25),
        (kv_cache.of_cpu_blocks(1638), 163_880, 1),
        (kv_cache.of_cpu_blocks(4681), 57_346, 1),
        (kv_cache.of_cpu_blocks(4096), 65_536, 0),
        (kv_cache.of_model(28, 4, 128), 57_344, 0),
        (kv_cache.of_model(48, 8, 128, tensor_parallel=2), 98_304, 0),
        (kv_cache.of_model(28, 8, 128), 114_688, 0),
        (kv_cache.of_model(94, 4, 128, tensor_parallel=4), 48_128, 0),
        (kv_cache.of_model(32, 8, 128), LLAMA_8B, 0),
        (kv_cache.of_latent(61, 512, 64), 70_272, 0),
    ],
)
def test_bytes_per_token(found: float, exact: int, within: int) -> None:
    assert round(found) == pytest.approx(exact, abs=within)


@pytest.mark.parametrize(
    ("blocks", "length", "printed"), [(1952, 20_000, 1.56), (3852, 40_000, 1.54), (158_656 // 16, 32_768, 4.84)]
)
def test_how_many_requests_fit_at_once(blocks: int, length: int, printed: float) -> None:
    assert blocks * kv_cache.BLOCK_TOKENS / length == pytest.approx(printed, abs=0.005)


def test_tokens_and_cache_of_an_engine_that_says_both() -> None:
    assert pytest.approx(19.37, abs=0.005) == 158_656 * LLAMA_8B / GIB
    assert pytest.approx(8.018, abs=0.0005) == 178_880 * 48_128 / GIB  # of 8.11: the rank with the least room decides


# SGLang


def test_the_pool_that_sglang_finds_room_for() -> None:
    before = sglang.at_start(gib(230.20), gib(56.98))
    assert sglang.pool_room(gib(230.20), before, 0.911) / GIB == pytest.approx(204.64, abs=0.005)


def test_a_fraction_that_the_weights_alone_exceed() -> None:
    before = sglang.at_start(gib(12.25), gib(125.65))
    assert pytest.approx(0.9112, abs=0.00005) == 1 - 12.25 / 137.90
    assert sglang.pool_room(gib(12.25), before, 0.88) / GIB == pytest.approx(-4.30, abs=0.005)
    assert sglang.smallest_fraction(gib(12.25), before) == 0.912


def test_the_fraction_that_was_really_in_force() -> None:
    """It said 0.95, and found room for -561,981 tokens."""
    before = sglang.at_start(gib(21.73), gib(166.59))
    assert sglang.pool_room(gib(21.73), before, 0.95) / GIB == pytest.approx(12.3, abs=0.05)
    room = -561_981 * kv_cache.of_latent(61, 512, 64)
    assert room / GIB == pytest.approx(-36.8, abs=0.05)
    assert sglang.fraction_in_force(gib(21.73), before, room) == pytest.approx(0.69, abs=0.005)


def test_the_fraction_that_leaves_more_beside_the_pool() -> None:
    assert sglang.fraction_that_leaves(0.88, gib(1.5), gib(6), gib(78)) == 0.822


# training


@pytest.mark.parametrize(
    ("computed", "decimal_gb"),
    [
        (training.states_on_gpu(70_553_706_496, 32, 3), 39.7),
        (training.states_on_gpu(70_553_706_496, 32, 3, optimizer_offloaded=True), 4.4),
        (host.adam(70_000_000_000), 840),
        (host.sleep_copies(7_615_616_512, 8), 122),
        (host.full_checkpoint(32_000_000_000), 512),
        (host.copies_at_load(70_000_000_000, 8), 2240),
        (8 * 102 * 10**9, 816),
    ],
)
def test_states_and_copies(computed: int, decimal_gb: float) -> None:
    digits = 1 if decimal_gb != int(decimal_gb) else 0
    assert round(computed / 1e9, digits) == decimal_gb


def test_swap_space_of_a_node() -> None:
    assert host.swap_space(40, 28, 8) == 448 * GIB
    assert host.pinned(40 * GIB / 28) == 2 * GIB


def test_the_table_of_a_node() -> None:
    table = (176.97, 8.80, 8.79, 8.30, 8.30, 2.55, 2.36, 1.90, 1.66, 1.18)
    assert sum(table) == pytest.approx(220.8, abs=0.05)
    assert table[0] / sum(table) == pytest.approx(0.80, abs=0.005)


def test_a_colocated_card() -> None:
    assert pytest.approx(56) == 0.7 * 80
    assert pytest.approx(24) == 80 - 0.7 * 80


@pytest.mark.parametrize(
    ("computed", "size_gib"),
    [
        (training.activations(16_384, 3584, 28), 52),
        (2 * 16_384 * 3584 * 28, 3.1),
        (training.LAYER_BYTES * 16_384 * 3584, 1.9),
        (training.logits(16_384, 152_064, 2), 4.6),
        (training.logits(16_384, 152_064, 4), 9.3),
    ],
)
def test_activations_and_logits(computed: int, size_gib: float) -> None:
    digits = 1 if size_gib != int(size_gib) else 0
    assert round(computed / GIB, digits) == size_gib


def test_checkpointed_activations_are_the_inputs_and_one_layer() -> None:
    parts = 2 * 16_384 * 3584 * 28 + training.LAYER_BYTES * 16_384 * 3584
    assert training.activations_checkpointed(16_384, 3584, 28) == parts
