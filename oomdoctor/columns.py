"""Text in columns: how wide it is on a terminal, and where its lines may end.

Chinese signs are two cells wide and have no blanks between them: a line may end behind any, but for the brackets and
stops that belong to a neighbour.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from oomdoctor.patterns import late

NARROWEST: Final = 24  # a column that is wrapped
_GAP: Final = "  "  # between two columns
_WIDE: Final = "\u2e80-\u9fff\uf900-\ufaff\uff01-\uff60\uffe0-\uffe6"
_OPENING: Final = "（「《“"
_CLOSING: Final = "，。、：；？！）」》”％…"
# What stands on one line, with the blanks behind it.
_PIECE: Final = late(rf"[{_OPENING}]*(?:[{_WIDE}]|[^\s{_WIDE}]+|)[{_CLOSING}]*\s*")
_IS_WIDE: Final = late(f"[{_WIDE}]")
_LEAST_WIDE: Final = "\u2e80"  # these sets take some milliseconds to compile, and most text holds nothing like it


def cells(text: str) -> int:
    """How wide it is."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415  (English has no use for it)

    return cell_len(text)


def filled(text: str, width: int) -> str:
    """With blanks behind it, as `str.ljust`."""
    return text + " " * (width - cells(text))


def sized(text: str, width: int) -> str:
    """So wide: with blanks behind it, or cut."""
    if text.isascii():
        return text[:width].ljust(width)
    from rich.cells import set_cell_size  # noqa: PLC0415

    return set_cell_size(text, width)


def fitting(text: str, width: int) -> int:
    """How many of its signs there is room for."""
    if text.isascii():
        return max(0, min(len(text), width))
    from rich.cells import chop_cells  # noqa: PLC0415

    return len(next(iter(chop_cells(text, width)), "")) if width > 1 else 0


def cut(text: str, width: int, ellipsis: str = "...") -> str:
    """As much of it as there is room for, with dots where that is not all."""
    if cells(text) <= width or width <= len(ellipsis):
        return text
    return sized(text, width - len(ellipsis)).rstrip() + ellipsis


def table(rows: Sequence[Sequence[str]], width: int | None = None, *, has_head: bool = False) -> Iterator[str]:
    """The lines of a table; where it is too wide its last column is wrapped, or its cells stand under each other."""
    if not rows:
        return
    widths = [max(cells(row[column]) for row in rows) for column in range(len(rows[0]))]
    before = sum(widths[:-1]) + len(_GAP) * (len(widths) - 1)
    if width is None or before + widths[-1] <= width:
        width = before + widths[-1]
    elif width - before < NARROWEST:
        yield from _stacked(rows, width, has_head=has_head)
        return
    for row in rows:
        head = _GAP.join(filled(cell, size) for cell, size in zip(row[:-1], widths[:-1], strict=True)) + _GAP
        for line in wrapped(row[-1], width, head, " " * before) or [head]:
            yield line.rstrip()


def _stacked(rows: Sequence[Sequence[str]], width: int, *, has_head: bool) -> Iterator[str]:
    """Each row as its first cell and the others under it, which say by the head what they are."""
    names = rows[0] if has_head else ()
    for row in rows[1 if has_head else 0 :]:
        yield from wrapped(row[0], width)
        for column, cell in enumerate(row[1:], start=1):
            if cell:
                words = f"{names[column]}: {cell}" if has_head else cell
                yield from wrapped(words, width, _GAP, _GAP * 2)


def wrapped(text: str, width: int, first: str = "", rest: str = "", *, break_long_words: bool = True) -> list[str]:
    """The lines of a paragraph, with what stands before its first and before the others."""
    if max(text, default="") < _LEAST_WIDE or not _IS_WIDE.search(text):
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
