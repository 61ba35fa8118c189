"""What vLLM prints about its memory while it starts, sleeps and wakes.

Figures, no failures, with one exception: no version goes on with nothing left for the KV cache, so where a log is cut
behind such a figure, the figure stands for the error.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role, Threshold, Usage
from oomdoctor.families.sentences import Sentence, bytes_of, count_of, device_of, number_of, of_which, reader, values
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class WeightsLoaded(Event, frozen=True, kw_only=True):
    """What loading the weights took on one GPU (one rank's share)."""

    family = "vllm_figures"
    kind = "weights-loaded"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "model_load"

    weights_bytes: Usage[int | None] = None
    offloaded_bytes: Usage[int | None] = None  # what stays in host memory of it (cpu_offload_gb)


class MemoryProfile(Event, frozen=True, kw_only=True):
    """The engine's account of one GPU after its profiling run: what its budget is and what goes into it."""

    family = "vllm_figures"
    kind = "memory-profile"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "memory_profiling"

    total_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None  # when the engine started; includes nothing of its own
    free_after_bytes: Usage[int | None] = None  # after the profiling run
    weights_bytes: Usage[int | None] = None
    non_torch_bytes: Usage[int | None] = None
    consumed_bytes: Usage[int | None] = None  # weights and non-torch together, from 0.28 on
    activation_bytes: Usage[int | None] = None
    used_before_bytes: Usage[int | None] = None  # before the profiling run, by all processes, 0.6.4 only
    torch_peak_bytes: Usage[int | None] = None  # weights and activations together, 0.6.4 only
    graph_bytes: Usage[int | None] = None
    kv_bytes: Usage[int | None] = None  # what is left for the KV cache, or is in use by it; may be negative
    kv_to_fit_bytes: Usage[int | None] = None  # the engine's own --kv-cache-memory suggestion for its budget
    kv_to_fill_bytes: Usage[int | None] = None  # ... and for the whole card
    utilization: Threshold[float | None] = None
    requested_bytes: Threshold[int | None] = None


class KvCacheSize(Event, frozen=True, kw_only=True):
    """How large the KV cache became on one GPU, in bytes, blocks or tokens: what the line prints of it."""

    family = "vllm_figures"
    kind = "kv-cache-size"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "kv_cache_init"

    kv_bytes: Usage[int | None] = None  # may be negative
    gpu_blocks: Usage[int | None] = None
    cpu_blocks: Usage[int | None] = None
    tokens: Usage[int | None] = None
    concurrency: Usage[float | None] = None  # how many requests of the full length fit at once
    request_tokens: Threshold[int | None] = None  # that full length: max_model_len


class GraphCapture(Event, frozen=True, kw_only=True):
    """CUDA graphs: that capturing began, what it is estimated to take, what it took."""

    family = "vllm_figures"
    kind = "graph-capture"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "cuda_graph_capture"

    phase: str  # "begun", "estimated", "finished"
    graph_bytes: Usage[int | None] = None  # what it took; may be negative
    estimated_bytes: Usage[int | None] = None
    utilization: float | None = None  # the setting, where the line prints it
    equivalent_utilization: float | None = None  # what it amounts to without the estimate
    compensating_utilization: float | None = None  # what would give the KV cache its old size back


class Sleep(Event, frozen=True, kw_only=True):
    """The engine gave memory back, or took it again: level 1 keeps a pinned copy of the weights in host RAM."""

    family = "vllm_figures"
    kind = "sleep"

    role: Role = "context"
    pool: str = "gpu"

    phase: str  # "asleep", "awake"
    freed_bytes: Usage[int | None] = None
    device_in_use_bytes: Usage[int | None] = None  # of all processes on the card
    backed_up_bytes: Usage[int | None] = None  # in host RAM
    discarded_bytes: Usage[int | None] = None


class EncoderProfile(Event, frozen=True, kw_only=True):
    """The vision or audio encoder is about to be profiled with items of the largest size."""

    family = "vllm_figures"
    kind = "encoder-profile"

    role: Role = "context"
    pool: str = "gpu"
    stage: str = "memory_profiling"

    modality: str | None = None  # "image", "video", "audio"
    items: int | None = None
    budget_tokens: int | None = None
    # V0 warns where a sequence is too short for the items of the largest size
    profiled_tokens: int | None = None
    embedding_tokens: int | None = None
    image_tokens: int | None = None
    video_tokens: int | None = None
    audio_tokens: int | None = None


_SENTENCES = (
    Sentence("Loading model weights took", WeightsLoaded),
    Sentence("Model loading took", WeightsLoaded),
    Sentence("Total CPU offloaded parameters:", WeightsLoaded),
    # Three physical lines from 0.6.5 to 0.10.2, each with the record's prefix; one line in 0.6.4.
    Sentence("the current vLLM instance can use total_gpu_memory", MemoryProfile, lines=2),
    Sentence("Memory profiling results:", MemoryProfile),
    Sentence("model weights take", MemoryProfile),
    Sentence("Total non KV cache memory:", MemoryProfile),
    Sentence("Free memory on device", MemoryProfile, needs="weights_bytes"),
    Sentence("Free memory on device", MemoryProfile, needs="consumed_bytes"),
    Sentence("Free memory on device", MemoryProfile, needs="activation_bytes"),
    Sentence("Available memory: ", MemoryProfile, needs="kv_bytes"),  # vllm-ascend, in bytes
    Sentence("Initial free memory:", MemoryProfile),
    Sentence("Free memory after profiling:", MemoryProfile),
    Sentence("Initial free memory", MemoryProfile, needs="kv_bytes"),
    Sentence("Available KV cache memory:", KvCacheSize),
    Sentence("KV cache size:", KvCacheSize),
    *(Sentence(f"# {device} blocks:", KvCacheSize) for device in ("GPU", "CUDA", "cuda", "rocm", "xpu", "hpu", "npu")),
    Sentence("Maximum concurrency for", KvCacheSize),
    Sentence("Auto-fit max_model_len: reduced from", KvCacheSize),
    Sentence("Capturing the model for CUDA graphs", GraphCapture, {"phase": "begun"}, bare=True),
    Sentence("Capturing cudagraphs for decoding", GraphCapture, {"phase": "begun"}, bare=True),
    Sentence("Estimated CUDA graph memory:", GraphCapture, {"phase": "estimated"}),
    Sentence("CUDA graph memory profiling is", GraphCapture, {"phase": "estimated"}, needs="utilization"),
    Sentence("graph pool memory:", GraphCapture, {"phase": "finished"}),
    Sentence("Graph capturing finished in", GraphCapture, {"phase": "finished"}),
    Sentence("Sleep mode freed", Sleep, {"phase": "asleep"}),
    Sentence("CuMemAllocator: sleep freed", Sleep, {"phase": "asleep"}),
    Sentence("seconds to wake up", Sleep, {"phase": "awake"}, bare=True),
    Sentence("Encoder cache will be initialized with a budget of", EncoderProfile),
    Sentence("The sequence length used for profiling", EncoderProfile, lines=2, needs="embedding_tokens"),
)


def _gib(text: str) -> int | None:
    return bytes_of(text, "GiB")  # the newest versions print no unit


_CLAUSES = {
    "weights": values(weights_bytes=bytes_of),
    "offloaded": values(offloaded_bytes=_gib),
    "total_consumed": values(consumed_bytes=bytes_of),
    "profile_total": values(total_bytes=bytes_of),
    "utilization": values(utilization=number_of),
    "requested": values(requested_bytes=bytes_of),
    "profile_weights": values(weights_bytes=bytes_of),
    "non_torch": values(non_torch_bytes=bytes_of),
    "activation": values(activation_bytes=bytes_of),
    "torch_peak": values(torch_peak_bytes=bytes_of),
    "used_before": values(used_before_bytes=bytes_of),
    "kv_rest": values(kv_bytes=bytes_of),
    "kv_available": values(kv_bytes=bytes_of),
    "blocks": values(gpu_blocks=count_of, cpu_blocks=count_of),
    "tokens": values(tokens=count_of),
    "concurrency": values(request_tokens=count_of, concurrency=number_of),
    "auto_fit": values(_=count_of, request_tokens=count_of),
    "gpu": values(gpu=device_of),
    "free_of_total": of_which("free_bytes", "total_bytes"),
    "desired": values(utilization=number_of, requested_bytes=bytes_of),
    "consumed": values(consumed_bytes=bytes_of),
    "weight_part": values(weights_bytes=bytes_of),
    "activation_part": values(activation_bytes=bytes_of),
    "non_torch_part": values(non_torch_bytes=bytes_of),
    "graph_part": values(graph_bytes=bytes_of),
    "to_fit": values(kv_to_fit_bytes=bytes_of),
    "to_fill": values(kv_to_fill_bytes=bytes_of),
    "kv_in_use": values(kv_bytes=bytes_of),
    "npu_memory": values(kv_bytes=bytes_of, total_bytes=bytes_of),
    "free_at_start": values(free_bytes=bytes_of),
    "free_after": values(free_after_bytes=bytes_of),
    "requested_of_gpu": values(requested_bytes=bytes_of),
    "requested_share": values(utilization=number_of, requested_bytes=bytes_of),
    "kv_reserved": values(kv_bytes=bytes_of),
    "graph_took": values(_=number_of, graph_bytes=bytes_of),
    "graph_estimate": values(estimated_bytes=bytes_of),
    "graph_actual": values(graph_bytes=bytes_of, estimated_bytes=bytes_of),
    "equivalent": values(utilization=number_of, equivalent_utilization=number_of),
    "raised": values(compensating_utilization=number_of),
    "raised_from": values(utilization=number_of, compensating_utilization=number_of),
    "freed": values(freed_bytes=bytes_of),
    "still_in_use": values(device_in_use_bytes=bytes_of),
    "backed_up": values(backed_up_bytes=bytes_of),
    "discarded": values(discarded_bytes=bytes_of),
    "encoder_budget": values(budget_tokens=count_of),
    "profiled_length": values(profiled_tokens=count_of),
    "embeddings": values(embedding_tokens=count_of),
    "of_images": values(image_tokens=count_of),
    "of_videos": values(video_tokens=count_of),
    "of_audio": values(audio_tokens=count_of),
    "encoder_items": values(items=count_of, modality=str),
}

# The engine's own error, or signs that it got over it: with a smaller model, another share, a set number of blocks
_TOLD_OR_OVER = late(
    r"No available memory for the cache blocks|KV cache is needed|stored in KV cache|Cannot auto-fit max_model_len"
    r"|vailable KV cache memory(?:: | \()[\d.]*[1-9]|KV cache size: [1-9]|# (?!CPU )\w{2,8} blocks: [1-9]"
    r"|Overriding num_gpu_blocks|[Gg]raph capturing finished|Avg prompt throughput|startup complete|out of memory"
)
LINES_BEHIND = 400

_read_sentences = reader("vllm_figures", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    for found in _read_sentences(page, index):
        if isinstance(found, KvCacheSize | MemoryProfile) and _no_room(found) and not _told_or_over(page, index):
            yield replace(found, role="root", strength=2, pool="kv_cache", stage="kv_cache_init")
        else:
            yield found


def _no_room(found: KvCacheSize | MemoryProfile) -> bool:
    if found.kv_bytes is not None:
        return found.kv_bytes <= 0
    # A model without attention has no blocks on either side.
    return isinstance(found, KvCacheSize) and found.gpu_blocks == 0 and found.cpu_blocks != 0


def _told_or_over(page: Page, index: int) -> bool:
    return any(_TOLD_OR_OVER.search(line.text[:400]) for line in page.lines[index + 1 : index + 1 + LINES_BEHIND])


FAMILY = Family(
    name="vllm_figures",
    # What the ledger and the remedies compute with; each is printed once per engine start.
    anchors=("the current vLLM instance can use", "KV cache memory"),
    triggers=tuple(dict.fromkeys(sentence.head for sentence in _SENTENCES)),
    read=read,
)
