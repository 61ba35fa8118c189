"""Arrays of NumPy's with as many rows as columns: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import crash
from reports import body

from oomdoctor.signs.host_data import a_square_array_was_refused

LINE = "numpy.core._exceptions.MemoryError: Unable to allocate {} for an array with shape {} and data type {}"


@pytest.mark.parametrize(
    ("size", "shape", "square"),
    [
        ("13.4 GiB", "(60000, 30000)", False),
        ("1.00 MiB", "(512, 512)", False),
        ("0.99 GiB", "(11500, 11500)", False),
        ("7.00 GiB", "(999, 999)", False),
        ("26.8 GiB", "(3, 60000, 60000)", False),
        ("26.8 GiB", "(60000, 60000)", True),
        ("1.00 GiB", "(1000, 1000)", True),
    ],
)
def test_a_square_array(size: str, shape: str, *, square: bool) -> None:
    assert (a_square_array_was_refused(crash(LINE.format(size, shape, "float64"))) is not None) == square


@pytest.mark.parametrize(
    ("dtype", "narrower"), [("float32", False), ("bool", False), ("float64", True), ("int64", True)]
)
def test_what_is_made_of_it(dtype: str, tmp_path, *, narrower: bool) -> None:  # type: ignore[no-untyped-def]
    remedies = body(tmp_path, LINE.format("26.8 GiB", "(60000, 60000)", dtype))["diagnoses"][0]["remedies"]
    knobs = [one["knob"] for one in remedies]
    assert "smaller-partitions" in knobs[:2]
    assert ("narrow-dtypes" in knobs) == narrower
