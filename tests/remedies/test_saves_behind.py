"""What is advised where a job that saves in the background is killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

BEHIND = "saving snapshot {} in the background"


def remedies(tmp_path: Path, *lines: str) -> list[dict[str, Any]]:
    diagnosis = body(tmp_path, "\n".join([*lines, "Killed"]))["diagnoses"][0]
    assert diagnosis["cause"] == "checkpoint-spike"
    found: list[dict[str, Any]] = diagnosis["remedies"]
    return found


@pytest.mark.parametrize(
    "lines",
    [
        [BEHIND.format(200), "step 300 loss 0.52", BEHIND.format(300)],
        [BEHIND.format(n) for n in (200, 300, 400)] + ["saved snapshot 200"],
    ],
)
def test_the_last_save_is_waited_for(tmp_path: Path, lines: list[str]) -> None:
    first = remedies(tmp_path, "step 100 loss 0.61", *lines)[0]
    assert first["knob"] == "smaller-buffers"
    assert first["snippet"].startswith("save.result()")


@pytest.mark.parametrize(
    "lines",
    [
        [BEHIND.format(200)],
        ["saving snapshot 200", "saving snapshot 300"],
        [
            "async saving of snapshots will start at step 100",
            "async saving of snapshots is enabled",
            "saving snapshot 9",
        ],
    ],
)
def test_nothing_is_waited_for_where_saves_do_not_overlap(tmp_path: Path, lines: list[str]) -> None:
    found = remedies(tmp_path, "step 100 loss 0.61", *lines)
    assert not [remedy for remedy in found if "save.result()" in (remedy["snippet"] or "")]


def test_an_option_that_says_how_many_is_lowered_instead(tmp_path: Path) -> None:
    launched = "python fit.py --max-pending-saves 8 --steps 900"
    first = remedies(tmp_path, launched, BEHIND.format(200), BEHIND.format(300))[0]
    assert (first["knob"], first["suggested"]) == ("smaller-buffers", 2)
