"""Figures that engines printed, and what follows from them: the functions reproduce what was printed beside them."""

from __future__ import annotations

import pytest

from oomdoctor.incident import engine_budget as budget
from oomdoctor.units import GIB


def gib(value: float) -> int:
    return round(value * GIB)


@pytest.mark.parametrize(
    ("free", "total", "share"),
    [(31.44, 47.38, 0.66), (3.22, 4.0, 0.80), (19.77, 22.05, 0.89), (0.49, 79.32, 0.0), (22.05, 22.05, 1.0)],
)
def test_the_largest_share_is_rounded_down(free: float, total: float, share: float) -> None:
    assert budget.largest_share(gib(free), gib(total)) == share


def test_what_is_kept_beside_the_share_comes_off_it() -> None:
    assert budget.largest_share(gib(31.44), gib(47.38), keep=gib(2)) == 0.62
    assert budget.largest_share(gib(1), gib(47.38), keep=gib(2)) == 0.0


@pytest.mark.parametrize(
    ("asked", "needed", "available", "estimated", "longest"),
    [
        (1_048_576, 24.0, 9.97, None, 435_584),
        (221_000, 10.12, 5.59, None, 122_064),  # the engine printed 122,080: the sizes are rounded
        (221_000, 10.12, 5.59, 122_080, 122_080),
        (32_768, 4.5, -0.31, None, None),
        (32_768, 4.5, 0.001, None, None),  # less than a block
    ],
)
def test_the_longest_context(
    asked: int, needed: float, available: float, estimated: int | None, longest: int | None
) -> None:
    assert budget.longest_context(asked, gib(needed), gib(available), estimated) == longest


def test_bytes_per_token_five_ways() -> None:
    assert budget.token_bytes_of_need(gib(24), 1_048_576) == 24_576
    assert budget.token_bytes_of_cache(gib(18.78), 175_856) == pytest.approx(114_688, rel=1e-3)
    assert budget.token_bytes_of_blocks(gib(14.65), 6001) == pytest.approx(163_840, rel=1e-3)
    assert budget.token_bytes_of_cpu_blocks(1638) == pytest.approx(163_840, rel=1e-3)
    assert budget.token_bytes_of_cpu_blocks(4681) == pytest.approx(57_344, rel=1e-3)
    assert budget.token_bytes_of_model(layers=32, kv_heads=8, head_dim=128, bytes_each=2) == 131_072
    assert budget.token_bytes_of_model(layers=48, kv_heads=8, head_dim=128, bytes_each=2, tensor_parallel=2) == 98_304
    assert budget.token_bytes_of_model(layers=36, kv_heads=2, head_dim=128, bytes_each=2, tensor_parallel=4) == 18_432


def test_the_smallest_share_where_the_room_is_negative() -> None:
    # An 8 GiB card with 5.20 of weights, 0.03 and 1.42 beside them: 1.05 GiB are missing before the first token.
    per_token = budget.token_bytes_of_cpu_blocks(4681)
    need = budget.cache_need(per_token, 4096)
    assert need == pytest.approx(gib(0.219), rel=1e-2)
    assert budget.smallest_share(gib(5.20 + 0.03 + 1.42) + need, gib(8.0)) == 0.86
    assert budget.raised_share(0.70, gib(1.05) + need, gib(8.0)) == 0.86


def test_a_longer_context_needs_a_larger_share() -> None:
    per_token = budget.token_bytes_of_blocks(gib(3.81), 1952)
    need = budget.cache_need(per_token, 29_000)
    assert budget.smallest_share(gib(17.98 + 0.35) + need, gib(23.58)) == 0.93


def test_the_share_after_a_failed_capture() -> None:
    assert budget.share_for_capture(0.95, gib(0.75), gib(0.25), gib(20)) == 0.90
    assert budget.share_for_capture(0.02, gib(5), gib(0.25), gib(20)) == 0.0


def test_the_card_follows_from_the_estimate_of_the_graphs() -> None:
    assert budget.total_of_estimate(gib(0.36), 0.82, 0.8352) == pytest.approx(gib(23.7), rel=1e-2)


def test_the_cache_that_fits_the_budget() -> None:
    # 160.53 minus 8.58, 9.96, 0.07 and 0.65: the engine printed 151519866880
    fits = budget.cache_to_fit(gib(160.53), gib(8.58 + 0.07), gib(9.96), gib(0.65))
    assert fits == pytest.approx(151_519_866_880, rel=1e-3)
    # ... and once it printed -20.83 GiB, having counted the graphs twice
    fits = budget.cache_to_fit(gib(164.08), gib(58.44), gib(4.88), gib(63.99))
    assert fits == pytest.approx(gib(36.62), rel=1e-3)


def test_the_warmup_holds_several_copies_of_the_logits() -> None:
    assert budget.warmup_bytes(1024, 151_936) == pytest.approx(3 * gib(0.58), rel=1e-2)


@pytest.mark.parametrize(
    ("pre", "after", "fraction", "rest"),
    [(287.18, 230.20, 0.911, 204.64), (137.90, 12.25, 0.88, -4.30)],
)
def test_sglangs_room_is_a_share_of_what_was_free(pre: float, after: float, fraction: float, rest: float) -> None:
    assert budget.sglang_rest(gib(pre), gib(after), fraction) == pytest.approx(gib(rest), rel=1e-3)


def test_sglangs_smallest_fraction() -> None:
    assert budget.sglang_smallest_fraction(gib(137.90), gib(12.25)) == 0.912
    assert budget.sglang_smallest_fraction(gib(137.90), gib(12.25), needed=gib(4)) == 0.941


def test_sglangs_fraction_goes_down_for_what_comes_after_the_pool() -> None:
    assert budget.sglang_lowered_fraction(0.88, gib(78), gib(1.5), gib(6)) == 0.822


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("0.8.5.post1", (0, 8, 5)),
        ("v0.11.1rc7.dev145+gb39a5026e", (0, 11, 1)),
        ("0.10.1.1", (0, 10, 1, 1)),
        ("0.20.1rc1.dev16+g7a1eb8ac2", (0, 20, 1)),
        ("dev", None),
        (None, None),
    ],
)
def test_versions(text: str | None, version: tuple[int, ...] | None) -> None:
    assert budget.version_of(text) == version


@pytest.mark.parametrize(
    ("version", "engine", "others_counted", "free_checked", "graphs_inside"),
    [
        ((0, 2, 0), None, False, False, False),
        ((0, 2, 7), None, True, False, False),
        ((0, 5, 4), None, False, False, False),
        ((0, 6, 4), "V0", True, False, False),
        ((0, 8, 5), "V0", False, False, False),
        ((0, 8, 5), "V1", True, False, False),
        ((0, 9, 0, 1), "V1", True, False, False),
        ((0, 9, 1), "V1", False, True, False),
        ((0, 10, 2), "V0", False, False, False),
        ((0, 13, 0), None, False, True, False),
        ((0, 20, 1), None, False, True, True),
    ],
)
def test_eras(
    version: tuple[int, ...], engine: str | None, others_counted: bool, free_checked: bool, graphs_inside: bool
) -> None:
    assert budget.era(version, engine) == budget.Era(others_counted, free_checked, graphs_inside)


def test_an_era_that_the_log_does_not_settle() -> None:
    assert budget.era(None, "V1") is None
    assert budget.era((0, 8, 5), None) is None  # both engines were there, and they differ


def test_the_default_share_rose_once() -> None:
    assert budget.default_share((0, 19, 1)) == 0.9
    assert budget.default_share((0, 20, 0)) == 0.92
    assert budget.default_share(None) is None
