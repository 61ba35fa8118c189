"""Where the memory was, per GPU and per node: each row printed, derived or unknown, and what the rows leave open."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.ray_kill import NodeOutOfMemory, Row
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.families.vllm_figures import MemoryProfile
from oomdoctor.incident import ledger_cards, ledger_engines, ledger_machine
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.model import LIVE, UNALLOCATED, Ledger, LedgerRow
from oomdoctor.incident.node import is_more_than_all
from oomdoctor.job.context import RAY_CALL
from oomdoctor.job.names import EACH, SMALLER
from oomdoctor.job.roles import short_name
from oomdoctor.language import GPU, say, translated
from oomdoctor.units import MIB, show

# Figures with two decimals leave some MiB open between them.
LEAST_SHOWN: Final = 64 * MIB
# As many processes of a node get a row of their own; the rest of the table shares one.
PROCESSES_SHOWN: Final = 5
SUMMANDS_SHOWN: Final = 4  # in the formula of a sum
# A name of a row: an id, which is translated where it is shown
FREE: Final = "free"
RAYS_ROWS: Final = 10  # of its table of memory users; where there are fewer, the log may be cut
_DRIVER: Final = "driver"  # a role
_CHARACTERS: Final = 2000  # of a line
OUTSIDE_THE_SHARE: Final = "outside the engine's share"
OUTSIDE_AND_OTHERS: Final = "outside PyTorch, and other processes"


def ledgers(events: Sequence[Event]) -> tuple[Ledger, ...]:
    """One ledger for each card and node whose figures the log prints, the first print of each."""
    found: dict[tuple[str, str], Ledger] = {}
    for ledger in _all(events):
        known = found.get((ledger.pool, ledger.device))
        if known is None or len(ledger.rows) > len(known.rows):
            found[ledger.pool, ledger.device] = ledger
    if any(event.family == "memory_snapshot" for event in events):
        from oomdoctor.incident import ledger_snapshot  # noqa: PLC0415  (few logs come with a snapshot)

        found = {key: ledger_snapshot.with_holders(ledger, events) for key, ledger in found.items()}
        snapshots = list(ledger_snapshot.ledgers(events))
    else:
        snapshots = []
    known_pools = {ledger.pool for ledger in found.values() if len(ledger.rows) > 1}
    reported = [ledger for ledger in (*snapshots, *_last_reports(events)) if ledger.pool not in known_pools]
    told = {*known_pools, *(ledger.pool for ledger in reported)}
    others = (*ledger_machine.ledgers(events), *(list(ledger_machine.plans(events)) or ledger_cards.ledgers(events)))
    return (*found.values(), *reported, *(ledger for ledger in others if ledger.pool not in told))


def _all(events: Sequence[Event]) -> Iterator[Ledger]:
    for event in events:
        if isinstance(event, NodeOutOfMemory) and (event.rows or event.used_bytes):
            yield _node(event)
        elif isinstance(event, DeviceOutOfMemory) and event.total_bytes:
            yield _card(event)
        elif isinstance(event, MemoryProfile) and event.total_bytes:
            yield _engine(event)
        elif isinstance(event, NotEnoughFree):
            yield _start(event)
    yield from (ledger for ledger in ledger_engines.ledgers(events) if ledger.rows)


def _last_reports(events: Sequence[Event]) -> Iterator[Ledger]:
    """What the job itself said last of each card and of its node, for a failure that prints no figures of its own."""
    summaries = {event.process: event for event in events if isinstance(event, MemorySummary)}
    for summary in summaries.values():
        yield _summary(summary)
    reports = [event for event in events if isinstance(event, MemoryReport)]
    for report in {event.process: event for event in reports if event.allocated_bytes is not None}.values():
        yield _report(report)
    told = [event for event in reports if event.host_used_bytes is not None]
    if told:
        yield _reported_node(told[-1])


def _summary(event: MemorySummary) -> Ledger:
    line = event.at.line
    rows = [LedgerRow(LIVE, event.allocated_bytes, "printed", line)] if event.allocated_bytes else []
    if event.reserved_bytes is not None and event.allocated_bytes is not None:
        rows.append(_rest(UNALLOCATED, line, event.reserved_bytes, event.allocated_bytes))
    return Ledger("gpu", say("{card}, last memory summary", card=_card_name(event)), None, tuple(rows))


def _report(event: MemoryReport) -> Ledger:
    line = event.at.line
    rows = [LedgerRow(LIVE, event.allocated_bytes, "printed", line)]
    if event.reserved_bytes is not None and event.allocated_bytes is not None:
        rows.append(_rest(UNALLOCATED, line, event.reserved_bytes, event.allocated_bytes))
    if event.device_used_bytes is not None:
        rows.append(_rest(OUTSIDE_AND_OTHERS, line, event.device_used_bytes, event.reserved_bytes))
    return Ledger("gpu", say("{card}, last report of the job", card=_card_name(event)), None, tuple(rows))


def _reported_node(event: MemoryReport) -> Ledger:
    """DeepSpeed counts what all processes of the node use, and says how much of its memory that is."""
    line, used, share = event.at.line, event.host_used_bytes or 0, event.host_used_fraction
    rows = [LedgerRow("in use by all processes", used, "printed", line)]
    if share:
        free = round(used / share) - used
        formula = f"{show(used)} / {share:.1%} - {show(used)} = {show(free)}"
        rows.append(LedgerRow(FREE, free, "derived", line, formula))
    return Ledger("host_ram", say("node, last report of the job"), None, tuple(rows))


def _node(event: NodeOutOfMemory) -> Ledger:
    line = event.at.line
    overlaps = is_more_than_all(_sum(event.rows), event.total_bytes, event.used_bytes)
    groups = _each_alone(event.rows) if overlaps else _by_name(event.rows)
    rows = [_process(name, members, line) for name, members in groups[:PROCESSES_SHOWN]]
    rest = [row for _, members in groups[PROCESSES_SHOWN:] for row in members]
    if rest and not overlaps:
        rows.append(_total(f"{len(rest)} {SMALLER}", [row.bytes or 0 for row in rest], line))
    if event.object_store_bytes:
        rows.append(LedgerRow("object store", event.object_store_bytes, "printed", line))
    if event.used_bytes is not None:
        shown = sum(row.bytes or 0 for row in rows)
        if event.used_bytes > shown:
            where = "in use, in no row of the table" if len(event.rows) >= RAYS_ROWS else "in use, in no row of the log"
            elsewhere = _rest(where, line, event.used_bytes, shown)
            rows.append(elsewhere if rows else LedgerRow("in use", event.used_bytes, "printed", line))
        if event.total_bytes is not None:
            rows.append(_rest(FREE, line, event.total_bytes, event.used_bytes))
    return Ledger("host_ram", _node_name(event), event.total_bytes, tuple(rows))


def _node_name(event: NodeOutOfMemory) -> str:
    node = event.process.node or event.node_id
    return say("node {name}", name=node) if node else say("node")


def _by_name(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """The table's rows by what they run, the largest group first."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(short_name(row.command), []).append(row)
    return sorted(groups.items(), key=lambda group: -_sum(group[1]))


def _each_alone(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    """Each row as it is, the largest first."""
    return [(short_name(row.command), [row]) for row in sorted(rows, key=lambda row: -(row.bytes or 0))]


def _process(name: str, members: Sequence[Row], line: int) -> LedgerRow:
    if len(members) == 1:
        return LedgerRow(f"{name} (pid {members[0].pid})", members[0].bytes, "printed", line)
    return _total(f"{len(members)} x {name}", [row.bytes or 0 for row in members], line)


def _total(what: str, sizes: Sequence[int], line: int) -> LedgerRow:
    """Several printed sizes together."""
    shown = " + ".join(show(size) for size in sizes[:SUMMANDS_SHOWN])
    smaller, whole = len(sizes) - SUMMANDS_SHOWN, show(sum(sizes))
    formula = (
        say("{sizes} + {count} smaller = {whole}", sizes=shown, count=smaller, whole=whole)
        if smaller > 0
        else f"{shown} = {whole}"
    )
    return LedgerRow(what, sum(sizes), "derived", line, formula)


def _rest(what: str, line: int, whole: int, *parts: int | None) -> LedgerRow:
    """What is left of a printed size; figures with two decimals may leave a little less than nothing."""
    left = max(whole - sum(part or 0 for part in parts), 0)
    formula = " - ".join(show(size) for size in (whole, *(part for part in parts if part)))
    return LedgerRow(what, left, "derived", line, f"{formula} = {show(left)}")


def _sum(rows: Sequence[Row]) -> int:
    return sum(row.bytes or 0 for row in rows)


def _card(event: DeviceOutOfMemory) -> Ledger:
    """The card at the moment of the refusal. Of a card whose driver pages to host memory nothing adds up."""
    card = card_of(event)
    rows = [] if card.oversubscribed else [row for row in _card_rows(event, card) if row.bytes]
    if event.free_bytes is not None:
        rows.append(LedgerRow(FREE, event.free_bytes, "printed", event.at.line))
    of_others = (card.others_bytes or 0) > (event.total_bytes or math.inf) / 2
    return Ledger("gpu", _card_name(event, of_others=of_others), event.total_bytes, tuple(rows))


def _card_rows(event: DeviceOutOfMemory, card: Card) -> Iterator[LedgerRow]:
    line = event.at.line
    yield from _contexts(event, card)
    for process in card.others:
        if process not in card.contexts:
            yield LedgerRow(f"process {process.pid}", process.bytes, "printed", line)
    used, own = card.used_bytes or 0, card.own_bytes
    if card.unaccounted_bytes is not None and card.unaccounted_bytes > LEAST_SHOWN:
        yield _rest("processes the driver does not list", line, used, own, card.others_bytes)
    if card.non_torch_bytes is not None and own is not None:
        yield _rest("this process outside PyTorch", line, own, card.reserved_bytes)
    elif own is not None:
        yield from _beside_the_parts(own, card, line)
    elif card.others_bytes is None and card.beyond_bytes is not None:
        yield _rest(OUTSIDE_AND_OTHERS, line, used, card.reserved_bytes)
    if event.private_pools_bytes:
        yield LedgerRow("private pools (CUDA graphs)", event.private_pools_bytes, "printed", line)
        yield _rest(LIVE, line, event.allocated_bytes or 0, event.private_pools_bytes)
    else:
        yield LedgerRow(LIVE, card.live_bytes, "printed", line)
    if event.reserved_bytes is None:
        yield LedgerRow(UNALLOCATED, card.unallocated_bytes, "printed", line)
    elif card.unallocated_bytes is not None:
        yield _rest(UNALLOCATED, line, event.reserved_bytes, event.allocated_bytes)


def _contexts(event: DeviceOutOfMemory, card: Card) -> Iterator[LedgerRow]:
    """Those with the same little in one row; of a job with ranks they are the other ranks."""
    if not card.contexts:
        return
    count, size = len(card.contexts), card.contexts[0].bytes or 0
    whose = "ranks" if event.process.rank is not None else "processes"
    formula = f"{count} x {show(size)} = {show(count * size)}"
    yield LedgerRow(f"{count} other {whose}, {show(size)}{EACH}", count * size, "derived", event.at.line, formula)


def _beside_the_parts(own: int, card: Card, line: int) -> Iterator[LedgerRow]:
    """This process without the parts of it that get rows of their own; figures that contradict each other say nothing
    of it."""
    parts = [part for part in (card.allocated_bytes, card.unallocated_bytes) if part]
    if not parts:
        yield LedgerRow("this process", own, "printed", line)
    elif own > sum(parts):
        yield _rest("the rest of this process", line, own, *parts)


def _card_name(event: Event, *, of_others: bool = False) -> str:
    """The GPU by the process's own count: with one visible card per rank every rank calls it 0. A PID above memory of
    others would read as its holder's."""
    process = event.process
    name = say("GPU {number}", number=process.gpu) if process.gpu is not None else translated(GPU)
    if process.rank is not None:
        name = say("{card} (rank {rank})", card=name, rank=process.rank)
    elif (pid := _pid_on_the_card(event)) is not None and not of_others:
        name = say("{card} (PID {pid})", card=name, pid=pid)
    return say("{card} on {node}", card=name, node=process.node) if process.node else name


def _pid_on_the_card(event: Event) -> int | None:
    """Whose memory it is: of what a driver prints, the remote call's that failed, where one alone is named."""
    if event.process.role != _DRIVER:
        return event.process.pid
    lines = (*event.around.before, *event.around.below)
    called = {int(call[2]) for line in lines for call in RAY_CALL.finditer(line[:_CHARACTERS])}
    return called.pop() if len(called) == 1 else event.process.pid


def _engine(event: MemoryProfile) -> Ledger:
    """What the engine planned for its share of the card, and what it left outside."""
    line = event.at.line
    parts = (
        ("weights", event.weights_bytes),
        ("outside PyTorch", event.non_torch_bytes),
        ("weights and outside PyTorch", event.consumed_bytes),
        ("activation peak", event.activation_bytes),
        ("CUDA graphs", event.graph_bytes),
        ("KV cache", event.kv_bytes),
    )
    rows = [LedgerRow(what, size, "printed", line) for what, size in parts if size is not None]
    if event.requested_bytes is not None and event.total_bytes is not None:
        beside = event.graph_bytes if _graphs_beside(event) else None
        rows.append(_rest(OUTSIDE_THE_SHARE, line, event.total_bytes, event.requested_bytes, beside))
    planned = say("{card}, as planned by the engine", card=_card_name(event))
    return Ledger("gpu", planned, event.total_bytes, tuple(rows))


def to_show(ledger: Ledger) -> Ledger:
    """Nothing holds less than nothing: of a plan that is larger than the engine's share, the share and what is to go
    into it."""
    beside = next((row.bytes for row in ledger.rows if row.what == OUTSIDE_THE_SHARE), None)
    if beside is None or ledger.total_bytes is None or not any((row.bytes or 0) < 0 for row in ledger.rows):
        return ledger
    rows = tuple(row for row in ledger.rows if (row.bytes or 0) >= 0 and row.what != OUTSIDE_THE_SHARE)
    share = say("the engine's share of {card}", card=ledger.device)
    return Ledger(ledger.pool, share, ledger.total_bytes - beside, rows)


def _graphs_beside(event: MemoryProfile) -> bool:
    """CUDA graphs that were captured behind the KV cache lie outside the share, which the other parts fill."""
    parts = (event.weights_bytes, event.non_torch_bytes, event.consumed_bytes, event.activation_bytes, event.kv_bytes)
    left = (event.requested_bytes or 0) - sum(part or 0 for part in parts)
    return event.kv_bytes is not None and left < (event.graph_bytes or 0) / 2


def _start(event: NotEnoughFree) -> Ledger:
    rows = []
    if event.free_bytes is not None and event.total_bytes is not None:
        rows = [
            _rest("in use before the engine started", event.at.line, event.total_bytes, event.free_bytes),
            LedgerRow(FREE, event.free_bytes, "printed", event.at.line),
        ]
    return Ledger("gpu", _card_name(event, of_others=True), event.total_bytes, tuple(rows))
