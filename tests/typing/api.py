"""What programs may rely on, checked by mypy alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oomdoctor
from oomdoctor import Report, diagnose


def the_best_remedies(path: str) -> list[str]:
    report: Report = diagnose(path)
    cause: str = report.incidents[0].diagnoses[0].cause
    confidence: float = report.incidents[0].diagnoses[0].confidence
    pool: str = report.incidents[0].diagnoses[0].pool
    print(oomdoctor.__version__.upper(), cause, pool, confidence + 0.5, report.stats.bytes + 1)
    return [remedy.action for remedy in report.incidents[0].diagnoses[0].remedies]


def of_a_path(path: Path) -> Report:
    return diagnose(path, "raylet.out")


def several(paths: list[str]) -> dict[str, Any]:
    seen: list[int] = []
    return diagnose(*paths, absolute=True, progress=seen.append).as_json()


def with_what_the_log_does_not_print(path: Path) -> Report:
    return diagnose(path, launch="run.sh", config=[path, "ppo.yaml"], assume={"vllm": "0.8.3", "zero_stage": 3})
