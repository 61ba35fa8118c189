"""The errors in which vLLM itself says that memory is short (or that it cannot tell), from 0.1 to 0.33."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Threshold, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.families.loudness import CHARACTERS, is_exception, is_marked_loud
from oomdoctor.families.sentences import Sentence, bytes_of, count_of, device_of, number_of, of_which, reader, values
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class Complaint(Event, frozen=True, kw_only=True):
    """What they share: with several ranks each one prints it, and the engine's core and the server print it again."""

    def identity(self) -> str:
        told = [self.figures(part) for part in ("usage", "threshold")]
        return f"{self.family} {self.kind} {told}"


class NoCacheBlocks(Complaint, frozen=True, kw_only=True):
    """The budget has no room for a single KV-cache block."""

    family = "vllm_error"
    kind = "no-cache-blocks"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 2

    backend: str | None = None  # "cpu" or "openvino", which have their own environment variable for the size


class ContextDoesNotFit(Complaint, frozen=True, kw_only=True):
    """One request of the full length needs more KV cache than there is."""

    family = "vllm_error"
    kind = "context-does-not-fit"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 3

    needed_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None  # may be negative
    kv_tokens: Usage[int | None] = None  # V0 counts tokens instead of bytes
    estimated_tokens: Usage[int | None] = None  # the longest context that fits, by vLLM's own reckoning
    max_model_len: Threshold[int | None] = None


class NotEnoughFree(Complaint, frozen=True, kw_only=True):
    """At start, less of the card is free than the engine's share of it."""

    family = "vllm_error"
    kind = "not-enough-free"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 3

    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    external_bytes: Usage[int | None] = None  # weights that another process holds for this engine (0.33)
    utilization: Threshold[float | None] = None
    requested_bytes: Threshold[int | None] = None


class ProfilingDisturbed(Complaint, frozen=True, kw_only=True):
    """Free memory grew while the engine measured: a neighbour gave memory back, nothing is short."""

    family = "vllm_error"
    kind = "profiling-disturbed"

    pool: str = "gpu"
    stage: str = "memory_profiling"
    strength: int = 2

    initial_free_bytes: Usage[int | None] = None
    current_free_bytes: Usage[int | None] = None
    initial_used_bytes: Usage[int | None] = None
    current_used_bytes: Usage[int | None] = None


class WarmupOutOfMemory(Complaint, frozen=True, kw_only=True):
    """The sampler (or pooler) ran out of device memory with its dummy requests."""

    family = "vllm_error"
    kind = "warmup-out-of-memory"

    pool: str = "gpu"
    stage: str = "engine_init"
    strength: int = 2

    what: str = "sampler"  # or "pooler"
    requests: Usage[int | None] = None

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.what}"  # the raising line does not know the number yet


class WeightsDoNotFit(Complaint, frozen=True, kw_only=True):
    """Loading the model ran out of device memory; the engine has reserved nothing by then."""

    family = "vllm_error"
    kind = "weights-do-not-fit"

    pool: str = "gpu"
    stage: str = "model_load"
    strength: int = 2


class SequencesExceedState(Complaint, frozen=True, kw_only=True):
    """More sequences are asked for than there are blocks for the Mamba layers' state."""

    family = "vllm_error"
    kind = "sequences-exceed-state"

    pool: str = "kv_cache"
    stage: str = "kv_cache_init"
    strength: int = 3

    state_blocks: Usage[int | None] = None
    max_num_seqs: Threshold[int | None] = None


class SwapSpaceTooLarge(Complaint, frozen=True, kw_only=True):
    """The swap space of all GPUs together is more of the node's RAM than vLLM allows itself."""

    family = "vllm_error"
    kind = "swap-space-too-large"

    pool: str = "host_ram"
    stage: str = "engine_init"
    strength: int = 3

    swap_bytes: Usage[int | None] = None
    host_total_bytes: Usage[int | None] = None


class SwapSpaceExhausted(Complaint, frozen=True, kw_only=True):
    """V0, while serving: the KV cache is full and so is the host memory that sequences are swapped to."""

    family = "vllm_error"
    kind = "swap-space-exhausted"

    pool: str = "kv_cache"
    stage: str = "serving"
    strength: int = 2


_SENTENCES = (
    Sentence(
        "No available memory for the cache blocks", NoCacheBlocks, lines=3, bare=True, ends="initializing the engine"
    ),
    Sentence("Cannot auto-fit max_model_len: not enough GPU memory", NoCacheBlocks, bare=True),
    Sentence("model's max seq len (", ContextDoesNotFit, lines=3, needs="kv_tokens"),
    Sentence("To serve at least one request with the model", ContextDoesNotFit, lines=4, needs="needed_bytes"),
    Sentence("Free memory on device", NotEnoughFree, lines=3, needs="requested_bytes"),
    Sentence("Externally held weights on device", NotEnoughFree, lines=3, bare=True),
    # The prefix stands before it in all versions but the assertion's own line in a few tracebacks.
    Sentence("Error in memory profiling", ProfilingDisturbed, lines=3, bare=True),
    Sentence("Initial free memory", ProfilingDisturbed, lines=2, needs="current_free_bytes"),
    Sentence("Initial used memory", ProfilingDisturbed, lines=2, needs="current_used_bytes"),
    Sentence("CUDA out of memory occurred when warming up", WarmupOutOfMemory, lines=2, bare=True),
    Sentence("NPU out of memory occurred when warming up", WarmupOutOfMemory, lines=2, bare=True),
    Sentence("HPU out of memory occurred when warming up", WarmupOutOfMemory, lines=2, bare=True),
    Sentence("XPU out of memory occurred when warming up", WarmupOutOfMemory, lines=2, bare=True),
    Sentence("Failed to load model - not enough GPU memory", WeightsDoNotFit, bare=True),
    Sentence("max_num_seqs (", SequencesExceedState, lines=2, needs="state_blocks"),
    Sentence("Too large swap space.", SwapSpaceTooLarge, lines=2, needs="swap_bytes"),
    Sentence("lack of CPU swap space", SwapSpaceExhausted, bare=True),
)


def _desired(texts: tuple[str, ...]) -> dict[str, float | int | None]:
    """The share and what it comes to; the newest wordings may print the second alone."""
    figures: dict[str, float | int | None] = {"requested_bytes": bytes_of(texts[-1])} if texts else {}
    return {"utilization": number_of(texts[0]), **figures} if len(texts) > 1 else figures


_CLAUSES = {
    "backend": values(backend=lambda text: "openvino" if "OPENVINO" in text else "cpu"),
    "max_model_len": values(max_model_len=count_of),
    "kv_tokens": values(kv_tokens=count_of),
    "needed": values(needed_bytes=bytes_of),
    "available": values(kv_bytes=bytes_of),
    "estimated": values(estimated_tokens=count_of),
    "gpu": values(gpu=device_of),
    "free_of_total": of_which("free_bytes", "total_bytes"),
    "desired": _desired,
    "external": of_which("external_bytes", "total_bytes"),
    "initial_free": values(initial_free_bytes=bytes_of),
    "current_free": values(current_free_bytes=bytes_of),
    "initial_used": values(initial_used_bytes=bytes_of),
    "current_used": values(current_used_bytes=bytes_of),
    "what": values(what=str),
    "requests": values(requests=count_of),
    "sequences": values(max_num_seqs=count_of),
    "state_blocks": values(state_blocks=count_of),
    "swap": values(swap_bytes=bytes_of, host_total_bytes=bytes_of),
}

_LOOKALIKES = (
    ("Possibly too large swap space", mark("a warning about reserved host memory; no allocation failed")),
    ("This may cause OOM errors during", mark("a hint at start, printed for every long context; no allocation failed")),
    ("This may causeOOM during", mark("a hint at start, printed for every long context; no allocation failed")),
    (
        "If out-of-memory error occurs during cudagraph",
        mark("advice, printed before every graph capture"),
    ),
    ("CUDA graphs can take additional", mark("advice, printed before every graph capture")),
    ("is greater than the derived max_model_len", mark("a limit of the model's configuration, not of memory")),
    (
        "Memory usage increased after sleeping",
        mark("other processes took memory while the engine slept; no allocation failed"),
    ),
    (
        "CUDA Error: invalid argument at",
        mark("the sleep allocator got one mapping twice; no memory was requested"),
    ),
)

# ... in the words of a program around the engine: "could not finish memory profiling because another process released
# memory while it was measured"
_DISTURBED = late(
    r"(?i)(?=.*\b(?:profil|measur)\w{1,4}\b)"
    r"(?=.*\b(?:could not|couldn't|cannot|can't|unable|fail\w{0,3}|error|abort\w{0,3})\b)"
    r".*?(?:\b(?:other|another|neighbou?r\w{0,5}|co-?located|someone|something)\b.{0,60}?"
    r"\b(?:releas(?:ed?s?|ing)|free[ds]?|freeing|g[ai]v(?:e|es|ing)|return(?:s|ed|ing))"
    r"(?: \w{1,12}){0,3} (?:memory|vram)\b"
    r"|\bfree (?:\w{1,8} )?(?:memory|vram) (?:\w{1,8} )?(?:rose|risen|grew|grown|increased|went up|gone up)\b)"
)

_read_sentences = reader("vllm_error", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    for found in _read_sentences(page, index):
        # From 0.18 to 0.19 the engine only warns here and goes on.
        if isinstance(found, SequencesExceedState) and line.mark.level == "WARNING":
            yield Lookalike(found.at, mark("a warning: the engine lowers the number of sequences and continues"))
        else:
            yield found
        return
    text = line.text[:CHARACTERS]
    if _DISTURBED.match(text) and (is_exception(text) or is_marked_loud(page, index, text)):
        yield ProfilingDisturbed(at=place_of(page, line), time=line.mark.time, process=process_of(line))
        return
    why = next((why for words, why in _LOOKALIKES if words in line.text), None)
    if why:
        yield Lookalike(place_of(page, line), why)


FAMILY = Family(
    name="vllm_error",
    anchors=("when initializing the engine", "when warming up"),
    triggers=(
        *(sentence.head for sentence in _SENTENCES),
        *(words for words, _ in _LOOKALIKES),
        "rofil",
        "easur",
    ),
    read=read,
)
