"""The files of `oomdoctor/remedies/settings/`: how each framework spells the knobs. In the wheel all are one file,
without the sources and the comments, which those read who keep the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "remedies" / "settings"
PACKED: Final = Path(__file__).parent / "_packed" / "settings.txt"
COLUMNS: Final = ("knob", "write", "type", "set", "default", "versions", "needs", "excludes", "spends", "source")


def frameworks() -> tuple[str, ...]:
    """All frameworks that have a file, in order of their names."""
    return tuple(sorted(_unpacked() if PACKED.is_file() else (path.stem for path in FOLDER.glob("*.txt"))))


@cache
def title(framework: str) -> str:
    """What the framework calls itself: the first words of its file."""
    return _text(framework).partition("\n")[0].lstrip("# ").partition(":")[0] or framework


def lines(framework: str) -> Iterator[str]:
    """The rows of a framework's file; none where it has no file."""
    told = _text(framework).splitlines()
    return (line for line in told if line.strip() and not line.startswith(("#", "knob ")))


def _text(framework: str) -> str:
    if PACKED.is_file():
        return _unpacked().get(framework, "")
    path = FOLDER / f"{framework}.txt"
    return path.read_text(encoding="utf-8") if re.fullmatch(r"[\w.-]{1,60}", framework) and path.exists() else ""


@cache
def _unpacked() -> Mapping[str, str]:
    parts = PACKED.read_text(encoding="utf-8").split("\n\n")
    return {framework: text for framework, _, text in (part.partition("\n") for part in parts)}


def packed() -> str:
    """All frameworks, as the wheel has them: each with its name, its title and its rows."""
    return "\n\n".join("\n".join((name, f"# {title(name)}", *map(_short, lines(name)))) for name in frameworks())


def _short(line: str) -> str:
    cells = [cell.strip() for cell in line.split("|")]
    return "|".join(cells[: COLUMNS.index("source")]).rstrip("|")
