"""The files of `oomdoctor/remedies/settings/`: how each framework spells the knobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "remedies" / "settings"
COLUMNS: Final = ("knob", "write", "type", "set", "default", "versions", "needs", "excludes", "spends", "source")


def frameworks() -> tuple[str, ...]:
    """All frameworks that have a file, in order of their names."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.txt")))


@cache
def title(framework: str) -> str:
    """What the framework calls itself: the first words of its file."""
    return _text(framework).partition("\n")[0].lstrip("# ").partition(":")[0] or framework


def lines(framework: str) -> Iterator[str]:
    """The rows of a framework's file; none where it has no file."""
    told = _text(framework).splitlines()
    return (line for line in told if line.strip() and not line.startswith(("#", "knob ")))


def _text(framework: str) -> str:
    path = FOLDER / f"{framework}.txt"
    return path.read_text(encoding="utf-8") if re.fullmatch(r"[\w.-]{1,60}", framework) and path.exists() else ""
