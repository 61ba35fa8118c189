"""Text in columns: how wide it is on a terminal, and where its lines may end.

Chinese signs are two cells wide and have no blanks between them: a line may end behind any, but for the brackets and
stops that belong to a neighbour.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

_WIDE: Final = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uff60\uffe0-\uffe6"
_OPENING: Final = "（「《“"
_CLOSING: Final = "，。、：；？！）」》”％…"
# What stands on one line, with the blanks behind it.
_PIECE: Final = re.compile(rf"[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}]+|)[{_CLOSING}]*\s*")
_IS_WIDE: Final = re.compile(f"[{_WIDE}]")


def cells(text: str) -> int:
    """How wide it is."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (English has no use for it)

    return cell_len(text)


def filled(text: str, width: int) -> str:
    """With blanks behind it, as `str.ljust`."""
    return text + " " * (width - cells(text))


def wrapped(text: str, width: int, first: str = "", rest: str = "", *, break_long_words: bool = True) -> list[str]:
    """The lines of a paragraph, with what stands before its first and before the others."""
    if not _IS_WIDE.search(text):
        return textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False,
            break_long_words=break_long_words,
        )  # fmt: skip
    lines, line = [], first
    room = max(1, width - max(cells(first), cells(rest)))
    text = " ".join(text.split())
    for begin, end in _spans(text, room if break_long_words else len(text) * 2):
        piece = text[begin:end]
        if line.strip() and line != first and cells(line) + cells(piece.rstrip()) > width:
            lines.append(line.rstrip())
            line = rest
        line += piece
    return [*lines, line.rstrip()]


def breaks(text: str, width: int) -> list[int]:
    """Where lines of that width begin, but for the first."""
    found: list[int] = []
    used = 0
    for begin, end in _spans(text, width):
        if used and used + cells(text[begin:end].rstrip()) > width:
            found.append(begin)
            used = 0
        used += cells(text[begin:end])
    return found


def _spans(text: str, longest: int) -> Iterator[tuple[int, int]]:
    """The pieces that stay on one line; what is longer than a line is cut."""
    for piece in _PIECE.finditer(text):
        begin, end = piece.span()
        while cells(text[begin:end].rstrip()) > longest:
            cut = begin + max(1, longest if text[begin:end].isascii() else longest // 2)
            yield begin, cut
            begin = cut
        if begin < end:
            yield begin, end
