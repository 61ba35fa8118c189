"""The segments of a memory snapshot, drawn side by side: whose blocks lie where, and what is free between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from oomdoctor.report.contract import EventRecord
from oomdoctor.report.html.bars import COLORS
from oomdoctor.snapshots.model import Account, StackUse, Strip

FREE = "free"
LEAST = 0.1  # percent of the drawing's width: narrower blocks cannot be seen


class Block(Struct, frozen=True):
    x: float
    width: float
    fill: str  # its class, as in the bars


class Row(Struct, frozen=True):
    """One segment; the largest is as wide as the drawing."""

    size: int
    is_private: bool
    blocks: tuple[Block, ...]


class Drawing(Struct, frozen=True, kw_only=True):
    device: int
    file: str
    rows: tuple[Row, ...]
    left_out: int
    free: int
    largest_free: int
    legend: tuple[tuple[str, str], ...]  # a holder and its class
    stacks: tuple[StackUse, ...]


def drawings(records: Iterable[EventRecord]) -> Iterator[Drawing]:
    """One of each GPU that a snapshot tells of."""
    for record in records:
        account = record.fields.get("account")
        if isinstance(account, Account) and (account.strips or account.stacks):
            yield _drawing(record.file, account)


def _drawing(file: str, account: Account) -> Drawing:
    drawn = {piece.holder for strip in account.strips for piece in strip.pieces}
    holders = [one.holder for one in account.holdings]
    fills = {holder: f"c{number % COLORS}" for number, holder in enumerate([*holders, *sorted(drawn - {*holders, ""})])}
    widest = max((strip.bytes for strip in account.strips), default=0)
    return Drawing(
        device=account.device,
        file=file,
        rows=tuple(_row(strip, widest, fills) for strip in account.strips if widest),
        left_out=account.segments - len(account.strips),
        free=account.free,
        largest_free=account.largest_free,
        legend=tuple(pair for pair in fills.items() if pair[0] in drawn),
        stacks=account.stacks,
    )


def _row(strip: Strip, widest: int, fills: dict[str, str]) -> Row:
    blocks = []
    x = 0.0
    for piece in strip.pieces:
        width = 100 * piece.bytes / widest
        if width >= LEAST:
            blocks.append(Block(round(x, 2), round(width, 2), fills.get(piece.holder, FREE)))
        x += width
    return Row(strip.bytes, strip.is_private, tuple(blocks))
