"""Sizes: the table is the reader's choice, unknown is None, and what is shown reads like what programs print."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from oomdoctor.units import (
    BINARY,
    DECIMAL,
    GIB,
    KIB,
    LARGEST_SIZE,
    MIB,
    TIB,
    apart,
    in_digits,
    in_print,
    is_rough,
    percent,
    show,
    size,
)


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        ("2.00", "GiB", 2 * GIB),
        ("278.19", "MiB", 291703357),
        ("12.40", "GB", 13314398618),  # Ray's kill messages print GiB and call it GB
        ("1,024", "KiB", MIB),
        ("512", "", 512),
        ("512", " bytes ", 512),
        ("-3.5", "KiB", -3584),
        ("0", "TB", 0),
        (7, "Mi", 7 * MIB),
        (0.5, "T", TIB // 2),
    ],
)
def test_binary_sizes(number: str | float, unit: str, expected: int) -> None:
    assert size(number, unit) == expected


@pytest.mark.parametrize(
    ("number", "unit", "expected"),
    [
        ("7.44959", "GB", 7449590000),  # Ray's plasma store means it
        ("16", "G", 16_000_000_000),
        ("16", "Gi", 16 * GIB),
        ("300", "MiB", 300 * MIB),
        ("5", "k", 5000),
    ],
)
def test_decimal_sizes(number: str, unit: str, expected: int) -> None:
    assert size(number, unit, DECIMAL) == expected


@pytest.mark.parametrize(
    ("number", "unit"),
    [
        ("17179869184.00", "GiB"),  # NVML's "not available"
        ("nan", "GiB"),
        ("inf", "B"),
        ("1e400", "B"),
        ("", "GiB"),
        ("1.2.3", "GiB"),
        ("12", "parsecs"),
        ("twelve", "GiB"),
    ],
)
def test_what_is_no_size_is_unknown(number: str, unit: str) -> None:
    assert size(number, unit) is None


def test_the_largest_size_is_the_first_that_is_none() -> None:
    assert size(str(LARGEST_SIZE)) is None
    assert size(str(LARGEST_SIZE - 1024)) == LARGEST_SIZE - 1024


@pytest.mark.parametrize(
    ("bytes_", "expected"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (KIB, "1 KiB"),
        (MIB, "1 MiB"),
        (GIB, "1.00 GiB"),
        (10 * KIB, "10 KiB"),
        (291703357, "278 MiB"),
        (66.85 * GIB, "66.85 GiB"),
        (-3 * GIB, "-3.00 GiB"),
        (2015.19 * GIB, "2015.19 GiB"),
        (8 * TIB - GIB, "8191.00 GiB"),
        (8 * TIB, "8.00 TiB"),
        (1024 * TIB, "1.00 PiB"),
        (4585490515430834176, "3.98 EiB"),
        (-5 * MIB, "-5 MiB"),
        (1.7 * MIB, "1.7 MiB"),
        (-8.6 * MIB, "-8.6 MiB"),
        (5.02 * MIB, "5 MiB"),
        (9.97 * MIB, "10 MiB"),
        (12.6 * MIB, "13 MiB"),
    ],
)
def test_showing(bytes_: float, expected: str) -> None:
    assert show(bytes_) == expected


@given(st.integers(0, 900), st.sampled_from(sorted(set(BINARY) - {""})))
def test_what_a_program_prints_is_read_as_it_meant_it(number: int, unit: str) -> None:
    assume(number * BINARY[unit] < LARGEST_SIZE)
    assert size(f"{number:,}", unit.upper()) == number * BINARY[unit]
    decimal = size(number, unit, DECIMAL)
    assert decimal is not None
    assert decimal <= number * BINARY[unit]
    assert ("i" in unit) <= (decimal == number * BINARY[unit]), "KiB is never decimal"


@given(st.integers(0, 1000 * TIB))
def test_what_is_shown_is_read_again(bytes_: int) -> None:
    number, unit = show(bytes_).split()
    again = size(number, unit)
    assert again is not None
    assert abs(again - bytes_) <= max((0.5 if unit in ("bytes", "KiB", "MiB") else 0.005) * BINARY[unit.lower()], 1)


def test_a_share_is_told_with_a_digit_only_where_it_counts() -> None:
    assert [percent(share) for share in (0.046, 0.1, 0.456, 1.0, None)] == [
        "4.6%",
        "10%",
        "46%",
        "100%",
        "an unknown part",
    ]


def test_a_count_is_written_as_somebody_types_it() -> None:
    assert [in_digits(number) for number in (8388608.0, 1_500_000, 4, 0.5, 1e7 + 0.25)] == [
        "8388608", "1500000", "4", "0.5", "1e+07",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (7 * GIB + 12 * MIB, 7 * GIB + 9 * MIB, ("7.012 GiB", "7.009 GiB")),
        (300 * MIB + 4096, 300 * MIB, ("300.004 MiB", "300.000 MiB")),
        (8 * GIB + 2, 8 * GIB, ("8,589,934,594 bytes", "8,589,934,592 bytes")),
        # as ever where they look different, or are the same
        (7 * GIB, 6 * GIB, ("7.00 GiB", "6.00 GiB")),
        (7 * GIB, 7 * GIB, ("7.00 GiB", "7.00 GiB")),
        (300 * MIB, 2 * GIB, ("300 MiB", "2.00 GiB")),
    ],
)
def test_what_differs_looks_different(one: int, other: int, expected: tuple[str, str]) -> None:
    assert apart(one, other) == expected


def hundredths(number: float) -> int:
    """As a size is read that a log prints in GiB."""
    return round(number * GIB)


@pytest.mark.parametrize(
    ("size", "words", "rough"),
    [
        (hundredths(6.48) - hundredths(6.47), "0.01 GiB", True),
        (hundredths(4.26) - hundredths(4.17), "0.09 GiB", True),
        (hundredths(0.49), "0.49 GiB", False),
        (hundredths(7.28) - hundredths(7.08), "0.20 GiB", False),
        # near misses: figures of other units, and of more than one
        (10 * MIB, "10 MiB", False),
        (hundredths(0.25), "256 MiB", False),
        (hundredths(0.49) + 5, "502 MiB", False),
        (round(501.8 * MIB), "502 MiB", False),
        (hundredths(2.31), "2.31 GiB", False),
        (0, "0 bytes", False),
    ],
)
def test_what_is_left_of_two_figures_has_their_digits(size: int, words: str, rough: bool) -> None:
    assert in_print(size) == words
    assert is_rough(size) is rough


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (20 * MIB, round(20.38 * MIB), ("20.0 MiB", "20.4 MiB")),
        (20 * MIB, round(20.03 * MIB), ("20.00 MiB", "20.03 MiB")),
        (20 * MIB, 21 * MIB, ("20 MiB", "21 MiB")),
    ],
)
def test_no_more_digits_than_tell_them_apart(one: int, other: int, words: tuple[str, str]) -> None:
    assert apart(one, other) == words
