"""Lines of a report on a terminal: parts with a style each, wrapped, indented, and cut behind so many rows.

What rich would do with them is little, and its import and its drawing take a tenth of the time of a small log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from oomdoctor.columns import breaks, cells, fitting
from oomdoctor.language import ENGLISH, in_use
from oomdoctor.patterns import late

# SGR of ECMA-48, which every terminal knows
_CODES: Final = {
    "bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "white": 37,
}  # fmt: skip
_TAB: Final = 8
_CUT: Final = "..."
_WORD: Final = late(r"(?:(?<!\s)\s+)?\S+\s*")

Part = tuple[str, str]  # words, and their style: "bold red", or nothing


class Line(Struct, frozen=True):
    parts: tuple[Part, ...] = ()
    indent: int = 0
    most: int | None = None  # rows; the last of them ends with "..." where there is more
    whole: bool = False  # in one row, however long, so that it can be copied


def drawn(lines: Iterable[Line], *, width: int, color: bool) -> str:
    """The lines one under the other, on a terminal of that width."""
    return "".join(row + "\n" for line in lines for row in _rows(line, width, color=color))


def _rows(line: Line, width: int, *, color: bool) -> Iterator[str]:
    room = max(1, width - line.indent)
    parts = list(_without_tabs(line.parts))
    text = "".join(words for words, _ in parts)
    begins = [0, *(() if line.whole else _begins(text, room))]
    ends = [*begins[1:], len(text)]
    cut = line.most is not None and len(begins) > line.most
    for row, (begin, end) in enumerate(zip(begins[: line.most], ends, strict=False), start=1):
        last = cut and row == line.most
        words = text[begin:end]
        words = words[: fitting(words, room - len(_CUT))] if last else words.rstrip()
        told = _styled(parts, begin, begin + len(words)) if color else words
        yield (" " * line.indent + told + (_CUT if last else "")).rstrip()


def _styled(parts: Iterable[Part], begin: int, end: int) -> str:
    """What of the parts stands between two places, each with the codes of its style."""
    told, at = "", 0
    for words, style in parts:
        piece = words[max(begin - at, 0) : max(end - at, 0)]
        at += len(words)
        codes = ";".join(str(_CODES[name]) for name in style.split())
        told += f"\x1b[{codes}m{piece}\x1b[0m" if piece and codes else piece
    return told


def _without_tabs(parts: Iterable[Part]) -> Iterator[Part]:
    column = 0
    for words, style in parts:
        *before, last = words.split("\t")
        told = ""
        for piece in before:
            blanks = _TAB - (column + cells(piece)) % _TAB
            column += cells(piece) + blanks
            told += piece + " " * blanks
        column += cells(last)
        yield told + last, style


def _begins(text: str, room: int) -> list[int]:
    """Where the rows behind the first begin: at a word; in Chinese between two signs, too."""
    if in_use() != ENGLISH:
        return breaks(text, room)
    found: list[int] = []
    used = 0
    for word in _WORD.finditer(text):
        begin, end = word.span()
        long = cells(word[0].rstrip())
        if used + long > room and begin and (used or long > room):
            found.append(begin)
            used = 0
        while long > room:  # it fits no row
            begin += max(1, fitting(text[begin:end], room))
            found.append(begin)
            long = cells(text[begin:end].rstrip())
        used += cells(text[begin:end])
    return found
