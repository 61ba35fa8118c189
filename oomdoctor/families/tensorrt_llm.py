"""TensorRT-LLM: what its engine, buffers and KV cache take at start, a component that could not be created, a KV cache
that is too small. Its fraction is one of the memory that is free once the engine is loaded."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role, Threshold, Usage
from oomdoctor.families.sentences import Sentence, bytes_of, count_of, counted_in, number_of, reader, values
from oomdoctor.streams import Page
from oomdoctor.units import GIB, MIB


class EngineFigures(Event, frozen=True, kw_only=True):
    """One line of the start; the last of each figure counts."""

    family = "tensorrt_llm"
    kind = "engine-figures"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "engine_init"

    total_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    in_use_bytes: Usage[int | None] = None
    engine_bytes: Usage[int | None] = None
    context_bytes: Usage[int | None] = None  # activations of a TensorRT engine
    buffers_bytes: Usage[int | None] = None
    decoder_bytes: Usage[int | None] = None
    weights_bytes: Usage[int | None] = None
    outside_bytes: Usage[int | None] = None  # of PyTorch
    activation_bytes: Usage[int | None] = None
    peak_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None
    temporary_kv_bytes: Usage[int | None] = None
    kv_tokens: Usage[int | None] = None
    kv_blocks: Usage[int | None] = None
    block_tokens: int | None = None
    fraction: Threshold[float | None] = None


class CreationFailed(Event, frozen=True, kw_only=True):
    """The PyTorch backend says which part of the executor found no room."""

    family = "tensorrt_llm"
    kind = "creation-failed"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 2  # 3 with the card's figures

    component: str | None = None
    free_bytes: Usage[int | None] = None  # before the attempt
    start_bytes: Usage[int | None] = None  # free before the first component
    total_bytes: Usage[int | None] = None

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.component} {self.process.rank}"


class CacheTooSmall(Event, frozen=True, kw_only=True):
    """The KV cache does not hold one whole sequence, or has no block left for those that run."""

    family = "tensorrt_llm"
    kind = "cache-too-small"

    pool: str = "kv_cache"
    strength: int = 2

    said: str  # "one-sequence", "no-blocks"

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.said}"


# The first words of a component's name, as the executor counts them, and what it was doing.
_STAGES = (
    ("Model resources", "engine_init"),
    ("Initial KV", "memory_profiling"),
    ("KV cache", "kv_cache_init"),
    ("Model", "model_load"),
    ("Draft model", "model_load"),
)


def _figures(head: str) -> Sentence:
    return Sentence(head, EngineFigures)


_SENTENCES = (
    _figures("Loaded engine size:"),
    _figures("[MemUsageChange] "),
    _figures("Memory usage when calculating max tokens in paged kv cache"),
    _figures("Number of blocks in KV cache primary pool:"),
    _figures("Number of tokens per block:"),
    Sentence("Allocate ", EngineFigures, needs="kv_bytes"),
    Sentence("Using ", EngineFigures, needs="kv_tokens"),
    _figures("Memory used after loading"),
    _figures("Memory used for model weights"),
    _figures("Memory used outside torch"),
    _figures("Memory dynamically allocated during inference"),
    _figures("Peak memory during memory usage profiling"),
    Sentence("Executor creation failed due to insufficient GPU memory", CreationFailed, lines=9, bare=True),
    Sentence("might indicate insufficient GPU memory", CreationFailed, lines=9, bare=True),
    Sentence(
        "Can't allocate new blocks. No free blocks left",
        CacheTooSmall,
        {"said": "no-blocks", "stage": "serving"},
        bare=True,
    ),
    Sentence(
        "must be large enough to process at least 1 sequence to completion",
        CacheTooSmall,
        {"said": "one-sequence", "stage": "kv_cache_init"},
        bare=True,
    ),
)


_gib = counted_in(GIB)
_mib = counted_in(MIB)


_CLAUSES = {
    "engine": values(engine_bytes=bytes_of),
    "context": values(context_bytes=bytes_of),
    "buffers": values(buffers_bytes=bytes_of),
    "decoder": values(decoder_bytes=bytes_of),
    "now": values(_=count_of, in_use_bytes=_mib),
    "total": values(total_bytes=bytes_of),
    "available": values(free_bytes=bytes_of),
    "blocks": values(kv_blocks=count_of),
    "block_tokens": values(block_tokens=count_of),
    "cache": values(kv_bytes=bytes_of),
    "cache_tokens": values(kv_tokens=count_of),
    "tokens": values(kv_tokens=count_of),
    "weights": values(weights_bytes=bytes_of),
    "outside": values(outside_bytes=bytes_of),
    "activation": values(activation_bytes=bytes_of),
    "peak": values(peak_bytes=bytes_of),
    "cache_room": values(kv_bytes=bytes_of),
    "fraction": values(fraction=number_of),
    "device_total": values(total_bytes=bytes_of),
    "temporary": values(temporary_kv_bytes=bytes_of),
    "component": values(component=str.strip),
    "card_total": values(total_bytes=_gib),
    "card_free": values(free_bytes=_gib),
    "card_start": values(start_bytes=_gib),
}

_read_sentences = reader("tensorrt_llm", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    for found in _read_sentences(page, index):
        yield _placed(found) if isinstance(found, CreationFailed) else found


def _placed(failed: CreationFailed) -> CreationFailed:
    component = failed.component or ""
    stage = next((stage for words, stage in _STAGES if component.startswith(words)), "engine_init")
    return replace(failed, stage=stage, strength=3 if failed.free_bytes is not None else 2)


FAMILY = Family(
    name="tensorrt_llm",
    anchors=("insufficient GPU memory", "No free blocks left", "must be large enough to process at least"),
    triggers=(
        "Loaded engine size:",
        "[MemUsageChange] ",
        "max tokens in paged kv cache",
        "KV cache primary pool:",
        "Number of tokens per block:",
        "bytes for k/v cache",
        "tokens in paged KV cache",
        "in memory usage profiling:",
        "Peak memory during memory usage profiling",
        "Executor creation failed due to",
        "might indicate insufficient GPU memory",
        "No free blocks left",
        "at least 1 sequence to completion",
    ),
    read=read,
)
