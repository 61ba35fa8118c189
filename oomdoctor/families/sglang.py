"""What SGLang says about memory: its start step by step, its errors, retraction, and how it reports dead children."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, Threshold, Usage
from oomdoctor.families.lines import SIGKILL_CODES, place_of, process_of
from oomdoctor.families.peer import passes_on
from oomdoctor.families.sentences import (
    Clause,
    Sentence,
    bytes_of,
    count_of,
    counted_in,
    number_of,
    reader,
    share_of,
    values,
)
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import DECIMAL, GIB, size


class EngineStep(Event, frozen=True, kw_only=True):
    """One step of the start with the card's free memory after it, or the KV pool's size."""

    family = "sglang"
    kind = "engine-step"

    role: Role = "context"
    pool: str = "gpu"

    # "distributed", "before-weights", "weights", "state-pool" (Mamba layers), "window-pool" (sliding windows),
    # "kv-pool", "memory-pool", "before-graphs", "graphs", "host-pool" (the host half of the cache), "ready"
    step: str
    free_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None  # by this step
    tokens: Usage[int | None] = None
    window_tokens: Usage[int | None] = None  # of the layers with a sliding window
    keys_bytes: Usage[int | None] = None
    values_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None
    states: Usage[int | None] = None  # how many sequences the Mamba layers' state is kept for
    convolution_bytes: Usage[int | None] = None
    state_bytes: Usage[int | None] = None
    host_bytes: Usage[int | None] = None
    max_running_requests: int | None = None
    chunked_prefill_size: int | None = None
    context_len: int | None = None


class NoPool(Event, frozen=True, kw_only=True):
    """The fraction of the card leaves nothing for the KV pool."""

    family = "sglang"
    kind = "no-pool"
    once_a_log = True

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 2

    tokens: Usage[int | None] = None  # what the profile gave; negative
    tried_tokens: Usage[int | None] = None  # max_total_tokens
    smallest_fraction: Usage[float | None] = None  # the engine's own answer, from 0.5.14 on
    fraction: Threshold[float | None] = None


class CaptureFailed(Event, frozen=True, kw_only=True):
    """Capturing CUDA graphs failed; what the device said follows the colon."""

    family = "sglang"
    kind = "capture-failed"
    once_a_log = True

    pool: str = "gpu"
    stage: str = "cuda_graph_capture"
    strength: int = 2


class PoolExhausted(Event, frozen=True, kw_only=True):
    """A batch needs more than one of the engine's pools has: of the pool, not of the card."""

    family = "sglang"
    kind = "pool-exhausted"

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 3

    of: str = "tokens"  # or "requests" (places for them), "states" (of Mamba layers)
    batch: str | None = None  # "prefill", "decode"; the newest versions do not say
    tried_tokens: Usage[int | None] = None
    free_tokens: Usage[int | None] = None  # available and evictable ones together
    available_tokens: Usage[int | None] = None
    evictable_tokens: Usage[int | None] = None
    window_free_tokens: Usage[int | None] = None  # the same of the layers with a sliding window
    window_available_tokens: Usage[int | None] = None
    window_evictable_tokens: Usage[int | None] = None
    free_states: Usage[int | None] = None  # the same of the Mamba layers
    available_states: Usage[int | None] = None
    evictable_states: Usage[int | None] = None
    tried_requests: Usage[int | None] = None
    free_requests: Usage[int | None] = None
    left_requests: Usage[int | None] = None  # that still ran when all others had given their tokens back

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.of} {self.batch}"


class UnbalancedCards(Event, frozen=True, kw_only=True):
    """One card of the group has much less free than another: somebody else is on it."""

    family = "sglang"
    kind = "unbalanced-cards"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 2

    least_bytes: Usage[int | None] = None
    own_bytes: Usage[int | None] = None
    least_allowed_bytes: Threshold[int | None] = None  # so much of its own as another one has to have


class HostCacheTooLarge(Event, frozen=True, kw_only=True):
    """The host half of the KV cache is larger than the host memory that is free."""

    family = "sglang"
    kind = "host-cache-too-large"

    pool: str = "host_ram"
    stage: str = "engine_init"
    strength: int = 3

    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None


class Retraction(Event, frozen=True, kw_only=True):
    """Running requests gave their tokens back and wait: pressure, no failure."""

    family = "sglang"
    kind = "retraction"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    retracted: Usage[int | None] = None


class Statistics(Event, frozen=True, kw_only=True):
    """The line of a batch: requests, and the share of each pool in use."""

    family = "sglang"
    kind = "statistics"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    batch: str
    running: Usage[int | None] = None
    waiting: Usage[int | None] = None
    tokens: Usage[int | None] = None
    new_tokens: Usage[int | None] = None
    kv_usage: Usage[float | None] = None  # 0..1, as the next two
    window_usage: Usage[float | None] = None
    state_usage: Usage[float | None] = None

    @property
    def full(self) -> bool:
        """Whether one of the pools is."""
        return max(share or 0 for share in (self.kv_usage, self.window_usage, self.state_usage)) >= FULL


class SchedulerFailed(Event, frozen=True, kw_only=True):
    """A scheduler process failed, or another process noticed that it had."""

    family = "sglang"
    kind = "scheduler-failed"

    role: Role = "cascade"

    said: str  # "exception", "child-failed", "dead"
    exit_code: int | None = None


FULL = 0.99  # of a pool


def _step(head: str, step: str, stage: str = "engine_init") -> Sentence:
    return Sentence(head, EngineStep, {"step": step, "stage": stage})


# From 0.5.10 on a capture names the graphs ("Capture target decode CUDA graph begin."), a draft model's always did.
_SENTENCES = (
    _step("Init torch distributed ends.", "distributed"),
    _step("Load weight begin.", "before-weights", "model_load"),
    _step("Load weight end.", "weights", "model_load"),
    _step("Mamba Cache is allocated.", "state-pool", "kv_cache_init"),
    _step("liding window memory pool", "window-pool", "kv_cache_init"),
    _step("KV Cache is allocated.", "kv-pool", "kv_cache_init"),
    _step("Post-capture KV sizing: KV cache allocated.", "kv-pool", "kv_cache_init"),
    _step(" is allocated. dtype:", "kv-pool", "kv_cache_init"),
    _step("Memory pool end.", "memory-pool", "kv_cache_init"),
    _step("cuda graph begin.", "before-graphs", "cuda_graph_capture"),
    _step("CUDA graph begin.", "before-graphs", "cuda_graph_capture"),
    _step("cuda graph end.", "graphs", "cuda_graph_capture"),
    _step("CUDA graph end.", "graphs", "cuda_graph_capture"),
    Sentence("Allocating", EngineStep, {"step": "host-pool", "stage": "engine_init"}, needs="host_bytes"),
    Sentence("max_total_num_tokens=", EngineStep, {"step": "ready", "stage": "engine_init"}, needs="context_len"),
    Sentence("memory. Please try to increase --mem-fraction-static", NoPool, bare=True),
    Sentence("Loaded weights leave no GPU memory for the KV cache", NoPool, bare=True),
    Sentence("Memory pool size is too small", NoPool, bare=True),  # managers/tp_worker.py, 0.1.13 on
    Sentence("max_total_tokens=", NoPool, needs="tokens"),
    Sentence("is larger than the profiled value", NoPool, needs="tokens"),
    Sentence("Capture cuda graph failed:", CaptureFailed, bare=True),
    Sentence("Capture CUDA graph failed:", CaptureFailed, bare=True),
    Sentence("Prefill out of memory. Try to lower", PoolExhausted, {"batch": "prefill"}, lines=5, bare=True),
    Sentence("Decode out of memory. Try to lower", PoolExhausted, {"batch": "decode"}, lines=5, bare=True),
    Sentence("Out of memory. Try to lower your batch size", PoolExhausted, lines=5, needs="tried_tokens"),
    Sentence("alloc_req_slots runs out of memory", PoolExhausted, {"of": "requests"}, bare=True),
    Sentence("Out of memory. Please set a smaller number for `--max-r", PoolExhausted, {"of": "requests"}, bare=True),
    Sentence("Not enough space for mamba", PoolExhausted, {"of": "states"}, bare=True),
    # managers/schedule_batch.py, `retract_decode`, since 0.2: an assertion
    Sentence("No space left for only one request", PoolExhausted, {"batch": "decode", "left_requests": 1}, bare=True),
    # managers/hisparse_coordinator.py, 0.5.10 on: the device's part of a sparse cache
    Sentence("_grow_device_buffers bulk alloc failed", PoolExhausted, {"batch": "decode"}, bare=True),
    Sentence("_grow_device_buffers failed", PoolExhausted, {"batch": "decode"}, bare=True),
    Sentence("HiSparse: alloc_device_buffer failed for", PoolExhausted, {"batch": "decode"}, bare=True),
    Sentence("HiSparse alloc_device_buffer returned None", PoolExhausted, {"batch": "decode"}, bare=True),
    Sentence("HiSparse spec failed to allocate", PoolExhausted, {"batch": "decode"}, bare=True),
    Sentence("Hisparse allocation failed in alloc_", PoolExhausted, {"batch": "decode"}, bare=True),  # its allocator's
    Sentence("The memory capacity is unbalanced.", UnbalancedCards, bare=True),
    Sentence("Not enough host memory available. Requesting", HostCacheTooLarge, needs="tried_bytes"),
    # srt/mem_cache of 0.5.20 on: an indexer's, a state's, a paged pool, each as "{:.2f} GB"
    Sentence("Not enough host memory for", HostCacheTooLarge, needs="tried_bytes"),
    Sentence("KV cache pool is full. Retract requests.", Retraction, bare=True),
    Sentence("ecode out of memory happened", Retraction, bare=True),
    Sentence("Decode batch", Statistics, {"batch": "decode"}, needs="kv_usage"),
    Sentence("Prefill batch", Statistics, {"batch": "prefill"}, needs="kv_usage"),
    Sentence("Scheduler hit an exception", SchedulerFailed, {"said": "exception"}, bare=True),
    Sentence("TpModelWorkerClient hit an exception", SchedulerFailed, {"said": "exception"}, bare=True),
    Sentence("Received sigquit from a child process", SchedulerFailed, {"said": "child-failed"}, bare=True),
    Sentence("scheduler is dead", SchedulerFailed, {"said": "dead"}, lines=2, bare=True),
)


def _decimal(text: str) -> int | None:
    """The host cache's lines divide by 10**9, all others by 2**30."""
    number, _, unit = text.partition(" ")
    return size(number, unit, DECIMAL)


_gib = counted_in(GIB)


def _pool(*names: str) -> Clause:
    """What is free of a pool, and where the line splits it, what of that is available and what can be evicted."""

    def read(texts: tuple[str, ...]) -> dict[str, int | None]:
        split = [part.partition("=")[2] for text in texts[1:] for part in text.strip("()").split(" + ")]
        return {name: count_of(text) for name, text in zip(names, (*texts[:1], *split), strict=False)}

    return read


_CLAUSES = {
    "avail": values(free_bytes=bytes_of),
    "used": values(used_bytes=bytes_of),
    "tokens": values(tokens=count_of),
    "keys": values(keys_bytes=bytes_of),
    "entries": values(values_bytes=bytes_of),
    "both": values(kv_bytes=bytes_of),
    "context_len": values(context_len=count_of),
    "fraction": values(fraction=share_of),
    "smallest": values(smallest_fraction=share_of),
    "profiled": values(tokens=count_of),
    "most_tokens": values(tried_tokens=count_of),
    "asked": values(tried_tokens=count_of),
    "free_tokens": _pool("free_tokens", "available_tokens", "evictable_tokens"),
    "free_window": _pool("window_free_tokens", "window_available_tokens", "window_evictable_tokens"),
    "free_states": _pool("free_states", "available_states", "evictable_states"),
    "free_requests": values(free_requests=count_of),
    "asked_requests": values(tried_requests=count_of),
    "free_of_states": values(available_states=count_of),
    "window_tokens": values(window_tokens=count_of),
    "states": values(states=count_of),
    "convolution": values(convolution_bytes=bytes_of),
    "state": values(state_bytes=bytes_of),
    "most_requests": values(max_running_requests=count_of),
    "chunk": values(chunked_prefill_size=count_of),
    "host_taken": values(host_bytes=_decimal),
    "running": values(running=count_of),
    "waiting": values(waiting=count_of),
    "batch_tokens": values(tokens=count_of),
    "new_tokens": values(new_tokens=count_of),
    "kv_usage": values(kv_usage=number_of),
    "window_usage": values(window_usage=number_of),
    "state_usage": values(state_usage=number_of),
    "retracted": values(retracted=count_of),
    "least": values(least_bytes=_gib),
    "own": values(own_bytes=_gib),
    "allowed": values(least_allowed_bytes=_gib),
    "host_asked": values(tried_bytes=_decimal),
    "host_free": values(free_bytes=_decimal),
    "exit_code": values(exit_code=count_of),
}

_LOOKALIKES = (
    ("exceeds the maximum allowed length", mark("a request longer than the KV pool was rejected; nothing failed")),
    ("VA upper bound", mark("reserved address space, not memory")),
    (
        "memory leak detected!",
        mark("the KV pool's accounting is inconsistent, which ends the scheduler; memory was not short"),
    ),
)
_SHORT = late(r"out of memory|ALLOC_FAILED")
# model_executor/cuda_graph_runner.py, CUDA_GRAPH_CAPTURE_FAILED_MSG: behind whatever the device said
_ADVISES: Final = "Possible solutions:"
_ADVICE_LINES: Final = 12

_ALLOCATOR = late(r", in alloc_(?:paged_)?token_slots(?:_extend|_decode)?\b")

_read_sentences = reader("sglang", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _ALLOCATOR.search(line.text):
        yield from _raised(page, index)
        return
    for found in _read_sentences(page, index):
        if isinstance(found, CaptureFailed) and not _SHORT.search(line.text):
            yield from _for_another_reason(page, index, found)
        else:
            yield from _judged(found, line.mark.level)
        return
    why = next((why for words, why in _LOOKALIKES if words in line.text), None)
    if why:
        yield Lookalike(place_of(page, line), why)


def _raised(page: Page, index: int) -> Iterator[Read]:
    """The frame of the pool's allocator that raises: where a log is cut behind it, it is all there is."""
    frame, *below = page.after(index, 3)
    if below and below[0].text.strip().startswith("raise RuntimeError") and not _told(below[1:]):
        batch = "prefill" if "_extend" in frame.text else "decode" if "_decode" in frame.text else None
        at = place_of(page, below[0])
        yield PoolExhausted(at=at, process=process_of(below[0]), strength=2, batch=batch)


def _told(lines: Sequence[Line]) -> bool:
    """Whether the message itself follows."""
    return any("ut of memory. Try to lower" in line.text for line in lines)


def _for_another_reason(page: Page, index: int, found: CaptureFailed) -> Iterator[Read]:
    """A peer that has gone is told of where it is read."""
    below = page.after(index, _ADVICE_LINES)[1:]
    if any(_ADVISES in line.text for line in below):
        yield Lookalike(found.at, mark("graph capture failed for another reason; the advice below is always printed"))
    elif not passes_on(page.lines[index].text):
        yield Lookalike(found.at, mark("graph capture failed for another reason"))


def _judged(found: Read, level: str | None) -> Iterator[Read]:
    if isinstance(found, NoPool) and (found.tokens or 0) > 0:
        yield Lookalike(found.at, mark("the requested pool does not fit; the engine takes one that fits"))
    elif isinstance(found, UnbalancedCards) and level == "WARNING":
        yield Lookalike(found.at, mark("a warning: the engine continues with GPUs of unequal free memory"))
    elif isinstance(found, SchedulerFailed) and found.exit_code in SIGKILL_CODES:
        # The scheduler wrote nothing of its own, so this is the first that is heard of its death.
        yield replace(found, role="root", strength=1, pool="host_ram")
    else:
        yield found
        if isinstance(found, Retraction):
            yield Lookalike(found.at, mark("retraction: the KV pool is shared in turns; requests wait and none fails"))
        elif isinstance(found, Statistics) and found.full:
            yield Lookalike(found.at, mark("the KV pool is fully used: further requests wait and none fails"))


FAMILY = Family(
    name="sglang",
    anchors=("out of memory", "mem-fraction-static", "than the profiled value"),
    triggers=(
        ", in alloc_token_slots",
        ", in alloc_paged_token_slots",
        *dict.fromkeys(sentence.head for sentence in _SENTENCES),
        *(words for words, _ in _LOOKALIKES),
    ),
    read=read,
)
