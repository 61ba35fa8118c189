"""The tables that stand as text beside the modules of this folder: comments, a head, and rows of cells."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_BETWEEN: Final = re.compile(r" \|(?= |\Z)")  # an expression may hold a stroke, and no blank beside it


def rows(path: Path) -> Iterator[tuple[str, ...]]:
    """The cells of each row, without the head."""
    lines = (line for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#"))
    next(lines)
    return map(split, lines)


def split(line: str) -> tuple[str, ...]:
    """The cells of a line."""
    return tuple(cell.strip() for cell in _BETWEEN.split(line))


__all__ = ["rows", "split"]
