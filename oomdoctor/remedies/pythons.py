"""Which releases of a framework the job's Python runs; the table is `pythons.txt`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

from oomdoctor.patterns import late
from oomdoctor.remedies import cells
from oomdoctor.versions import ALL, Versions, versions

_ANY: Final = "any"
_MINOR: Final = late(r"\d{1,2}\.\d{1,2}")


def releases(framework: str, python: str | None) -> Versions:
    """Those that this Python runs, as far as it is known."""
    told = _table().get((_minor(python), framework))
    return ALL if told is None else versions(told)


def until(python: str | None) -> str:
    """The day from which nothing new is made for this Python; "" where that is not near."""
    return _table().get((_minor(python), _ANY), "")


def _minor(python: str | None) -> str:
    """3.7 of 3.7.16."""
    found = _MINOR.match(python or "")
    return found[0] if found is not None else ""


@cache
def _table() -> Mapping[tuple[str, str], str]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return {(python, framework): told for python, framework, told, _ in rows}


__all__ = ["releases", "until"]
