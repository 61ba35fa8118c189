"""The tables in the files of `oomdoctor/job/frameworks/`: how each framework spells the knobs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Final

from oomdoctor.job.frameworks import TABLE, framework, text_of
from oomdoctor.job.frameworks import frameworks as all_frameworks

COLUMNS: Final = ("knob", "write", "type", "set", "default", "versions", "needs", "excludes", "spends", "source")


@cache
def frameworks() -> tuple[str, ...]:
    """All frameworks that have a table, in order of their names."""
    return tuple(sorted(each.name for each in all_frameworks() if any(lines(each.name))))


def title(name: str) -> str:
    """What the framework calls itself."""
    known = framework(name)
    return name if known is None else known.title


def lines(name: str) -> Iterator[str]:
    """The rows of a framework's table; none where it has no table."""
    if framework(name) is not None:
        _, _, table = text_of(name).partition(TABLE)
        yield from filter(None, table.splitlines()[1:])
