"""A range of times that begins in 1970, and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

TRACE = (
    "Traceback (most recent call last):\n"
    '  File "grid.py", line 12, in on_a_grid\n    return readings.{call}\n'
    '  File "/env/pandas/core/arrays/_ranges.py", line 85, in {inner}\n    values = np.arange(b, e, stride)\n'
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate {size} for an array with shape ({shape}) and data "
    "type int64\n"
)


def first(tmp_path: Path, shape: str, size: str, call: str, inner: str) -> dict[str, Any]:
    log = TRACE.format(shape=shape, size=size, call=call, inner=inner)
    found: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("shape", "size", "call", "inner", "is_one"),
    [
        ("1748736001,", "13.0 GiB", 'resample("1s").ffill()', "generate_regular_range", True),
        ("4, 1748736001", "52.1 GiB", 'asfreq("s")', "take_nd", True),
        ("1325376001,", "9.9 GiB", 'resample("1s").mean()', "generate_regular_range", True),  # 2012-01-01
        ("1748736001,", "13.0 GiB", "sort_values()", "take", False),  # no range of times
        ("1148736001,", "8.6 GiB", 'resample("1s").ffill()', "generate_regular_range", False),  # 2006
        ("2148736001,", "16.0 GiB", 'resample("1s").ffill()', "generate_regular_range", False),  # 2038
        ("1748736, 1000", "13.0 GiB", 'resample("1s").ffill()', "generate_regular_range", False),
    ],
)
def test_as_many_rows_as_seconds_since_1970(
    tmp_path: Path, shape: str, size: str, call: str, inner: str, is_one: bool
) -> None:
    diagnosis = first(tmp_path, shape, size, call, inner)
    assert (diagnosis["cause"] == "absurd-size") is is_one
    assert ("1970-01-01" in diagnosis["explanation"]) is is_one


@pytest.mark.parametrize(
    ("printed", "call", "is_one"),
    [
        ("times from 1970-01-01 00:00:00 to 2025-03-01", 'resample("100ms").mean()', True),
        ("times from 1971-01-01 00:00:00 to 2025-03-01", 'resample("100ms").mean()', False),
        ("times from 1970-01-01 00:00:00 to 2025-03-01", "sort_values()", False),
    ],
)
def test_a_range_of_another_step_by_its_printed_begin(tmp_path: Path, printed: str, call: str, is_one: bool) -> None:
    inner = "generate_regular_range" if "resample" in call else "take"
    log = TRACE.format(shape="4408172001,", size="32.8 GiB", call=call, inner=inner)
    diagnosis = body(tmp_path, f"{printed}\n{log}")["diagnoses"][0]
    assert (diagnosis["cause"] == "absurd-size") is is_one
    assert ("its times begin on 1970-01-01" in diagnosis["explanation"]) is is_one


def test_its_first_stamp_is_left_out(tmp_path: Path) -> None:
    remedy = first(tmp_path, "1748736001,", "13.0 GiB", 'resample("1s").ffill()', "generate_regular_range")["remedies"][
        0
    ]
    assert (remedy["knob"], remedy["snippet"]) == ("fix-shape", 'df = df[df.index > "1970-01-01"]')
    assert remedy["derivation"] == "1,748,736,001 s / 86,400 s = 20,240 days after 1970-01-01: 2025-06-01"
