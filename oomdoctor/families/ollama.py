"""Ollama's own log lines (logfmt): what it reckons before it starts a runner, what memory it finds, and its refusals.

The runner's lines are llama.cpp's, see llama_cpp.py. Ollama up to 0.11 prints one plan ("offload to cuda"); its own
engine since then prints one line for each part and device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.echoes import echo
from oomdoctor.families.ended import came_up
from oomdoctor.families.event import Event, Lookalike, Read, Role, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.families.llama_cpp import CONTEXT, is_for_a_context
from oomdoctor.families.loudness import is_quiet
from oomdoctor.families.sentences import bytes_of, count_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import DECIMAL, size


class OffloadPlan(Event, frozen=True, kw_only=True):
    """How many layers Ollama means to put on the cards, and what it reckons for each part of the model."""

    family = "ollama"
    kind = "offload-plan"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    library: str | None = None  # "cuda", "rocm", "metal", "cpu"
    requested_layers: int | None = None  # -1: as many as fit
    layers: int | None = None
    offloaded_layers: int | None = None
    available_bytes: tuple[int, ...] = ()  # of each card
    overhead_bytes: Usage[int | None] = None  # OLLAMA_GPU_OVERHEAD
    full_bytes: Usage[int | None] = None  # with all layers on the cards
    partial_bytes: Usage[int | None] = None  # with the layers of this plan
    kv_bytes: Usage[int | None] = None
    allocations_bytes: tuple[int, ...] = ()
    weights_bytes: Usage[int | None] = None
    repeating_bytes: Usage[int | None] = None
    other_weights_bytes: Usage[int | None] = None
    graph_bytes: Usage[int | None] = None
    partial_graph_bytes: Usage[int | None] = None


class MemoryThere(Event, frozen=True, kw_only=True):
    """What memory Ollama finds, of the system or of one card."""

    family = "ollama"
    kind = "memory-there"

    role: Role = "context"

    library: str | None = None
    total_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    free_swap_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None  # free, less what is kept back
    minimum_bytes: Usage[int | None] = None
    overhead_bytes: Usage[int | None] = None


class MemoryPart(Event, frozen=True, kw_only=True):
    """One part of the model on one device, in Ollama's own engine."""

    family = "ollama"
    kind = "memory-part"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    what: str  # "weights", "kv", "compute", "total"
    device: str | None = None
    held_bytes: Usage[int | None] = None


class NotUnderstood(Event, frozen=True, kw_only=True):
    """A variable of its environment whose value Ollama cannot read: it goes on as if nobody had set it."""

    family = "ollama"
    kind = "not-understood"

    role: Role = "context"

    variable: str
    value: str
    default: str | None = None


class Short(Event, frozen=True, kw_only=True):
    """Ollama, or the runner it started, refuses for lack of memory."""

    family = "ollama"
    kind = "short"

    pool: str = "gpu"
    stage: str = "model_load"
    strength: int = 2  # 3 with figures

    # "system-memory", "allocations", "layout", "commit", "runner", "context" (of the model, which holds its KV cache)
    said: str
    # "weights", "kv", "compute" where the list of allocations says which one failed, CONTEXT by the runner's call
    what: str | None = None
    device: str | None = None
    needed_bytes: Usage[int | None] = None
    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    swap_bytes: Usage[int | None] = None

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.said} {self.pool}"  # the server logs it, the client prints it


_PAIR = late(r"(?:\"([\w .]{1,40})\"|([A-Za-z][\w.]{0,60}))=(?:\"([^\"\n]{0,2000})\"|([^\s\"]{0,400}))")
_SIZES = late(r"(?<![\d.])\d[\d.]{0,12} [KMGT]?i?B")
_CARD = late(r"[A-Za-z]{2,10}(\d{1,2})$")
_HOST = ("CPU", "cpu")

_Figures = dict[str, Any]
_PLAN: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("library", "library", str),
    ("layers.requested", "requested_layers", count_of),
    ("layers.model", "layers", count_of),
    ("layers.offload", "offloaded_layers", count_of),
    ("memory.gpu_overhead", "overhead_bytes", bytes_of),
    ("memory.required.full", "full_bytes", bytes_of),
    ("memory.required.partial", "partial_bytes", bytes_of),
    ("memory.required.kv", "kv_bytes", bytes_of),
    ("memory.weights.total", "weights_bytes", bytes_of),
    ("memory.weights.repeating", "repeating_bytes", bytes_of),
    ("memory.weights.nonrepeating", "other_weights_bytes", bytes_of),
    ("memory.graph.full", "graph_bytes", bytes_of),
    ("memory.graph.partial", "partial_graph_bytes", bytes_of),
    # 0.1.32 and 0.1.33
    ("layers.real", "requested_layers", count_of),
    ("layers.estimate", "offloaded_layers", count_of),
    ("layers", "offloaded_layers", count_of),
    ("required", "full_bytes", bytes_of),
    ("used", "partial_bytes", bytes_of),
    ("kv", "kv_bytes", bytes_of),
    ("fulloffload", "graph_bytes", bytes_of),
    ("partialoffload", "partial_graph_bytes", bytes_of),
)
_THERE: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("library", "library", str),
    ("total", "total_bytes", bytes_of),
    ("free", "free_bytes", bytes_of),
    ("free_swap", "free_swap_bytes", bytes_of),
    ("available", "available_bytes", bytes_of),
    ("minimum", "minimum_bytes", bytes_of),
    ("overhead", "overhead_bytes", bytes_of),
)
_NOW: Final = "updating system memory data"  # discover/gpu.go, before 0.6 gpu/gpu.go: what was free and what is now
_PARTS = {"model weights": "weights", "kv cache": "kv", "compute graph": "compute", "total memory": "total"}
_TOO_LARGE: tuple[tuple[str, str, Callable[[str], Any]], ...] = (
    ("requested", "needed_bytes", bytes_of),
    ("available", "free_bytes", bytes_of),
    ("total", "total_bytes", bytes_of),
    ("swap", "swap_bytes", bytes_of),
)

_SYSTEM = late(
    r"model requires more system memory \((\d[\d.]{0,12} [KMGT]?i?B)\) than is available \((\d[\d.]{0,12} [KMGT]?i?B)\)"
)
# llm/llm.go to 0.1.17, by the size of the model; format.HumanBytes divides by 1000
_AT_LEAST = late(
    r"(?:^\W{0,3}Error: |\"error\": ?\")model requires at least (\d[\d.]{0,12}) ([KMGT]?i?B)"
    r" of (?:total )?memory\W{0,3}$"
)
_ALLOCATIONS = late(r"insufficient memory - required allocations: \{")
# "GPUs:[{Name:CUDA0 UUID:... Weights:[550502400A 550502400F] Cache:[...] Graph:0U}]"
# A was allocated, F failed, U was not tried.
_FAILED = late(r"Name:(?P<name>\w{1,20})|(?P<what>InputWeights|Weights|Cache|Graph):|(?<![\d.])(?P<bytes>\d{1,18})F\b")
_OF_PART = {"Cache": ("kv", "kv_cache_init"), "Graph": ("compute", "engine_init")}
_RUNNER = late(
    r"llama runner process has terminated: .{0,300}?(?:out of memory|unable to allocate|failed to allocate"
    r"|insufficient memory)"
)
# llm/ext_server/server.cpp, later llama/runner: for want of memory, or of a model that it does not know
_NO_CONTEXT = late(r"llama runner process has terminated: .{0,40}?failed to create context with model\b")
_FOR_THE_CACHE = late(r"llama_kv_cache\w{0,20}: failed to allocate buffer for kv cache")
_LAYOUT = "memory layout cannot be allocated"
_COMMIT: Final = "failed to commit memory for model"  # llm/server.go since 0.11.5: what was laid out before
_AT_RUN_TIME: Final = 'msg="runtime OOM detected; expiring loaded models'
_HARMLESS = (
    ("predicted to exceed available memory", mark("the scheduler unloads another model to make room")),
    ("VRAM usage didn't recover within timeout", mark("Ollama waits for free GPU memory, then continues")),
)
_CAME_UP: Final = mark("Ollama tried again with another layout, and the runner started")
_TOO_LARGE_FOR_IT: Final = ("model request too large for system", "model is too large for system memory")
_INVALID: Final = "invalid environment variable, using default"  # envconfig/config.go since 0.2.0
CHARACTERS = 4000


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    if why := next((why for words, why in _HARMLESS if words in text), None):
        yield Lookalike(place_of(page, line), why)
        return
    if (short := _short(text)) is not None:
        if is_quiet(page, index, text) and came_up(page, index):
            yield Lookalike(place_of(page, line), _CAME_UP)
        elif echo(text) is None:
            yield _event(page, line, Short, {**short, **_told_below(page, index, short)})
        return
    kind, figures = _stated(_pairs(text))
    sized = any(name.endswith("_bytes") and size not in (None, ()) for name, size in figures.items())
    if kind in (Short, NotUnderstood) or (kind is not None and sized):
        yield _event(page, line, kind, figures)


def _event(page: Page, line: Line, kind: Any, figures: _Figures) -> Event:
    match = _CARD.match(figures.get("device") or "")
    gpu = int(match[1]) if match else None
    event: Event = kind(at=place_of(page, line), time=line.mark.time, process=process_of(line, gpu), **figures)
    return event


def _pairs(text: str) -> dict[str, str]:
    return {match[1] or match[2]: match[3] or match[4] or "" for match in _PAIR.finditer(text)}


def _stated(said: dict[str, str]) -> tuple[type[Event] | None, _Figures]:
    """The kind of event that a record is, and its figures."""
    message = said.get("msg", "")
    if message.startswith("offload") and "layer" in " ".join(said):
        return OffloadPlan, _plan(said, message)
    if message in ("system memory", "gpu memory", "inference compute"):
        figures = _figures(said, _THERE)
        pool = "host_ram" if message == "system memory" or figures.get("library") in _HOST else "gpu"
        return MemoryThere, {**figures, "pool": pool}
    if message == _NOW:
        now = {key.removeprefix("now."): value for key, value in said.items() if key.startswith("now.")}
        return MemoryThere, {**_figures(now, _THERE), "pool": "host_ram"}
    if message in _PARTS and "size" in said:
        device = said.get("device")
        pool = "host_ram" if device in _HOST else "gpu"
        return MemoryPart, {
            "what": _PARTS[message],
            "device": device,
            "held_bytes": bytes_of(said["size"]),
            "pool": pool,
        }
    if message == _INVALID and said.get("key") and said.get("value"):
        return NotUnderstood, {"variable": said["key"], "value": said["value"], "default": said.get("default")}
    if message in _TOO_LARGE_FOR_IT:
        figures = _figures(said, _TOO_LARGE)
        return Short, {**figures, "said": "system-memory", "pool": "host_ram", "strength": 3 if figures else 2}
    return None, {}


def _plan(said: dict[str, str], message: str) -> _Figures:
    figures = _figures(said, _PLAN)
    if message.startswith("offload to "):
        figures["library"] = message.removeprefix("offload to ")
    figures["available_bytes"] = _sizes(said.get("memory.available") or said.get("available", ""))
    figures["allocations_bytes"] = _sizes(said.get("memory.required.allocations", ""))
    return figures


def _figures(said: dict[str, str], names: tuple[tuple[str, str, Callable[[str], Any]], ...]) -> _Figures:
    found = {name: convert(said[key]) for key, name, convert in names if said.get(key)}
    return {name: value for name, value in found.items() if value is not None}


def _sizes(text: str) -> tuple[int, ...]:
    """ "[23.3 GiB 11.6 GiB]"."""
    found = (bytes_of(size) for size in _SIZES.findall(text))
    return tuple(size for size in found if size is not None)


def _short(text: str) -> _Figures | None:
    if match := _SYSTEM.search(text):
        needed, free = bytes_of(match[1]), bytes_of(match[2])
        return {
            "said": "system-memory", "pool": "host_ram", "strength": 3, "needed_bytes": needed, "free_bytes": free,
        }  # fmt: skip
    if match := _AT_LEAST.search(text):
        return {"said": "system-memory", "pool": "host_ram", "needed_bytes": size(match[1], match[2], DECIMAL)}
    if match := _ALLOCATIONS.search(text):
        return {"said": "allocations", **_failed(text[match.end() :])}
    if _RUNNER.search(text):
        host = re.search(r"\bCPU\b|ggml_aligned_malloc", text) is not None
        return {"said": "runner", "pool": "host_ram" if host else "gpu"}
    if _NO_CONTEXT.search(text):
        return {"said": "context", "stage": "kv_cache_init", "strength": 1}
    if _LAYOUT in text:
        return {"said": "layout"}
    if _COMMIT in text:
        return {"said": "commit"}
    if _AT_RUN_TIME in text:
        return {"said": "runner", "stage": "serving"}
    return None


def _told_below(page: Page, index: int, short: _Figures) -> _Figures:
    """What the runner's own last words below say it was for: the server passes on the last lines of its output."""
    below = page.lines[index + 1 : index + 2]
    if short["said"] == "runner" and is_for_a_context(page, index):
        return {"what": CONTEXT}
    if short["said"] != "runner" or not below or _FOR_THE_CACHE.match(below[0].text[:CHARACTERS]) is None:
        return {}
    return {"what": "kv", "stage": "kv_cache_init"}


def _failed(text: str) -> _Figures:
    """The first allocation of the list that failed: where, what, how much."""
    device, part = "CPU", "Weights"
    for match in _FAILED.finditer(text):
        device = match["name"] or device
        part = match["what"] or part
        if match["bytes"]:
            what, stage = _OF_PART.get(part, ("weights", "model_load"))
            pool = "host_ram" if device in _HOST else "gpu"
            tried = bytes_of(match["bytes"])
            return {"device": device, "what": what, "stage": stage, "pool": pool, "tried_bytes": tried, "strength": 3}
    return {}


FAMILY = Family(
    name="ollama",
    anchors=("more system memory (", "insufficient memory", "llama runner process has terminated", _LAYOUT),
    triggers=(
        "layers=",
        "layers.real=",
        "layers.model=",
        'msg="system memory"',
        f'msg="{_NOW}"',
        'msg="gpu memory"',
        'msg="inference compute"',
        'msg="model weights"',
        'msg="kv cache"',
        'msg="compute graph"',
        'msg="total memory"',
        'msg="model request too large',
        f'msg="{_INVALID}"',
        "model is too large for system memory",
        "requires more system memory",
        "model requires at least ",
        "required allocations: {",
        "llama runner process has terminated",
        _LAYOUT,
        _COMMIT,
        _AT_RUN_TIME,
        *(words for words, _ in _HARMLESS),
    ),
    read=read,
)
