"""The reports on all fixtures, each made once, and tests of what holds of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import copy_context
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import pytest

import oomdoctor
from oomdoctor.language import CHINESE, use
from oomdoctor.report.contract import Report

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
LOGS = sorted(FIXTURES.glob("*/*.log"))

Check = Callable[..., None]


def named(log: Path) -> str:
    return f"{log.parent.name}/{log.stem}"


@cache
def report_on(log: Path) -> Report:
    return oomdoctor.diagnose(log)


def body(folder: Path, text: str) -> dict[str, Any]:
    """The report on a log of this text."""
    log = folder / "job.log"
    log.write_text(text + "\n", encoding="utf-8")
    return oomdoctor.diagnose(log).as_json()


@cache
def diagnosed(log: Path) -> dict[str, Any]:
    return report_on(log).as_json()


@cache
def diagnosed_in_chinese(log: Path) -> dict[str, Any]:
    def spoken() -> dict[str, Any]:
        use(CHINESE)
        return oomdoctor.diagnose(log).as_json()

    return copy_context().run(spoken)


def of_each(logs: Sequence[Path], one_in: int = 1) -> Callable[[Check], Check]:
    """A test of each of the logs, in one item per family: pytest takes longer over an item than most checks do.

    Of `one_in` logs, one is looked at without the slow tests.
    """

    def as_test(check: Check) -> Check:
        def of_family(family: Iterable[Path], **others: Any) -> None:
            __tracebackhide__ = True
            failures = {log: error for log in family if (error := _failure(check, log, others))}
            if failures:
                said = "\n\n".join(f"{named(log)}: {error}" for log, error in failures.items())
                raise AssertionError(said) from next(iter(failures.values()))

        for name in ("__name__", "__qualname__", "__module__", "__doc__", "pytestmark"):
            if hasattr(check, name):
                setattr(of_family, name, getattr(check, name))
        taken = signature(check)
        family = Parameter("family", Parameter.POSITIONAL_OR_KEYWORD)
        others = (each for name, each in taken.parameters.items() if name != "log")
        of_family.__signature__ = taken.replace(parameters=[family, *others])  # type: ignore[attr-defined]
        test: Check = pytest.mark.parametrize("family", _families(logs, one_in))(of_family)
        return test

    return as_test


def _failure(check: Check, log: Path, others: dict[str, Any]) -> Exception | None:
    __tracebackhide__ = True
    try:
        check(log=log, **others)
    except Exception as error:  # noqa: BLE001  (whatever it is, it is this log's)
        return error
    return None


def _families(logs: Sequence[Path], one_in: int) -> list[Any]:
    often: dict[str, list[Path]] = {}
    seldom: dict[str, list[Path]] = {}
    for number, log in enumerate(logs):
        group = seldom if number % one_in else often
        group.setdefault(log.relative_to(FIXTURES).parts[0], []).append(log)
    return [
        *(pytest.param(family, id=name) for name, family in often.items()),
        *(pytest.param(family, id=f"{name}, the others", marks=pytest.mark.slow) for name, family in seldom.items()),
    ]
