"""What PyTorch's memory snapshot or timeline says of a GPU: who holds the tensors' memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.event import Event
from oomdoctor.families.memory_snapshot import MemoryAccount
from oomdoctor.incident.model import LIVE, UNALLOCATED, Ledger, LedgerRow
from oomdoctor.language import counted, mark, say
from oomdoctor.snapshots.model import Account, Holding
from oomdoctor.snapshots.names import OTHER
from oomdoctor.units import show

LEAST_SHARE: Final = 0.005  # of what is allocated: smaller holders share a row
PENDING: Final = "freed, in use by another stream"


def ledgers(events: Sequence[Event]) -> Iterator[Ledger]:
    """One of each GPU that a snapshot tells of, the last snapshot of each."""
    found = {(event.at.file, event.process.gpu): event for event in events if isinstance(event, MemoryAccount)}
    for event in found.values():
        account = event.account
        rows = list(_holders(account))
        if account.pending:
            rows.append(LedgerRow(PENDING, account.pending, "derived"))
        idle = account.reserved - account.allocated - account.pending
        if account.segments and idle > 0:
            formula = " - ".join(show(size) for size in (account.reserved, account.allocated, account.pending) if size)
            rows.append(LedgerRow(UNALLOCATED, idle, "derived", None, f"{formula} = {show(idle)}"))
        title = (
            say("memory timeline, at its peak")
            if account.is_timeline
            else say("GPU {number}, memory snapshot", number=account.device)
        )
        yield Ledger("gpu", title, None, tuple(rows))


def with_holders(ledger: Ledger, events: Sequence[Event]) -> Ledger:
    """The message's ledger with the tensors' row taken apart, where the one snapshot has as much allocated."""
    told = [event for event in events if isinstance(event, MemoryAccount)]
    row = next((one for one in ledger.rows if one.what == LIVE), None)
    if row is None or not row.bytes or len(told) != 1:
        return ledger
    if not told[0].account.may_be(row.bytes):
        return ledger
    at = ledger.rows.index(row)
    rows = (*ledger.rows[:at], *_holders(told[0].account), *ledger.rows[at + 1 :])
    return replace(ledger, rows=rows)


def _holders(account: Account) -> Iterator[LedgerRow]:
    """The holders, the largest first; the smallest ones together."""
    small = 0
    least = LEAST_SHARE * account.allocated
    for holding in account.holdings:
        if holding.bytes < least:
            small += holding.bytes
            continue
        yield LedgerRow(holding.holder, holding.bytes, "derived", None, _formula(account, holding))
    if small:
        yield LedgerRow(f"smaller {OTHER}", small, "derived")


def _formula(account: Account, holding: Holding) -> str:
    if account.is_timeline:
        return say("at the peak of the memory timeline = {size}", size=show(holding.bytes))
    return counted(
        holding.blocks,
        mark("{count} block in the memory snapshot = {size}"),
        mark("{count} blocks in the memory snapshot = {size}"),
        size=show(holding.bytes),
    )
