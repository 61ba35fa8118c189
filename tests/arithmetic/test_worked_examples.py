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
    ("free", "total", "most"), [(31.44, 47.38, 0.66), (3.22, 4.0, 0.80), (19.77, 22.05, 0.89), (0.49, 79.32, 0.0)]
)
def test_the_largest_share_that_what_is_free_allows(free: float, total: float, most: float) -> None:
    assert shares.largest(gib(free), gib(total)) == most


@pytest.mark.parametrize(
    ("asked", "needed", "available", "longest"),
    [
        (1_048_576, 24.00, 9.97, 435_280),
        (221_000, 10.12, 5.59, 121_904),  # the engine's own estimate is 122,080: both sizes are rounded
        (262_144, 24.0, 3.18, 34_672),  # its estimate is 34,736
    ],
)
def test_the_longest_context(asked: int, needed: float, available: float, longest: int) -> None:
    assert vllm.longest_context(asked, gib(needed), gib(available)) == longest


def test_the_context_in_half_the_bytes() -> None:
    longest = vllm.longest_context(1_048_576, gib(12.0), gib(9.97))
    assert longest is not None
    assert longest // 1000 == 870


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
        (kv_cache.of_model(28, 4, 128, tensor_parallel=8), 14_336, 0),  # fewer heads than ranks: each has a copy
    ],
)
def test_bytes_per_token(found: float, exact: int, within: int) -> None:
    assert round(found) == pytest.approx(exact, abs=within)


def test_a_cache_is_made_of_whole_blocks() -> None:
    assert kv_cache.need(LLAMA_8B, 16) == 16 * LLAMA_8B
    assert kv_cache.need(LLAMA_8B, 17) == 32 * LLAMA_8B
    assert kv_cache.fitting(47 * LLAMA_8B, LLAMA_8B) == 32
    assert kv_cache.fitting(-LLAMA_8B, LLAMA_8B) == 0


# SGLang


def test_the_fraction_that_the_weights_alone_take() -> None:
    assert sglang.smallest_fraction(gib(12.25), gib(12.25) + gib(125.65)) == 0.912


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
    ],
)
def test_states_and_copies(computed: int, decimal_gb: float) -> None:
    digits = 1 if decimal_gb != int(decimal_gb) else 0
    assert round(computed / 1e9, digits) == decimal_gb


def test_swap_space_of_a_node() -> None:
    assert host.swap_space(40, 28, 8) == 448 * GIB
    assert host.pinned(40 * GIB / 28) == 2 * GIB


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
