"""What SGLang says about memory: its start step by step, its errors, retraction, and how it reports dead children."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, threshold, usage
from oomdoctor.families.lines import SIGKILL_CODES, place_of, process_of
from oomdoctor.families.sentences import Sentence, bytes_of, count_of, number_of, reader, values
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.streams import Page
from oomdoctor.units import DECIMAL, GIB, size


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStep(Event):
    """One step of the start with the card's free memory after it, or the KV pool's size."""

    family = "sglang"
    kind = "engine-step"

    role: Role = "context"
    pool: str = "gpu"

    step: str  # "before-weights", "weights", "kv-pool", "memory-pool", "before-graphs", "graphs", "ready"
    free_bytes: int | None = usage()
    used_bytes: int | None = usage()  # by this step
    tokens: int | None = usage()
    keys_bytes: int | None = usage()
    values_bytes: int | None = usage()
    kv_bytes: int | None = usage()
    context_len: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoPool(Event):
    """The fraction of the card leaves nothing for the KV pool."""

    family = "sglang"
    kind = "no-pool"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 2

    tokens: int | None = usage()  # what the profile gave; negative
    smallest_fraction: float | None = usage()  # the engine's own answer, from 0.5.14 on
    fraction: float | None = threshold()

    def identity(self) -> str:
        return f"{self.family} {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureFailed(Event):
    """Capturing CUDA graphs failed; what the device said follows the colon."""

    family = "sglang"
    kind = "capture-failed"

    pool: str = "gpu"
    stage: str = "cuda_graph_capture"
    strength: int = 2

    def identity(self) -> str:
        return f"{self.family} {self.kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolExhausted(Event):
    """A batch needs more tokens than the KV pool has: of the pool, not of the card."""

    family = "sglang"
    kind = "pool-exhausted"

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 3

    batch: str  # "prefill", "decode"
    tried_tokens: int | None = usage()
    free_tokens: int | None = usage()

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.batch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnbalancedCards(Event):
    """One card of the group has much less free than another: somebody else is on it."""

    family = "sglang"
    kind = "unbalanced-cards"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 2

    least_bytes: int | None = usage()
    own_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCacheTooLarge(Event):
    """The host half of the KV cache is larger than the host memory that is free."""

    family = "sglang"
    kind = "host-cache-too-large"

    pool: str = "host_ram"
    stage: str = "engine_init"
    strength: int = 3

    tried_bytes: int | None = usage()
    free_bytes: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retraction(Event):
    """Running requests gave their tokens back and wait: pressure, no failure."""

    family = "sglang"
    kind = "retraction"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    retracted: int | None = usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerFailed(Event):
    """A scheduler process failed, or another process noticed that it had."""

    family = "sglang"
    kind = "scheduler-failed"

    role: Role = "cascade"

    said: str  # "exception", "child-failed", "dead"
    exit_code: int | None = None


def _step(head: str, step: str, stage: str = "engine_init") -> Sentence:
    return Sentence(head, EngineStep, {"step": step, "stage": stage})


_SENTENCES = (
    _step("Load weight begin.", "before-weights", "model_load"),
    _step("Load weight end.", "weights", "model_load"),
    _step("KV Cache is allocated.", "kv-pool", "kv_cache_init"),
    _step("Post-capture KV sizing: KV cache allocated.", "kv-pool", "kv_cache_init"),
    _step("Memory pool end.", "memory-pool", "kv_cache_init"),
    _step("Capture cuda graph begin.", "before-graphs", "cuda_graph_capture"),
    _step("Capture cuda graph end.", "graphs", "cuda_graph_capture"),
    _step("max_total_num_tokens=", "ready"),
    Sentence("Not enough memory. Please try to increase --mem-fraction-static", NoPool, bare=True),
    Sentence("Loaded weights leave no GPU memory for the KV cache", NoPool, bare=True),
    Sentence("is larger than the profiled value", NoPool, needs="tokens"),
    Sentence("Capture cuda graph failed:", CaptureFailed, bare=True),
    Sentence("Capture CUDA graph failed:", CaptureFailed, bare=True),
    Sentence("Prefill out of memory. Try to lower", PoolExhausted, {"batch": "prefill"}, lines=4, bare=True),
    Sentence("Decode out of memory. Try to lower", PoolExhausted, {"batch": "decode"}, lines=4, bare=True),
    Sentence("The memory capacity is unbalanced.", UnbalancedCards, bare=True),
    Sentence("Not enough host memory available. Requesting", HostCacheTooLarge, needs="tried_bytes"),
    Sentence("KV cache pool is full. Retract requests.", Retraction, bare=True),
    Sentence("ecode out of memory happened", Retraction, bare=True),
    Sentence("Scheduler hit an exception", SchedulerFailed, {"said": "exception"}, bare=True),
    Sentence("TpModelWorkerClient hit an exception", SchedulerFailed, {"said": "exception"}, bare=True),
    Sentence("Received sigquit from a child process", SchedulerFailed, {"said": "child-failed"}, bare=True),
    Sentence("scheduler is dead", SchedulerFailed, {"said": "dead"}, lines=2, bare=True),
)


def _decimal(text: str) -> int | None:
    """The host cache's lines divide by 10**9, all others by 2**30."""
    number, _, unit = text.partition(" ")
    return size(number, unit, DECIMAL)


def _gib(text: str) -> int | None:
    number = number_of(text)
    return None if number is None else round(number * GIB)


_CLAUSES = {
    "avail": values(free_bytes=bytes_of),
    "used": values(used_bytes=bytes_of),
    "tokens": values(tokens=count_of),
    "keys": values(keys_bytes=bytes_of),
    "entries": values(values_bytes=bytes_of),
    "both": values(kv_bytes=bytes_of),
    "context_len": values(context_len=count_of),
    "fraction": values(fraction=number_of),
    "smallest": values(smallest_fraction=number_of),
    "profiled": values(tokens=count_of),
    "asked": values(tried_tokens=count_of),
    "free_tokens": values(free_tokens=count_of),
    "retracted": values(retracted=count_of),
    "least": values(least_bytes=_gib),
    "own": values(own_bytes=_gib),
    "host_asked": values(tried_bytes=_decimal),
    "host_free": values(free_bytes=_decimal),
    "exit_code": values(exit_code=count_of),
}

_LOOKALIKES = (
    ("exceeds the maximum allowed length", "a request longer than the KV pool was turned away; nothing failed"),
    ("VA upper bound", "address space that is set aside, not memory"),
)

_ALLOCATOR = late(r", in alloc_(?:paged_)?token_slots(?:_extend|_decode)?\b")

_read_sentences = reader("sglang", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if _ALLOCATOR.search(line.text):
        yield from _raised(page, index)
        return
    for found in _read_sentences(page, index):
        yield from _judged(found, line.text, line.mark.level)
        return
    why = next((why for words, why in _LOOKALIKES if words in line.text), None)
    if why:
        yield Lookalike(place_of(page, line), why)


def _raised(page: Page, index: int) -> Iterator[Read]:
    """The frame of the pool's allocator that raises: where a log is cut behind it, it is all there is."""
    lines = page.after(index, 2)
    if len(lines) > 1 and lines[1].text.strip().startswith("raise RuntimeError"):
        line = lines[1]
        batch = "prefill" if "extend" in lines[0].text or "in alloc_token_slots" in lines[0].text else "decode"
        yield PoolExhausted(at=place_of(page, line), process=process_of(line), strength=2, batch=batch)


def _judged(found: Read, text: str, level: str | None) -> Iterator[Read]:
    if isinstance(found, CaptureFailed) and "out of memory" not in text:
        yield Lookalike(found.at, "graph capture failed of something else; the advice below it is printed always")
    elif isinstance(found, NoPool) and (found.tokens or 0) > 0:
        yield Lookalike(found.at, "a larger pool was asked for than fits; the engine takes the one that fits")
    elif isinstance(found, UnbalancedCards) and level == "WARNING":
        yield Lookalike(found.at, "a warning: the engine goes on with unequal cards")
    elif isinstance(found, SchedulerFailed) and found.exit_code in SIGKILL_CODES:
        # The scheduler wrote nothing of its own, so this is the first that is heard of its death.
        yield replace(found, role="root", strength=1, pool="host_ram")
    else:
        yield found
        if isinstance(found, Retraction):
            yield Lookalike(found.at, "retraction: the KV pool is shared in turns, requests wait and none fails")


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
