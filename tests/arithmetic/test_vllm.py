"""Figures that engines printed, and what follows from them: the functions reproduce what was printed beside them."""

from __future__ import annotations

import pytest

from oomdoctor.arithmetic import shares, vllm
from oomdoctor.units import GIB
from oomdoctor.versions import version_of


def gib(value: float) -> int:
    return round(value * GIB)


@pytest.mark.parametrize(
    ("free", "total", "share"),
    [(31.44, 47.38, 0.66), (3.22, 4.0, 0.80), (19.77, 22.05, 0.89), (0.49, 79.32, 0.0), (22.05, 22.05, 1.0)],
)
def test_the_largest_share_is_rounded_down(free: float, total: float, share: float) -> None:
    assert shares.largest(gib(free), gib(total)) == share


def test_a_share_that_is_raised_suffices_and_one_that_is_lowered_is_none_at_worst() -> None:
    assert shares.raised(0.6, missing=11, total=1000) == 0.62
    assert shares.lowered(0.6, missing=11, total=1000) == 0.58
    assert shares.lowered(0.02, missing=790, total=1000) == 0.0


@pytest.mark.parametrize(
    ("asked", "needed", "available", "estimated", "longest"),
    [
        (1_048_576, 24.0, 9.97, None, 435_280),
        (221_000, 10.12, 5.59, None, 121_904),  # the engine printed 122,080: the sizes are rounded
        (221_000, 10.12, 5.59, 122_080, 122_080),
        (221_000, 10.12, 5.59, 0, None),  # its own word counts
        (32_768, 4.5, -0.31, None, None),
        (32_768, 4.5, 0.01, None, 32),  # 0.005 at least
        (32_768, 4.5, 0.007, None, None),  # less than a block
        (50_000, 2.13, 2.12, None, 49_520),  # 50,000 x 2.12 / 2.13 = 49,765 may be refused once more
    ],
)
def test_the_longest_context(
    asked: int, needed: float, available: float, estimated: int | None, longest: int | None
) -> None:
    assert vllm.longest_context(asked, gib(needed), gib(available), estimated) == longest


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
    assert version_of(text) == version


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
    assert vllm.era(version, engine) == vllm.Era(others_counted, free_checked, graphs_inside)


def test_an_era_that_the_log_does_not_settle() -> None:
    assert vllm.era(None, "V1") is None
    assert vllm.era((0, 8, 5), None) is None  # both engines were there, and they differ


def test_the_default_share_rose_once() -> None:
    assert vllm.default_share((0, 19, 1)) == 0.9
    assert vllm.default_share((0, 20, 0)) == 0.92
    assert vllm.default_share(None) is None
