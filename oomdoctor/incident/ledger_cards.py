"""What nvidia-smi's table says of each card: a ledger where the failure itself prints no figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oomdoctor.families.event import Event
from oomdoctor.families.gpu_table import Card, CardProcess, GpuTable
from oomdoctor.incident.model import Ledger, LedgerRow
from oomdoctor.language import say
from oomdoctor.units import show


def ledgers(events: Sequence[Event]) -> Iterator[Ledger]:
    """The last print of each card that a table tells used and total of."""
    for table in (event for event in reversed(events) if isinstance(event, GpuTable)):
        for card in table.cards:
            if card.total_bytes and card.used_bytes is not None and card.mig is None:
                yield _card(table, card, card.used_bytes, card.total_bytes)


def _card(table: GpuTable, card: Card, used: int, total: int) -> Ledger:
    line = table.at.line
    on_it = [process for process in table.processes if _is_on(process, card) and process.used_bytes]
    rows = [LedgerRow(f"{one.name} (pid {one.pid})", one.used_bytes, "printed", line) for one in on_it]
    held = sum(one.used_bytes or 0 for one in on_it)
    if not on_it:
        rows.append(LedgerRow("in use", used, "printed", line))
    elif used > held:
        formula = say(
            "{used} used - {held} of listed processes = {rest}",
            used=show(used),
            held=show(held),
            rest=show(used - held),
        )
        rows.append(LedgerRow("in use, by no process of the table", used - held, "derived", line, formula))
    formula = say("{total} - {used} used = {free}", total=show(total), used=show(used), free=show(total - used))
    rows.append(LedgerRow("free", total - used, "derived", line, formula))
    device = say("GPU {number} (nvidia-smi)", number=card.gpu) if card.gpu is not None else say("GPU (nvidia-smi)")
    return Ledger("gpu", device, total, tuple(rows))


def _is_on(process: CardProcess, card: Card) -> bool:
    return process.gpu is not None and process.gpu == card.gpu
