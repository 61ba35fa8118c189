"""What tools print of the machine, and llama.cpp's loader of its devices, where the failure prints no figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from oomdoctor.families.event import Event
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import LoadPlan
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.incident.model import Ledger, LedgerRow
from oomdoctor.job.roles import short_name
from oomdoctor.language import GPU, say, translated
from oomdoctor.units import TIB, show

PROCESSES_SHOWN = 5


def ledgers(events: Sequence[Event]) -> Iterator[Ledger]:
    """The last print of the machine before the failure; one above the job says nothing of where its memory was."""
    root = next((event for event in events if event.role == "root"), None)
    prints = [event for event in events if isinstance(event, MachineMemory) and event.total_bytes]
    before = [event for event in prints if root is None or _is_before(event, root)]
    if before and not before[-1].is_above_the_job and (used := _in_use(before[-1])) is not None:
        yield _machine(before[-1], used, before[-1].total_bytes or 0)


def _in_use(event: MachineMemory) -> int | None:
    """What is in use; as printed where the total is rounded to tenths of a TiB: a difference would be its rounding."""
    return event.used_bytes if _is_rounded(event) and event.used_bytes is not None else event.in_use_bytes


def _is_rounded(event: MachineMemory) -> bool:
    total = event.total_bytes or 0
    tenths = 10 * total / TIB
    return total >= TIB and event.tool == "free" and abs(total - round(tenths) * TIB / 10) <= 1


def _is_before(event: Event, root: Event) -> bool:
    return event.at.file == root.at.file and event.at.line < root.at.line


def _machine(event: MachineMemory, used: int, total: int) -> Ledger:
    """Shared pages count for each process that touches them: a table may add up to more than is in use."""
    line = event.at.line
    shown = event.processes[:PROCESSES_SHOWN]
    held = sum(process.bytes for process in shown)
    rows = []
    if held and held <= used:
        rows = [LedgerRow(f"{short_name(one.command)} (pid {one.pid})", one.bytes, "printed", line) for one in shown]
    formula = f"{show(used)} - {show(held)} = {show(used - held)}"
    if rows:
        rows.append(LedgerRow("in use by others", used - held, "derived", line, formula))
    elif used == event.used_bytes:
        rows.append(LedgerRow("in use by all processes", used, "printed", line))
    else:
        rest = show(total - used)
        formula = say("{total} - {rest} available = {used}", total=show(total), rest=rest, used=show(used))
        rows.append(LedgerRow("in use by all processes", used, "derived", line, formula))
    if _is_rounded(event) and event.available_bytes is not None:
        rows.append(LedgerRow("free", event.available_bytes, "printed", line))
    else:
        formula = f"{show(total)} - {show(used)} = {show(total - used)}"
        rows.append(LedgerRow("free", total - used, "derived", line, formula))
    return Ledger("host_ram", say("node ({tool})", tool=event.tool), total, tuple(rows))


def plans(events: Sequence[Event]) -> Iterator[Ledger]:
    """What a loader's own table puts on each device, and what XLA's compiler planned for a program that did not fit."""
    for plan in events:
        if isinstance(plan, LoadPlan) and plan.pool == "gpu" and plan.total_bytes and plan.needed_bytes:
            device = say("{device}, as planned by the loader", device=plan.device or translated(GPU))
            planned = _plan(
                device,
                plan.total_bytes,
                plan,
                ("weights", plan.weights_bytes),
                ("KV cache", plan.kv_bytes),
                ("compute buffers", plan.compute_bytes),
            )
            yield replace(planned, rows=(*planned.rows, *_before_the_plan(plan)))
        elif isinstance(plan, ArrayOutOfMemory) and plan.needed_bytes and plan.temporary_bytes:
            yield _plan(
                say("the compiled program, as planned by XLA"),
                plan.needed_bytes,
                plan,
                ("outputs", plan.outputs_bytes),
                ("temporary buffers", plan.temporary_bytes),
                ("arguments", plan.arguments_bytes),
                ("constants", plan.constants_bytes),
            )


def _before_the_plan(plan: LoadPlan) -> Iterator[LedgerRow]:
    """What was taken when the loader made a plan beyond what is free: nothing of the plan is there yet."""
    total, free = plan.total_bytes or 0, plan.free_bytes
    if free is None or (plan.needed_bytes or 0) <= free or free >= total:
        return
    formula = f"{show(total)} - {show(free)} = {show(total - free)}"
    yield LedgerRow("in use before loading", total - free, "derived", plan.at.line, formula)


def _plan(what: str, total: int, event: Event, *parts: tuple[str, int | None]) -> Ledger:
    rows = tuple(LedgerRow(name, size, "printed", event.at.line) for name, size in parts if size)
    return Ledger("gpu", what, total, rows)
