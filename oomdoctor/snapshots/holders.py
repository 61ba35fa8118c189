"""Who holds a block, told from the stack of its allocation: reads the table beside it."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Final

from msgspec import Struct

from oomdoctor.snapshots.model import Frame
from oomdoctor.snapshots.names import NO_STACK, OTHER

DEEPEST: Final = 256  # frames of one stack that are asked


class Row(Struct, frozen=True):
    """One row of the table."""

    holder: str
    file: str
    functions: tuple[str, ...]

    def fits(self, frame: Frame) -> bool:
        return self.is_of_file(frame.file) and self.is_of_function(frame.name)

    def is_of_file(self, file: str) -> bool:
        return not self.file or self.file in file

    def is_of_function(self, name: str) -> bool:
        return not self.functions or any(fnmatchcase(name, pattern) for pattern in self.functions)


@cache
def table() -> tuple[Row, ...]:
    """The rows in their order."""
    text = resources.files(__package__).joinpath("holders.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return tuple(_row(line) for line in lines)


def _row(line: str) -> Row:
    holder, file, functions, _ = (cell.strip() for cell in line.split("|", 3))
    return Row(
        holder=holder,
        file="" if file == "-" else file.lstrip("*"),
        functions=() if functions == "-" else tuple(functions.split()),
    )


class Holders:
    """Asks the table, each frame once."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str | None] = {}

    def of(self, frames: Sequence[Frame]) -> str:
        """Who holds what was allocated here; the frames are the innermost first."""
        if not frames:
            return NO_STACK
        holders = (self._of_frame(frame) for frame in frames[:DEEPEST])
        return next((holder for holder in holders if holder is not None), OTHER)

    def _of_frame(self, frame: Frame) -> str | None:
        key = frame.file, frame.name
        if key not in self._known:
            file = frame.file.replace("\\", "/")
            asked = Frame(frame.name, file, frame.line)
            self._known[key] = next((row.holder for row in table() if row.fits(asked)), None)
        return self._known[key]
