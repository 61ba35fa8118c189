"""A flight record without the job's output: an error that stands in the output is not denied."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor
from oomdoctor.cli.reports import INCONCLUSIVE, NO_FAILURE, exit_code

RECORDS = Path(__file__).parent.parent.parent / "fixtures" / "flight_record"
OUTPUT_AND_RECORD = (RECORDS / "page-cache-at-the-limit.log").read_text(encoding="utf-8")  # exit code 1
FAILED = "".join(line for line in OUTPUT_AND_RECORD.splitlines(keepends=True) if line.startswith('{"flight":"'))
UNKNOWN = "what the job printed is not in the record"


def test_what_a_job_printed_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "flight.jsonl").write_text(FAILED, encoding="utf-8")
    report = oomdoctor.diagnose(tmp_path / "flight.jsonl")
    assert (report.verdict, report.incidents, exit_code(report, exit_zero=False)) == ("inconclusive", (), INCONCLUSIVE)
    assert exit_code(report, exit_zero=True) == 0
    (quote,) = report.lookalikes
    assert UNKNOWN in quote.why
    assert "its output shows" not in quote.why


@pytest.mark.parametrize("output", ["epoch 1 step 40 loss 0.71\n", "ValueError: no such column\n"])
def test_beside_the_output_a_failure_without_a_memory_error_is_none(output: str, tmp_path: Path) -> None:
    (tmp_path / "flight.jsonl").write_text(FAILED, encoding="utf-8")
    (tmp_path / "train.log").write_text(output, encoding="utf-8")
    report = oomdoctor.diagnose(tmp_path / "flight.jsonl", tmp_path / "train.log")
    assert (report.verdict, exit_code(report, exit_zero=False)) == ("no-oom", NO_FAILURE)
    assert UNKNOWN not in report.lookalikes[0].why


@pytest.mark.parametrize("above", [True, False])
def test_the_output_in_the_same_file_counts(above: bool, tmp_path: Path) -> None:
    output = "epoch 1 step 40 loss 0.71\n"
    (tmp_path / "all.log").write_text(output + FAILED if above else FAILED + output, encoding="utf-8")
    assert oomdoctor.diagnose(tmp_path / "all.log").verdict == "no-oom"


@pytest.mark.parametrize("record", ["killed-by-hand", "killed-by-a-stranger-of-the-machine", "told-to-stop"])
def test_an_end_that_the_record_explains_stays_explained(record: str) -> None:
    assert oomdoctor.diagnose(RECORDS / f"{record}.log").verdict == "no-oom"


def test_a_job_that_ended_well_is_healthy(tmp_path: Path) -> None:
    (tmp_path / "flight.jsonl").write_text(FAILED.replace('"status":1', '"status":0'), encoding="utf-8")
    assert oomdoctor.diagnose(tmp_path / "flight.jsonl").verdict == "no-oom"
