"""The reports on all fixtures, each made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import oomdoctor
from oomdoctor.report.contract import Report

ROOT = Path(__file__).parent.parent
LOGS = sorted(ROOT.glob("fixtures/*/*.log"))


def named(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


@cache
def report_on(log: Path) -> Report:
    return oomdoctor.diagnose(log)


@cache
def diagnosed(log: Path) -> dict[str, Any]:
    return report_on(log).as_json()
