"""The ledger as a stacked bar: where each part begins and how wide it is, in percent of the bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from oomdoctor.language import mark, say
from oomdoctor.report.contract import Ledger, LedgerRow
from oomdoctor.report.words import WORTH_A_LINE, is_free

COLORS = 6  # as many as the style sheet has; further parts begin again, their letters tell them apart
MOST_PARTS = 24
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
ROOM_FOR_A_LETTER = 4.5  # percent: narrower parts are known by their place and colour

ROUNDING = 1000  # a smaller share of the total comes from figures that are printed with two digits

UNEXPLAINED = mark("not explained")
TOO_MUCH = mark("more than there is, by")


class Part(Struct, frozen=True, kw_only=True):
    """A row of the table, and its part of the bar where it has one."""

    what: str
    bytes: int | None
    basis: str
    line: int | None
    derivation: str | None
    fill: str  # its class: c0, c1, ... or what it is: free, unexplained
    letter: str
    share: float | None  # of the total
    x: float = 0.0
    width: float = 0.0

    @property
    def pattern(self) -> str:
        """What tells its basis without a colour."""
        return self.fill if self.fill in ("free", "unexplained") else self.basis

    @property
    def shows_letter(self) -> bool:
        return bool(self.letter) and self.width >= ROOM_FOR_A_LETTER

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


class Bar(Struct, frozen=True, kw_only=True):
    ledger: Ledger
    parts: tuple[Part, ...]
    end_of_total: float | None  # where the total ends in a bar that holds more than there is

    @property
    def patterns(self) -> tuple[str, ...]:
        """Those in the bar, for the legend."""
        return tuple(dict.fromkeys(part.pattern for part in self.parts if part.width))

    @property
    def drawn(self) -> bool:
        return any(part.width for part in self.parts)


def bar(ledger: Ledger) -> Bar:
    """Who held it, the largest first, then what nobody explains, then what was free."""
    rows = list(_rows(ledger))
    whole = max(ledger.total_bytes or 0, sum(_size(row) for _, row in rows))
    parts: list[Part] = []
    x = 0.0
    colors = 0
    for kind, row in rows:
        width = 100 * _size(row) / whole if whole else 0.0
        in_bar = width > 0
        held = in_bar and not kind
        parts.append(
            Part(
                what=row.what,
                bytes=row.bytes,
                basis=row.basis,
                line=row.line,
                derivation=row.derivation,
                fill=kind or (f"c{colors % COLORS}" if held else ""),
                letter=LETTERS[colors] if held and colors < len(LETTERS) else "",
                share=row.bytes / ledger.total_bytes if row.bytes is not None and ledger.total_bytes else None,
                x=round(x, 3),
                width=round(width, 3),
            )
        )
        x += width
        colors += held
    total = max(0, ledger.total_bytes or 0)  # a log may print a negative one
    over = total and whole > total * 1.001
    return Bar(
        ledger=ledger,
        parts=tuple(parts),
        end_of_total=round(100 * total / whole, 3) if over else None,
    )


def _rows(ledger: Ledger) -> Iterator[tuple[str, LedgerRow]]:
    """Each row with what it is where it is not somebody's."""
    held = sorted((row for row in ledger.rows if not is_free(row)), key=lambda row: -(row.bytes or 0))
    yield from (("", row) for row in held[:MOST_PARTS])
    if rest := held[MOST_PARTS:]:
        yield "", _together(rest)
    if ledger.unexplained_bytes and _is_worth_a_row(abs(ledger.unexplained_bytes), ledger.total_bytes or 0):
        what = UNEXPLAINED if ledger.unexplained_bytes > 0 else TOO_MUCH
        kind = "unexplained" if ledger.unexplained_bytes > 0 else "beyond"
        yield kind, LedgerRow(what, abs(ledger.unexplained_bytes), "derived", None)
    yield from (("free", row) for row in ledger.rows if is_free(row))


def _is_worth_a_row(size: int, total: int) -> bool:
    return size >= WORTH_A_LINE or size * ROUNDING >= total


def _together(rows: Sequence[LedgerRow]) -> LedgerRow:
    size = sum(row.bytes or 0 for row in rows)
    return LedgerRow(say("{count} smaller rows together", count=len(rows)), size, "derived", None)


def _size(row: LedgerRow) -> int:
    """What a row takes of the bar: an unknown size takes nothing, and what is more than there is is in it already."""
    return 0 if row.what == TOO_MUCH else max(row.bytes or 0, 0)
