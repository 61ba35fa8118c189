"""Whole logs in which one record explains another's kill, and near misses in which it does not.

A folder of `fixtures/joins` is one run; its files are given together, as a user would. `expected.json` says what an
expert takes from them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose

RUNS = sorted((Path(__file__).parent.parent / "fixtures" / "joins").iterdir())


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_which_record_explains_which_death(run: Path) -> None:
    expected: dict[str, Any] = json.loads((run / "expected.json").read_text(encoding="utf-8"))
    report = diagnose(*[str(path) for path in sorted(run.iterdir()) if path.name != "expected.json"])
    first = report.incidents[0].diagnoses[0]
    root = next(event for event in report.events if event.role == "root")
    assert expected["about"]
    assert report.verdict == expected["verdict"]
    assert len(report.incidents) == expected["incidents"]
    assert (first.cause, first.pool) == (expected.get("cause", first.cause), expected["pool"])
    assert root.family == expected["root"]
    assert {e.family: e.role for e in report.events if e.family in expected["roles"]} == expected["roles"]
    assert first.stage == expected.get("stage", first.stage)
    assert root.process["rank"] == expected.get("root_rank", root.process["rank"])
    for words in expected.get("lookalikes", ()):
        assert any(words in quote.why for quote in report.lookalikes)


def test_near_misses_are_a_good_part_of_them() -> None:
    assert sum(run.name.startswith("near-") for run in RUNS) * 5 >= len(RUNS) * 2
