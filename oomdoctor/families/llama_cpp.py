"""llama.cpp and ggml, as themselves and inside Ollama: buffers by device while a model is loaded, refused buffers, and
a context that is full. Which buffer is refused (weights, KV cache, compute) tells the stage and the cause."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.driver_calls import OPENS_A_CONTEXT
from oomdoctor.families.echoes import echo
from oomdoctor.families.event import Event, Lookalike, Read, Role, Threshold, Usage
from oomdoctor.families.lines import is_of_ggml, place_of, process_of
from oomdoctor.families.sentences import bytes_of, count_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, MIB, size


class Buffer(Event, frozen=True, kw_only=True):
    """One buffer of the load: what it holds, where it lies, how large it is."""

    family = "llama_cpp"
    kind = "buffer"

    role: Role = "context"
    pool: str = "gpu"  # "host_ram" where it lies with the processor

    device: str | None = None  # "CUDA0", "ROCm1", "CPU", "CPU_Mapped", "CUDA_Host"; None up to 2023
    what: str  # "weights", "kv", "compute", "output", "state", "required" (2023: all of it), "per-state", "vram"
    held_bytes: Usage[int | None] = None
    cells: int | None = None  # of the KV cache: tokens that it has room for


class LoadPlan(Event, frozen=True, kw_only=True):
    """What the loader knows before it allocates: layers, free memory, the context."""

    family = "llama_cpp"
    kind = "load-plan"

    role: Role = "context"
    pool: str = "gpu"

    device: str | None = None
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    needed_bytes: Usage[int | None] = None
    weights_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None
    compute_bytes: Usage[int | None] = None
    layers: int | None = None
    offloaded_layers: int | None = None
    context_len: int | None = None
    asked_context_len: int | None = None  # where it was made to fit


class BufferRefused(Event, frozen=True, kw_only=True):
    """A buffer could not be allocated: of the card, or of the host."""

    family = "llama_cpp"
    kind = "buffer-refused"

    pool: str = "gpu"
    strength: int = 2  # 3 where the size is printed

    # "weights", "kv", "state", "compute", "pool" (while it computes), CONTEXT, PLAN; None where nothing tells
    what: str | None = None
    device: str | None = None
    limited: bool | None = None  # by the device's largest allocation
    tried_bytes: Usage[int | None] = None
    buffer_bytes: Usage[int | None] = None  # as the buffer's owner asked for it; the device rounds
    free_bytes: Usage[int | None] = None
    allocated_bytes: Usage[int | None] = None  # by Metal's account, beside what it recommends at most
    limit_bytes: Threshold[int | None] = None

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.what} {self.device} {self.tried_bytes} {self.buffer_bytes}"


class ContextFull(Event, frozen=True, kw_only=True):
    """A request found no room in the KV cache, which is as long as the context."""

    family = "llama_cpp"
    kind = "context-full"
    once_a_log = True

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 2

    task: int | None = None  # the server's number of the request
    batch_tokens: int | None = None  # the first of the smaller batches that it was tried with, else the batch
    past_tokens: int | None = None  # what of the request lies in the cache already


_STAGES = {"weights": "model_load", "kv": "kv_cache_init", "state": "kv_cache_init", "compute": "engine_init"}
_KINDS = {"model": "weights", "KV": "kv", "compute": "compute", "output": "output", "RS": "state", "": "weights"}
_HOST = late(r"(?i)^(?:CPU|BLAS|AMX|KleidiAI)|Host$|_Mapped$")
_BUFFER = late(r"(\w{1,21}?)\s{1,9}(?:(model|KV|compute|output|RS)\s)?buffer")
_NAMED = late(r"(?:allocate|device|-) (\w{1,20})(?= |$)")
_CARD = late(r"[A-Za-z]{2,10}?(\d{1,2})$")
_ROW = late(r"-?\d+")
_BATCH = late(r"\bn_batch ?= ?(\d{1,9})\b")
_PAST = late(r"\bn_past ?= ?(\d{1,9})\b")

_OF_A_GRAPH = r"failed to (?:allocate|init) (?:\w{1,20} )?(?:graph|allocator)\b(?! (?:node|edge|id)s?\b)"
# The refusal, its echoes one layer up, and what its owner was doing: they stand one below the other.
_REFUSED = late(
    r"allocating [\d.]{1,20} MiB on device \d{1,3}: \w{2,6}Malloc\w{0,8} failed: out of memory"
    r"|failed to allocate (?:\w{1,20} )?buffer of size \d"
    r"|ggml_aligned_malloc: insufficient memory"
    # ggml_init's, of what malloc gave it: "GGML_ASSERT: FILE:LINE: ..." to 2024, "FILE:LINE: GGML_ASSERT(...) failed"
    r"|\bGGML_ASSERT: \S{1,200}:\d{1,6}: \S{0,8}mem_buffer != (?:NULL|nullptr)\b"
    r"|\bGGML_ASSERT\(\S{0,8}mem_buffer != (?:NULL|nullptr)\) failed"
    r"|(?:ggml|llama|llm|clip|graph|sched)_\w{1,60}[:(].{0,120}(?:"
    r"unable to allocate (?:\w{1,20} )?buffer|failed to allocate buffer for \w{2,4} cache"
    r"|failed to allocate compute (?:pp )?buffers|failed to allocate buffer, size ="
    r"|Device memory allocation of size \d{1,20} failed|can't allocate \d{1,20} Bytes? of memory on device"
    r"|ErrorOutOf(?:Device|Host)Memory)"
    r"|kIOGPUCommandBufferCallbackErrorOutOfMemory"
    r"|\w: failed to allocate the compute buffer|\w alloc compute (?:buffer|graph) failed"  # stable-diffusion.cpp
    # a graph's intermediate results: whisper.cpp, llama.cpp's mtmd, and what is built like them
    rf"|\b[a-z]{{2,20}}_\w{{2,60}}: {_OF_A_GRAPH}"
    r"|: failed to reserve initial output buffer|\boutput_reserve: failed to allocate output buffer of size \d"
    r"|\bread tensor data failed: too less memory for conversion"  # stable-diffusion.cpp's loader
)
# What the host keeps: the logits of a batch (llama-context.cpp's output_reserve, in the host's buffer type), tensors
# whose type is changed before they are copied
_ON_THE_HOST = late(
    r"failed to reserve initial output buffer|output_reserve: failed to allocate output buffer|memory for conversion"
)
_GRAPH = late(rf"compute (?:buffer|graph)|alloc compute |{_OF_A_GRAPH}")
_OF_A_PIECE = late(r"alloc compute graph failed|failed to allocate (?:\w{1,20} )?graph\b")
# whisper.cpp and mtmd where they have no card
_NO_CARD = late(r"\buse gpu {1,6}= 0|\bno GPU found\b|\busing CPU backend\b")
# src/llama.cpp to b4800: called by llama_decode; src/llama-context.cpp since. Shifted or defragmented, the cache needs
# the graph laid out once more.
_IN_A_DECODE = late(r"\bllama_kv_cache_update_impl: failed|\bmemory_update: failed to reserve graph")
_LARGEST = late(r"exceeds (?:device (?:buffer size|memory allocation) limit|max_vmem)")
_OLD = late(r"(?:CUDA|HIP) error \d{1,4} at [\w./-]{0,80}ggml[\w.-]{1,40}:\d{1,6}: out of memory")  # 2023
_RUNTIME = late(r"(?:CUDA|ROCm|HIP|MUSA) error: out of memory\s{0,4}$")
_WHERE = late(r"current device: \d{1,3}, in function \w{1,80} at \S{1,200}ggml[\w-]{0,20}\.cuh?:\d")
_CALL_LINES = 3  # the message, the place, the call
_FULL = (
    "KV cache is full - try increasing it",
    "Input prompt is too big compared to KV size",
    "context size has been exceeded",
    "Context size has been exceeded",
)
# llama_decode returns 1 where it finds no place in the cache; what is below zero are other errors.
_NO_PLACE = late(
    r"failed to decode the batch\b.{0,120}\bret = 1(?!\d)|\bRuntimeError: llama_decode returned 1(?!\d)"
    r"|failed to find a memory slot for batch of size \d"
)
_SLOT = "find a memory slot"
_GAVE_UP = late(r"^(?!.{0,60}(?:draft|spec)).{0,200}(?:\bfailed to (?:eval|decode)\b|llama_decode returned 1(?!\d))")
_GAVE_UP_LINES = 4
_TASK = late(r"\b(?:task id: ?|id_task[\"=: |]{1,4}|task )(\d{1,12})\b")
_SMALLER = late(r"free space in the KV cache, retrying .{0,120}?n_batch = (\d{1,9})\b")
_RETRIES = 24
RETRIES = 3  # in a row: each with half the batch
AT_THE_END = 100  # lines
_HARMLESS = (
    ("pinned memory", mark("pinned memory failed; llama.cpp uses ordinary memory instead")),
    ("free space in the KV cache, retrying", mark("the batch is tried again in smaller pieces")),
    ("exceeds the available context size", mark("one request is longer than the context; the server goes on")),
)
_VULKANS_REASON = late(r"^\W{0,4}ggml_vulkan: .{0,200}\bErrorOutOf(?:Device|Host)Memory")
_GOES_ON = late(r"(?i)\bretrying|\bfalling back")
_GOES_ON_LINES = 12
_MESSAGE_LINES = 10
_GAP = 2  # other lines between two of one failure

# What stands above a refusal that names no owner, nearest first
_OWNERS = (
    ("compute", late(r"graph_reserve|sched_reserve|gallocr|KV buffer size|KV self size|output buffer size")),
    ("kv", late(r"kv_cache|kv self size|llama_context: |llama_new_context_with_model: |constructing llama_context")),
    ("weights", late(r"load_tensors|\b[a-z]\w{1,20}_model_load|print_info|llm_load_")),
)
_ARENA = "mem_buffer != "
# Who allocates on the host; HBM is a processor's fast memory there (ggml-cpu/hbm.cpp)
_OF_THE_HOST = ("ggml_aligned_malloc", "cpu_buffer", " HBM buffer", _ARENA)
METALS_COMMAND = "kIOGPU"  # what failed is a computation, of whatever program runs on Metal
_METALS_LINES = 6
# Metal says of a failed command buffer no more than a number; ggml's account above says what was allocated of how much
_COMMAND_FAILED = late(r"\bcommand buffer \d{1,6} failed with status 5\b")
_ACCOUNT = late(
    r"\bggml_metal_\w{1,40}: allocated (?:'(?P<name>[\w ]{1,24})' )?buffer, size =\s{1,9}(?P<size>[\d.]{1,12}) Mi?B"
    r"[^\n]{0,40}?\(\s{0,9}(?P<now>[\d.]{1,12}) / (?P<most>[\d.]{1,12})\)"
)
_SET_UP = late(r"compute buffer size =|graph splits =|warming up the model")
# Other programs have buffers with a size, too.
_WRITERS = late(
    r"\b(?:llama|llm|ggml|common|clip)_|\b(?:load_tensors|sched_reserve|graph_reserve|clip|srv|warmup)\b|msg=\"offload"
)
_LAYERS_ON_CARD = late(r"offload(?:ing|ed) [1-9]|VRAM|n[-_]gpu[-_]layers|-ngl\b")
_ABOVE = 60
CONTEXT = "context"  # the process's own on the card, before it has anything there
PLAN = "plan"  # all of the model, before anything is allocated
_NOT_FITTED = "failed to fit params to free device memory"
_TABLE_LINES = 12


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    if why := next((why for words, why in _HARMLESS if words in text), None):
        yield from _harmless(page, index, text, why)
    elif _NOT_FITTED in text:
        yield _not_fitted(page, index)
    elif _REFUSED.search(text) and (METALS_COMMAND not in text or page.once(is_of_ggml)):
        yield _not_pinned(page, index, text) or _refused(page, index)
    elif _COMMAND_FAILED.search(text):
        yield from _of_a_command(page, index)
    elif _OLD.search(text):
        yield _old(page, index)
    elif _RUNTIME.search(text):
        yield from _while_computing(page, index)
    elif any(words in text for words in _FULL) or _NO_PLACE.search(text):
        if echo(text) is None and (_SLOT not in text or _given_up(page, index)):
            yield _full(page, index)
    elif _WRITERS.search(text):
        yield from _loaded(page, line, text)


def _not_fitted(page: Page, index: int) -> Read:
    """The program looked whether the model fits, and says that it changes nothing; its table above tells whether."""
    line = page.lines[index]
    above = (
        figures
        for one in page.before(index, _TABLE_LINES)
        for clause, said in grammars.said("llama_cpp", one.text[:1200])
        if clause == "breakdown"
        for _, figures in _breakdown(said)
    )
    short = next((them for them in above if them["needed_bytes"] > them.get("free_bytes", them["needed_bytes"])), None)
    if short is None:
        return Lookalike(place_of(page, line), mark("the program checks whether the model fits and loads it anyway"))
    return BufferRefused(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line, _number(short["device"])),
        stage="model_load",
        strength=3,
        what=PLAN,
        device=short["device"],
        tried_bytes=short["needed_bytes"],
        free_bytes=short["free_bytes"],
    )


def _given_up(page: Page, index: int) -> bool:
    """A server frees the cache of idle requests and tries again; whoever has no such way ends here."""
    below = (line.text[:400] for line in page.after(index, _GAVE_UP_LINES)[1:])
    first = next((text for text in below if _GAVE_UP.search(text) or _GOES_ON.search(text)), "")
    return bool(first) and not _GOES_ON.search(first)


def _harmless(page: Page, index: int, text: str, why: str) -> Iterator[Read]:
    if _SMALLER.search(text) and _never_found(page, index):
        yield _full(page, index)
    elif any(word in text for word in ("ggml", "slot", "decode", "send_error")):
        yield Lookalike(place_of(page, page.lines[index]), why)


def _not_pinned(page: Page, index: int, text: str) -> Read | None:
    """Vulkan's reason, in the line below the one that says that memory could not be pinned: the same went into ordinary
    memory (ggml_backend_vk_host_buffer_type_alloc_buffer)."""
    words, why = _HARMLESS[0]
    above = page.lines[index - 1].text[:400] if index else ""
    pinned = _VULKANS_REASON.search(text) is not None and words in above
    return Lookalike(place_of(page, page.lines[index]), why) if pinned else None


def _never_found(page: Page, index: int) -> bool:
    """Whether the log ends with the retries, three of them at least, and none of them found a place."""
    behind = [line.text[:400] for line in page.lines[index + 1 :] if line.text.strip()]
    return page.ends and len(behind) < AT_THE_END and _end_in_retries(behind)


def _end_in_retries(texts: Sequence[str]) -> bool:
    again = [_SMALLER.search(text) is not None for text in texts]
    return sum(again) >= RETRIES - 1 and all(
        retry or "failed to decode" in text for retry, text in zip(again, texts, strict=True)
    )


def _full(page: Page, index: int) -> Read:
    line = page.lines[index]
    above = [one.text[:400] for one in page.before(index, _RETRIES)]
    tasks = [match[1] for text in (*above, line.text[:400]) if (match := _TASK.search(text))]
    smaller = [match[1] for text in above if (match := _SMALLER.search(text))]
    return ContextFull(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        task=int(tasks[-1]) if tasks else None,
        batch_tokens=int(smaller[0]) if smaller else _beside(page, index, _BATCH),
        past_tokens=_beside(page, index, _PAST),
    )


def _beside(page: Page, index: int, figure: re.Pattern[str]) -> int | None:
    """The figure on the line or right below it."""
    found = figure.search(" ".join(line.text[:400] for line in page.after(index, 2)))
    return int(found[1]) if found else None


def _loaded(page: Page, line: Line, text: str) -> Iterator[Read]:
    for clause, said in grammars.said("llama_cpp", text):
        for kind, figures in _OF_LOAD[clause](said) if clause in _OF_LOAD and said else ():
            device = figures.get("device")
            yield kind(
                at=place_of(page, line),
                time=line.mark.time,
                process=process_of(line, _number(device)),
                pool=figures.pop("pool", _pool(device)),
                **figures,
            )


_Figures = tuple[type[Buffer] | type[LoadPlan], dict[str, Any]]


def _buffer(said: tuple[str, ...]) -> Iterator[_Figures]:
    match = _BUFFER.match(said[0])
    held = bytes_of(said[1]) if len(said) > 1 else None
    if match is None or held is None:
        return
    if match[1] in _KINDS:  # up to 2023 without a device: "compute buffer total size"
        yield Buffer, {"what": _KINDS[match[1]], "held_bytes": held}
    else:
        yield Buffer, {"device": match[1], "what": _KINDS[match[2] or ""], "held_bytes": held}


def _held(what: str, pool: str = "gpu") -> Any:
    def read(said: tuple[str, ...]) -> Iterator[_Figures]:
        yield Buffer, {"what": what, "held_bytes": bytes_of(said[0]), "pool": pool}

    return read


def _required(said: tuple[str, ...]) -> Iterator[_Figures]:
    for what, text in zip(("required", "per-state"), said, strict=False):
        yield Buffer, {"what": what, "held_bytes": bytes_of(text), "pool": "host_ram"}


def _vram_parts(said: tuple[str, ...]) -> Iterator[_Figures]:
    for what, text in zip(("weights", "compute"), said, strict=False):
        yield Buffer, {"what": what, "held_bytes": bytes_of(text)}


def _layers(said: tuple[str, ...]) -> Iterator[_Figures]:
    if len(said) == 2:
        yield LoadPlan, {"offloaded_layers": count_of(said[0]), "layers": count_of(said[1])}


def _card_free(said: tuple[str, ...]) -> Iterator[_Figures]:
    yield LoadPlan, {"device": _named(said[0]), "free_bytes": bytes_of(said[1])}


def _projected(said: tuple[str, ...]) -> Iterator[_Figures]:
    if len(said) == 3:
        needed, whose, there = said
        host = "host" in whose
        figures = {"needed_bytes": bytes_of(needed), "total_bytes" if host else "free_bytes": bytes_of(there)}
        yield LoadPlan, {**figures, "pool": "host_ram" if host else "gpu"}


def _breakdown(said: tuple[str, ...]) -> Iterator[_Figures]:
    """Its table: total = free + (self = model + context + compute) + unaccounted, in MiB, of the host self alone."""
    numbers = [int(number) * MIB for number in _ROW.findall(said[1])] if len(said) > 1 else []
    names = ("total_bytes", "free_bytes", "needed_bytes", "weights_bytes", "kv_bytes", "compute_bytes")
    if len(numbers) in (4, 7):
        named = names[2:] if len(numbers) == 4 else names
        yield LoadPlan, {"device": _named(said[0]), **dict(zip(named, numbers, strict=False))}


def _cells(said: tuple[str, ...]) -> Iterator[_Figures]:
    yield Buffer, {"what": "kv", "held_bytes": bytes_of(said[0]), "cells": count_of(said[1]) if len(said) > 1 else None}


def _context(said: tuple[str, ...]) -> Iterator[_Figures]:
    yield LoadPlan, {"context_len": count_of(said[0])}


def _reduced(said: tuple[str, ...]) -> Iterator[_Figures]:
    if len(said) == 2:
        yield LoadPlan, {"asked_context_len": count_of(said[0]), "context_len": count_of(said[1])}


_OF_LOAD: dict[str, Any] = {
    "buffer": _buffer,
    "cache": _held("kv"),
    "required": _required,
    "context_size": _held("weights", "host_ram"),
    "vram": _held("vram"),
    "vram_parts": _vram_parts,
    "scratch": _held("compute"),
    "layers": _layers,
    "card_free": _card_free,
    "projected": _projected,
    "breakdown": _breakdown,
    "cells": _cells,
    "n_ctx": _context,
    "reduced": _reduced,
}


def _named(text: str) -> str | None:
    match = _NAMED.search(text)
    return match[1] if match and match[1] not in ("buffer", "backend", "output") else None


def _number(device: str | None) -> int | None:
    match = _CARD.match(device) if device and not _HOST.search(device) else None
    return int(match[1]) if match else None


def _pool(device: str | None) -> str:
    return "host_ram" if device is not None and _HOST.search(device) else "gpu"


def _refused(page: Page, index: int) -> Read:
    """The refusal and its echoes as one event, from the first of these lines to the last."""
    first = page.lines[index]
    lines = _of_one_failure(page.after(index, _MESSAGE_LINES))
    if any(_GOES_ON.search(line.text[:400]) for line in page.after(index, _GOES_ON_LINES)):
        return Lookalike(place_of(page, first, lines[-1]), mark("another attempt at the allocation follows"))
    figures: dict[str, Any] = {}
    for line in lines:
        for clause, said in grammars.said("llama_cpp", line.text[:1200]):
            for name, value in _said(clause, said):
                figures.setdefault(name, value)
    text = " ".join(line.text[:400] for line in lines)
    decodes = any(_IN_A_DECODE.search(line.text[:400]) for line in page.after(index, len(lines) + _GAP))
    card = figures.pop("card", None)
    device = figures.get("device")
    computes = METALS_COMMAND in text and _is_set_up(page, index)
    what = figures.setdefault("what", None if computes else _owner(page, index, text))
    if _LARGEST.search(text):
        figures["limited"] = True
    host = _pool(device) == "host_ram" or any(words in text for words in _OF_THE_HOST)
    host = host or _ON_THE_HOST.search(text) is not None
    host = host or (_GRAPH.search(text) is not None and _has_no_card(page, index))
    stage = "serving" if decodes else _stage(what, text)
    return BufferRefused(
        at=place_of(page, first, lines[-1]),
        time=first.mark.time,
        process=process_of(first, _number(device) if card is None else card),
        pool="host_ram" if host or "OutOfHostMemory" in text else "gpu",
        stage=stage or ("engine_init" if computes and _warms_up(page, index) else "unknown"),
        strength=3 if figures.get("tried_bytes") or figures.get("buffer_bytes") else 2,
        **figures,
    )


def _stage(what: str | None, text: str) -> str | None:
    """A graph may also be laid out while the program works."""
    return None if _OF_A_PIECE.search(text) else _STAGES.get(what or "")


def _has_no_card(page: Page, index: int) -> bool:
    return any(_NO_CARD.search(line.text[:400]) for line in page.before(index, _ABOVE))


def _of_a_command(page: Page, index: int) -> Iterator[Read]:
    """A computation that failed where more is allocated than Metal recommends."""
    line = page.lines[index]
    above = (_ACCOUNT.search(one.text[:400]) for one in reversed(page.before(index, _ABOVE)))
    account = next((found for found in above if found is not None), None)
    if account is None or float(account["now"]) <= float(account["most"]):
        return
    allocated, limit, buffer = (size(account[name], "mib", BINARY) for name in ("now", "most", "size"))
    yield BufferRefused(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        allocated_bytes=allocated,
        limit_bytes=limit,
        buffer_bytes=buffer,
    )


def _is_set_up(page: Page, index: int) -> bool:
    """Whether all buffers are there: the compute buffers come last."""
    return any(_SET_UP.search(line.text[:400]) for line in page.before(index, _ABOVE))


def _warms_up(page: Page, index: int) -> bool:
    return any("warming up the model" in line.text[:400] for line in page.before(index, _METALS_LINES))


def _of_one_failure(lines: Sequence[Line]) -> list[Line]:
    """Up to the last line that tells of the same buffer; the next device's refusal is another one."""
    end = 1
    for position, line in enumerate(lines[1:], 1):
        text = line.text[:1200]
        if position - end > _GAP or "MiB on device" in text or "ggml_aligned_malloc" in text:
            break
        if _REFUSED.search(text):
            end = position + 1
    return list(lines[:end])


def _said(clause: str, said: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    if clause == "tried" and len(said) == 2:
        yield "tried_bytes", bytes_of(said[0])
        yield "card", count_of(said[1])
    elif clause in ("aligned", "metal", "sycl") and said:
        yield "tried_bytes", bytes_of(said[0])
    elif clause == "device_bytes" and said:
        yield "tried_bytes", count_of(said[0])
    elif clause == "range":
        if (device := _named(said[0])) is not None:
            yield "device", device
        if len(said) > 1:
            yield "buffer_bytes", count_of(said[1])
    elif clause == "refused_in":
        if "unable" in said[0] and (device := _named(said[0])) is not None:
            yield "device", device
        what = "compute" if "compute" in said[0] else "kv" if "kv cache" in said[0] else None
        what = "state" if "rs cache" in said[0] else "weights" if "unable" in said[0] else what
        if what is not None:
            yield "what", what


def _owner(page: Page, index: int, text: str) -> str | None:
    """Whose buffer it was, where the lines below do not say: by what was allocated last."""
    if "gallocr" in text or "_pool_" in text or _GRAPH.search(text):
        return "compute"
    if _ON_THE_HOST.search(text):
        return "weights" if "conversion" in text else "output"
    for line in reversed(page.before(index, _ABOVE)):
        for what, pattern in _OWNERS:
            if pattern.search(line.text[:400]):
                return what
    return None


def _old(page: Page, index: int) -> Read:
    """The first generation of the CUDA back end copied the weights through one page-locked buffer: where no layer was
    put on the card, that is what was refused."""
    line = page.lines[index]
    above = [one.text[:400] for one in page.before(index, _ABOVE)]
    loading = any("mem required" in text or "ggml ctx size" in text for text in above)
    on_card = any(_LAYERS_ON_CARD.search(text) for text in above)
    pinned = loading and not on_card
    return BufferRefused(
        at=place_of(page, line),
        time=line.mark.time,
        process=process_of(line),
        pool="pinned" if pinned else "gpu",
        stage="model_load" if loading else "unknown",
        what="weights" if loading else None,
    )


def _while_computing(page: Page, index: int) -> Iterator[Read]:
    """ggml's check: "CUDA error: out of memory", and below it the device and the function of ggml."""
    lines = page.after(index, 2)
    where = lines[-1]
    if not _WHERE.search(where.text[:400]):
        return
    device = next((count_of(said[0]) for c, said in grammars.said("llama_cpp", where.text[:400]) if said), None)
    yield BufferRefused(
        at=place_of(page, lines[0], where),
        time=lines[0].mark.time,
        process=process_of(lines[0], device),
        what=CONTEXT if is_for_a_context(page, index) else "pool",
    )


def is_for_a_context(page: Page, index: int) -> bool:
    """Whether the call that ggml's check prints below is one that takes no memory but the context that it opens."""
    return any(OPENS_A_CONTEXT.match(line.text[:400]) for line in page.after(index, _CALL_LINES)[1:])


FAMILY = Family(
    name="llama_cpp",
    anchors=(
        "out of memory",
        "ailed to alloc",
        "unable to allocate",
        "insufficient memory",
        _ARENA,
        "OutOfMemory",
        "failed to decode the batch",
        *_FULL,
        _NOT_FITTED,
    ),
    triggers=(
        "Malloc failed: out of memory",
        "error 2 at ",
        "rror: out of memory",
        "buffer of size",
        "unable to allocate",
        "failed to allocate",
        "failed to init ",
        "alloc compute ",
        "initial output buffer",
        "memory for conversion",
        "ggml_aligned_malloc",
        _ARENA,
        "memory allocation of size",
        "of memory on device",
        "failed with status 5",
        "CallbackErrorOutOfMemory",
        "pinned memory",
        "context's memory pool",
        "free space in the KV cache",
        "exceeds the available context size",
        "failed to decode the batch",
        "llama_decode returned",
        _SLOT,
        *_FULL,
        "buffer size",
        "buffer total size",
        "self size",
        "mem required",
        "ggml ctx size",
        "VRAM used",
        "VRAM for the scratch",
        "layers to GPU",
        "MiB free",
        "projected to use",
        "memory_breakdown_print",
        _NOT_FITTED,
        "kv_cache: size",
        "n_ctx ",
        "context size reduced from",
        "n_ctx_slot",
    ),
    read=read,
)
