"""Options that a program prints back below its launch line, a row for each.

A block of rows is such a list where several of them repeat what the launch line says. The others are options, too:
those that were left at their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from oomdoctor.job.literals import typed
from oomdoctor.job.model import Setting, Value
from oomdoctor.patterns import late
from oomdoctor.streams import Line

WITHIN: Final = 120  # lines of the launch line
FEWEST: Final = 2  # that repeat it
_LONGEST: Final = 300  # characters
_ROW: Final = late(
    r"\s{0,40}(?:[-*•] )?(?:--)?(?P<name>[a-z][\w-]{0,60})(?:\s{0,40}[:=]\s{0,20}|\s?\.{2,60}\s?|\s{2,60})"
    r"(?P<value>\S.{0,200})\Z",
)


def defaults(below: Iterable[Line], launched: Mapping[str, Setting]) -> Iterator[tuple[str, Value, Line]]:
    """The options in the lines below a launch line that it does not name."""
    for is_of_rows, block in groupby(((_row(line.text), line) for line in below), key=lambda each: bool(each[0])):
        rows = [(*row, line) for row, line in block if row is not None] if is_of_rows else []
        if sum(name in launched and launched[name].value == value for name, value, _ in rows) >= FEWEST:
            yield from (row for row in rows if row[0] not in launched)


def spelled(name: str, value: Value, launched: str) -> str:
    """An option in the manner of the launch line, up to its value; a switch by its name alone, whose flag may be
    another."""
    if value is None or isinstance(value, bool):
        return f"{name}="
    return f"--{name if '_' in launched else name.replace('_', '-')} "


def _row(text: str) -> tuple[str, Value] | None:
    match = _ROW.match(text.rstrip()) if len(text) <= _LONGEST else None
    return (match["name"].replace("-", "_"), typed(match["value"].strip("\"'"))) if match is not None else None


__all__ = ["FEWEST", "WITHIN", "defaults", "spelled"]
