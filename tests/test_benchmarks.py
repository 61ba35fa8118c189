"""What the benchmarks conclude from what they measure. How fast things are is no matter of this suite."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks import budgets
from benchmarks.logs import healthy, write_failing, write_folder
from benchmarks.measure import Command, Run, fit, in_turns, ratio
from oomdoctor import diagnose


def runs(*seconds: float) -> list[Run]:
    return [Run(it, it * 2, 10.0) for it in seconds]


def by_the_clock(it: Run) -> float:
    return it.seconds


def test_a_round_is_compared_with_itself() -> None:
    # the second round was busy: both took ten times as long
    assert ratio(runs(2.0, 20.0, 2.2), runs(1.0, 10.0, 1.0), by_the_clock) == 2.0
    assert ratio(runs(3.0, 21.0, 3.0), runs(1.0, 10.0, 1.0), by_the_clock, without=runs(1.0, 1.0, 1.0)) == 2.0


def test_a_fit_tells_a_line_from_a_square() -> None:
    line = fit({n: 0.5 + 0.1 * n for n in (1, 2, 4, 8)}, start=0.5)
    assert (line.start, line.each) == pytest.approx((0.5, 0.1))
    assert (line.explained, line.exponent) == pytest.approx((1.0, 1.0))
    square = fit({n: 0.5 + 0.1 * n * n for n in (1, 2, 4, 8)}, start=0.5)
    assert square.exponent == pytest.approx(2.0)
    assert square.explained < 0.99


def test_a_program_that_fails_is_no_measurement() -> None:
    works, fails = ([sys.executable, "-c", f"raise SystemExit({code})"] for code in (0, 1))
    assert len(in_turns({"works": Command(works)}, 2)["works"]) == 2
    assert in_turns({"found": Command(fails, ends=(1,))}, 1)["found"][0].megabytes > 1
    with pytest.raises(SystemExit, match="ended with 1"):
        in_turns({"fails": Command(fails)}, 1)


def test_a_fifth_above_its_budget_is_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "BUDGETS", tmp_path / "budgets.toml")
    budgets.BUDGETS.write_text('"a, 1 GB: file / wc -l" = 2\n"b" = 3.0\n', encoding="utf-8")
    budgets.update({"b": 1.0, "c": 9.0})
    assert budgets.budgets() == {"a, 1 GB: file / wc -l": 2.0, "b": 1.0}
    assert list(budgets.exceeded({"a, 1 GB: file / wc -l": 2.39, "b": 0.1, "c": 9.0})) == []
    assert list(budgets.exceeded({"a, 1 GB: file / wc -l": 2.5})) == [
        "a, 1 GB: file / wc -l: 2.50, 25% above its budget of 2"
    ]


def test_the_budgets_are_of_figures_that_are_measured() -> None:
    assert {name.partition(",")[0].partition(":")[0] for name in budgets.budgets()} <= {
        "sparse", "metrics", "dense", "start-up / do nothing",
        "growth with a dense log's megabytes", "growth with failures", "growth with files",
    }  # fmt: skip


def test_the_logs_hold_what_is_measured_with_them(tmp_path: Path) -> None:
    log, folder = tmp_path / "failing.log", tmp_path / "folder"
    write_failing(log, 100_000, 20)
    assert log.read_bytes().count(b"torch.OutOfMemoryError") == 20
    assert 100_000 <= log.stat().st_size < 150_000
    write_folder(folder, 100_000, 5)
    assert len(list(folder.iterdir())) == 5
    assert diagnose(folder).verdict == "oom"
    assert b"OutOfMemory" not in healthy(50_000)
