"""The reports on all fixtures, each made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import oomdoctor

ROOT = Path(__file__).parent.parent
LOGS = sorted(ROOT.glob("fixtures/*/*.log"))


def named(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


@cache
def diagnosed(log: Path) -> dict[str, Any]:
    report: dict[str, Any] = oomdoctor.diagnose(log).as_json()
    return report
