"""The ratios that hold, and which of the measured ones no longer do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

BUDGETS = Path(__file__).parent / "budgets.toml"
ABOVE = 1.2  # times its budget is a regression: machines differ by less, and so do rounds
HEAD = """\
# What oomdoctor's processor time may be, in times of another program's for the same log, what resident memory may be in
# megabytes, and how time may grow (1: twice as much takes twice as long). `python -m benchmarks --check` fails where a
# measured figure is more than 20 % above its budget; `--update-budgets` replaces the budgets of what was measured. What
# has no line here is only told.
"""


def budgets() -> dict[str, float]:
    return msgspec.toml.decode(BUDGETS.read_bytes(), type=dict[str, float])


def exceeded(figures: Mapping[str, float]) -> Iterator[str]:
    for name, allowed in budgets().items():
        if name in figures and figures[name] > allowed * ABOVE:
            yield f"{name}: {figures[name]:.2f}, {figures[name] / allowed - 1:.0%} above its budget of {allowed:g}"


def update(figures: Mapping[str, float]) -> None:
    lines = [f'"{name}" = {figures.get(name, known):.3g}\n' for name, known in budgets().items()]
    BUDGETS.write_text(HEAD + "\n" + "".join(lines), encoding="utf-8")
