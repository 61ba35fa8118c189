"""The ledgers of inference engines that print what they allocate line by line: llama.cpp, Ollama, TensorRT-LLM, MLC."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.families.llama_cpp import Buffer, BufferRefused
from oomdoctor.families.mlc import Estimate, NoRoom
from oomdoctor.families.ollama import MemoryPart, OffloadPlan
from oomdoctor.families.tensorrt_llm import EngineFigures
from oomdoctor.incident.model import Ledger, LedgerRow
from oomdoctor.language import GPU, say, translated

_WORDS: Final = {
    "weights": "weights",
    "kv": "KV cache",
    "compute": "compute buffers",
    "output": "output buffer",
    "state": "recurrent state",
    "required": "all the model needs",
    "per-state": "KV cache of one state",
    "vram": "of this on the card",
}
_OF_TENSORRT: Final = (
    ("engine", "engine_bytes"),
    ("execution context", "context_bytes"),
    ("runtime buffers", "buffers_bytes"),
    ("decoder", "decoder_bytes"),
    ("weights", "weights_bytes"),
    ("activations", "activation_bytes"),
    ("outside PyTorch", "outside_bytes"),
    ("KV cache", "kv_bytes"),
)
_OF_OLLAMA: Final = (
    ("weights", "weights_bytes"),
    ("KV cache", "kv_bytes"),
    ("compute graph", "graph_bytes"),
)
_OF_MLC: Final = (
    ("weights", "weights_bytes"),
    ("KV cache", "kv_bytes"),
    ("temporary buffers", "buffers_bytes"),
)


def ledgers(events: Sequence[Event]) -> Iterator[Ledger]:
    """What the engine had allocated or reckoned, up to the first refusal."""
    yield from _by_device(events)
    figures = [event for event in events if isinstance(event, EngineFigures)]
    if figures:
        total = next((event.total_bytes for event in reversed(figures) if event.total_bytes), None)
        yield Ledger("gpu", say("GPU (figures of TensorRT-LLM)"), total, _last(figures, _OF_TENSORRT))
    for event in events:
        if isinstance(event, OffloadPlan):
            yield Ledger("gpu", say("whole model (estimate of Ollama)"), event.full_bytes, _of_a_plan(event))
        elif isinstance(event, Estimate):
            yield Ledger("gpu", say("one GPU (estimate of MLC)"), event.needed_bytes, _last([event], _OF_MLC))
        elif isinstance(event, NoRoom):
            yield Ledger("gpu", say("MLC's share of the GPU"), None, _last([event], _OF_MLC))


def _of_a_plan(plan: OffloadPlan) -> tuple[LedgerRow, ...]:
    """Its parts, each once: older releases count the KV cache of a layer with its weights (llm/memory.go v0.3.0)."""
    rows, cache, weights = _last([plan], _OF_OLLAMA), plan.kv_bytes or 0, plan.weights_bytes or 0
    if not plan.full_bytes or not cache <= weights <= plan.full_bytes < cache + weights:
        return rows
    without = LedgerRow("weights", weights - cache, "derived", plan.at.line)
    return tuple(without if row.what == "weights" else row for row in rows)


def _by_device(events: Sequence[Event]) -> Iterator[Ledger]:
    """Buffers by the device they lie on. Without a name (up to 2023) they are the host's or the one card's."""
    rows: dict[tuple[str, str], dict[str, LedgerRow]] = {}
    named = any(event.device for event in events if isinstance(event, Buffer))
    refused = next((event for event in events if isinstance(event, BufferRefused)), None)
    for event in events:
        if event is refused:
            break
        if not isinstance(event, Buffer | MemoryPart) or event.held_bytes is None or event.what == "total":
            continue
        if event.device is None and named:
            continue  # the sum over all devices, printed behind them
        device = event.device or (say("host") if event.pool == "host_ram" else translated(GPU))
        what = _WORDS.get(event.what, event.what)
        rows.setdefault((event.pool, device), {})[what] = LedgerRow(what, event.held_bytes, "printed", event.at.line)
    yield from (Ledger(pool, device, None, tuple(rows[pool, device].values())) for pool, device in _told(rows, refused))


def _told(devices: Collection[tuple[str, str]], refused: BufferRefused | None) -> list[tuple[str, str]]:
    """That which had no room first; where nothing is known of it, others say nothing of the failure."""
    if refused is None or refused.device is None:
        return list(devices)
    failed, unnamed = (refused.pool, refused.device), (refused.pool, translated(GPU))
    if failed not in devices and unnamed not in devices:
        return [each for each in devices if each[0] != refused.pool]
    return sorted(devices, key=lambda each: each != failed)


def _last(events: Sequence[Event], names: tuple[tuple[str, str], ...]) -> tuple[LedgerRow, ...]:
    """The last print of each figure."""
    rows = []
    for what, name in names:
        told = next((event for event in reversed(events) if getattr(event, name, None) is not None), None)
        if told is not None:
            rows.append(LedgerRow(what, getattr(told, name), "printed", told.at.line))
    return tuple(rows)
