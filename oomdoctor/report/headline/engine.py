"""Slots about an inference engine, its share of the GPU and its KV cache."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_visibility import GpuVisibility
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.ray_schedule import ClusterStarted, ClusterStatus, Unschedulable
from oomdoctor.families.sglang import NoPool, PoolExhausted
from oomdoctor.families.tensorrt_llm import CreationFailed, EngineFigures
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_error import (
    NotEnoughFree,
    ProfilingDisturbed,
    SequencesExceedState,
    SwapSpaceExhausted,
    WarmupOutOfMemory,
)
from oomdoctor.families.vllm_figures import EncoderProfile, WeightsLoaded
from oomdoctor.incident.engine_facts import facts, loading, phase, static_fraction
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, mark, say, translated
from oomdoctor.report.headline.gpu import start, title
from oomdoctor.signs import engine as engine_share
from oomdoctor.signs import engine_steps, kv_cache, kv_pool
from oomdoctor.signs import loading as weights_on_their_way
from oomdoctor.signs.ggml import computed_after
from oomdoctor.units import show

LONG: Final = 40  # characters: a name that is longer is none for a headline
_TOKENS: Final = (mark("{count} token"), mark("{count} tokens"))
_GPUS: Final = (mark("{count} GPU"), mark("{count} GPUs"))
_REQUESTS: Final = (mark("{count} request"), mark("{count} requests"))
_SEQUENCES: Final = (mark("{count} sequence"), mark("{count} sequences"))
_BATCHES: Final[Mapping[str, str]] = {
    "prefill": mark("A prefill batch"),
    "decode": mark("A decode batch"),
}
_ENCODERS: Final[Mapping[str, str]] = {
    "image": mark("The vision encoder"),
    "video": mark("The vision encoder"),
    "audio": mark("The audio encoder"),
}
_WARMED: Final[Mapping[str, str]] = {"sampler": mark("sampler"), "pooler": mark("pooler")}


def engine(crash: Crash) -> str | None:
    """The engine's name, where it is known."""
    return title(crash.job.engine) if crash.job.engine else None


def engine_first(crash: Crash) -> str:
    """The engine, at the head of a sentence."""
    return engine(crash) or say("The inference engine")


def engine_within(crash: Crash) -> str:
    """The engine, within a sentence."""
    return engine(crash) or say("the inference engine")


def cache_before(crash: Crash) -> str | None:
    """The KV cache that llama.cpp had allocated before a computation ran out of memory."""
    size = computed_after(crash)
    return show(size) if size else None


# its share


def share(crash: Crash) -> str | None:
    """The share of the GPU that vLLM takes, as set or printed."""
    found = facts(crash).share
    begun = start(crash)
    if begun is not None and begun.utilization is not None:
        found = begun.utilization
    return f"{found:g}" if found else None


def wanted(crash: Crash) -> str | None:
    """What that share comes to, where less was free when vLLM started."""
    begun = start(crash)
    size = begun.requested_bytes if begun is not None else None
    return show(size) if size and begun is not None and size > (begun.free_bytes or 0) else None


def reserved(crash: Crash) -> str | None:
    """What the share comes to."""
    size = facts(crash).reserved_bytes
    return show(size) if size else None


def server(crash: Crash) -> str | None:
    """The engine, where it was its own process that failed, as far as the log says."""
    of_others = crash.root.process.role not in (None, "engine")
    return engine_first(crash) if crash.job.in_engine and not of_others else None


def beside_engine(crash: Crash) -> str | None:
    """The process that failed beside an engine."""
    if server(crash) is not None or not crash.job.runs_engine:
        return None
    process = crash.root.process
    if process.name is None or len(process.name) > LONG:
        return say("The trainer") if crash.job.trains or crash.job.learns else None
    if process.pid is None:
        return process.name
    return say("{name} (PID {pid})", name=process.name, pid=process.pid)


def graph_pools(crash: Crash) -> str | None:
    """What lies in private pools of CUDA graphs, where nothing else shows an engine."""
    root = crash.root
    shown = engine_share.graphs_on_a_full_card(crash) is not None and isinstance(root, DeviceOutOfMemory)
    return show(root.private_pools_bytes or 0) if shown and isinstance(root, DeviceOutOfMemory) else None


def waking(crash: Crash) -> str | None:
    """The engine, where it took its memory back."""
    return engine_first(crash) if phase(crash) == "waking" else None


def cache_fraction(crash: Crash) -> str | None:
    """TensorRT-LLM's fraction of what is free, for its KV cache."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage != "kv_cache_init":
        return None
    found = [event.fraction for event in crash.every(EngineFigures) if event.fraction is not None]
    return f"{found[-1]:g}" if found else None


def free_before(crash: Crash) -> str | None:
    """What was free before TensorRT-LLM's attempt."""
    failed = crash.first(CreationFailed)
    return show(failed.free_bytes) if failed is not None and failed.free_bytes is not None else None


def left_by_weights(crash: Crash) -> str | None:
    """What TensorRT-LLM's weights left free, where that was hardly any."""
    return free_before(crash) if weights_on_their_way.executors_weights_fill_the_card(crash) is not None else None


def left_of(crash: Crash) -> str | None:
    """The memory of that GPU."""
    failed = crash.first(CreationFailed)
    return show(failed.total_bytes) if failed is not None and failed.total_bytes else None


# what it was doing


def weights(crash: Crash) -> str | None:
    """What the engine's weights take."""
    before = loading(crash)
    size = facts(crash).weights_bytes or (before.weights_bytes if before is not None else None)
    return show(size) if size else None


def no_weights(crash: Crash) -> str | None:
    """The engine, where its weights took nothing on the GPU that it looks at."""
    empty = any(event.weights_bytes == 0 for event in crash.every(WeightsLoaded))
    return engine_first(crash) if empty else None


def warmup_tokens(crash: Crash) -> str | None:
    """The prefill tokens of TGI's warm-up batch; of a few it is the total that is too many."""
    short = crash.first(WarmupShort)
    count = max(short.prefill_tokens or 0, short.total_tokens or 0) if short is not None else 0
    return counted(count, *_TOKENS) if count else None


def profiled(crash: Crash) -> str | None:
    """With how many items the encoder is profiled."""
    profile = _profile(crash)
    if profile is None:
        return None
    if profile.items is not None and profile.modality:
        return counted(
            profile.items,
            mark("{count} {modality} item of the largest size"),
            mark("{count} {modality} items of the largest size"),
            modality=profile.modality,
        )
    tokens = profile.embedding_tokens or profile.profiled_tokens
    return counted(tokens, mark("{count} image token"), mark("{count} image tokens")) if tokens else None


def encoder(crash: Crash) -> str:
    """The vision or audio encoder, at the head of a sentence."""
    profile = _profile(crash)
    known = _ENCODERS.get(profile.modality or "") if profile is not None else None
    return translated(known) if known else say("The vision or audio encoder")


def profiling(crash: Crash) -> str | None:
    """The encoder, where the engine was measuring what it needs."""
    return encoder(crash) if crash.stage == "memory_profiling" else None


def _profile(crash: Crash) -> EncoderProfile | None:
    root = crash.root.at
    before = [e for e in crash.every(EncoderProfile) if e.at.file == root.file and e.at.line <= root.line]
    return before[-1] if before else None


def dummies(crash: Crash) -> str | None:
    """With how many requests the engine warmed up."""
    warmup = crash.first(WarmupOutOfMemory)
    count = warmup.requests if warmup is not None else None
    return counted(count, mark("{count} dummy request"), mark("{count} dummy requests")) if count else None


def warmed(crash: Crash) -> str:
    """What it warmed up."""
    warmup = crash.first(WarmupOutOfMemory)
    return translated(_WARMED.get(warmup.what if warmup is not None else "", _WARMED["sampler"]))


def freed(crash: Crash) -> str | None:
    """What another process freed while vLLM measured."""
    size = _freed(crash.first(ProfilingDisturbed))
    return show(size) if size else None


def unchanged(crash: Crash) -> str | None:
    """What was free before and after vLLM measured, where it is the same."""
    event = crash.first(ProfilingDisturbed)
    same = event is not None and event.current_free_bytes is not None and _freed(event) == 0
    return show(event.current_free_bytes or 0) if same and event is not None else None


def _freed(event: ProfilingDisturbed | None) -> int | None:
    if event is None:
        return None
    if event.current_free_bytes is not None and event.initial_free_bytes is not None:
        return max(0, event.current_free_bytes - event.initial_free_bytes)
    if event.current_used_bytes is not None and event.initial_used_bytes is not None:
        return max(0, event.initial_used_bytes - event.current_used_bytes)
    return None


# room for the KV cache


def cache_room(crash: Crash) -> str | None:
    """What is left of the engine's share for its KV cache."""
    size = facts(crash).kv_bytes
    return show(size) if size is not None and size > 0 else None


def cache_missing(crash: Crash) -> str | None:
    """What the engine's share lacks before there is any room for its KV cache."""
    size = facts(crash).kv_bytes
    return show(-size) if size is not None and size < 0 else None


def fraction(crash: Crash) -> str | None:
    """SGLang's fraction of what was free before it loaded its weights, where its weights fill it."""
    pool = crash.first(NoPool)
    if pool is None or kv_cache.sglangs_fraction_should_do(crash) is not None:
        return None
    found = pool.fraction if pool.fraction is not None else static_fraction(crash)
    return f"{found:g}" if found is not None else None


def least_fraction(crash: Crash) -> str | None:
    """The smallest fraction that SGLang says it needs."""
    pool = crash.first(NoPool)
    return f"{pool.smallest_fraction:g}" if pool is not None and pool.smallest_fraction is not None else None


def free_before_weights(crash: Crash) -> str | None:
    """What was free before SGLang loaded its weights."""
    before = loading(crash)
    return show(before.free_before_bytes) if before is not None else None


def external_weights(crash: Crash) -> str | None:
    """Weights that another process holds for vLLM, and that are larger than its share."""
    size = max((event.external_bytes or 0 for event in crash.every(NotEnoughFree)), default=0)
    return show(size) if size else None


def sequences(crash: Crash) -> str | None:
    """How many sequences may run, of layers that keep a state of each."""
    state = crash.first(SequencesExceedState)
    return counted(state.max_num_seqs, *_SEQUENCES) if state is not None and state.max_num_seqs else None


def states(crash: Crash) -> str | None:
    """How many of these states there is room for."""
    state = crash.first(SequencesExceedState)
    return str(state.state_blocks) if state is not None and state.state_blocks is not None else None


# one request


def length(crash: Crash) -> str | None:
    """The configured context."""
    short = kv_cache.too_long(crash)
    count = short.max_model_len if short is not None else facts(crash).max_model_len
    return counted(count, *_TOKENS) if count else None


def cache_needed(crash: Crash) -> str | None:
    """The KV cache that one request of this length needs."""
    short = kv_cache.too_long(crash)
    return show(short.needed_bytes) if short is not None and short.needed_bytes else None


def cache_there(crash: Crash) -> str | None:
    """The KV cache that there is, where it is less."""
    short = kv_cache.too_long(crash)
    if short is None or short.kv_bytes is None or short.kv_bytes >= (short.needed_bytes or 0):
        return None
    return show(short.kv_bytes) if show(short.kv_bytes) != show(short.needed_bytes or 0) else None


def cache_tokens(crash: Crash) -> str | None:
    """The tokens that fit into the KV cache, where they are fewer than the context."""
    short = kv_cache.too_long(crash)
    count = kv_cache.longest(short) if short is not None else None
    if count is None or short is None or count >= (short.max_model_len or count + 1):
        return None
    return counted(count, *_TOKENS)


def needed(crash: Crash) -> str | None:
    """What a message in other words says was needed, of what it counts."""
    pair = _counts(crash)
    return _of_unit(crash, pair[0]) if pair is not None else None


def tokens_needed(crash: Crash) -> str | None:
    """The same in tokens, where the message speaks of them."""
    pair = _counts(crash)
    speaks = "token" in crash.root.at.text.lower()
    return counted(pair[0], *_TOKENS) if pair is not None and speaks else None


def available(crash: Crash) -> str | None:
    """What it says was there, where that is less."""
    pair = _counts(crash)
    return f"{pair[1]:,}" if pair is not None else None


def _counts(crash: Crash) -> tuple[int, int] | None:
    """Both numbers, where they stand in the message as they are: "16,32" is not 1632."""
    root = crash.root
    if not isinstance(root, Shortage) or root.needed is None or root.available is None:
        return None
    printed = all(re.search(rf"(?<![\d.,]){n}(?!\d|[.,]\d)", root.at.text) for n in (root.needed, root.available))
    return (root.needed, root.available) if printed and root.needed > root.available else None


def _of_unit(crash: Crash, count: int) -> str:
    unit = crash.root.unit if isinstance(crash.root, Shortage) else None
    if unit == "tokens":
        return counted(count, *_TOKENS)
    return counted(count, *_GPUS) if unit == "devices" else f"{count}"


# the pool while serving


def batch(crash: Crash) -> str | None:
    """The batch that found SGLang's pool empty, at the head of a sentence."""
    pool = crash.first(PoolExhausted)
    return translated(_BATCHES.get(pool.batch or "", mark("A batch"))) if pool is not None else None


def batch_tokens(crash: Crash) -> str | None:
    """The tokens that it needed."""
    pool = crash.first(PoolExhausted)
    return counted(pool.tried_tokens, *_TOKENS) if pool is not None and pool.tried_tokens else None


def tokens_free(crash: Crash) -> str | None:
    """The tokens that were free, where they were fewer."""
    pool = crash.first(PoolExhausted)
    if pool is None or pool.free_tokens is None or pool.free_tokens >= (pool.tried_tokens or 0):
        return None
    return f"{pool.free_tokens:,}"


def tokens_plenty(crash: Crash) -> str | None:
    """The tokens that were free, where they were enough."""
    pool = crash.first(PoolExhausted)
    if pool is None or pool.free_tokens is None or not pool.tried_tokens or pool.free_tokens < pool.tried_tokens:
        return None
    return f"{pool.free_tokens:,}"


def window_free(crash: Crash) -> str | None:
    """The tokens that were free in the pool of the layers with a sliding window, where they were fewer."""
    pool = crash.first(PoolExhausted)
    if kv_pool.fewer_tokens_of_the_window(crash) is None or pool is None:
        return None
    return f"{pool.window_free_tokens or 0:,}"


def no_states(crash: Crash) -> str | None:
    """The engine, where it has no state of the Mamba layers left."""
    seen = kv_pool.no_states_for_requests(crash) or kv_pool.no_state_beside_the_tokens(crash)
    return engine_first(crash) if seen is not None else None


def tried_requests(crash: Crash) -> str | None:
    """How many requests SGLang was to take in."""
    pool = crash.first(PoolExhausted)
    return counted(pool.tried_requests, *_REQUESTS) if pool is not None and pool.tried_requests else None


def free_requests(crash: Crash) -> str | None:
    """How many places for them there were, where they were fewer."""
    pool = crash.first(PoolExhausted)
    if pool is None or pool.free_requests is None or pool.free_requests >= (pool.tried_requests or 0):
        return None
    return str(pool.free_requests)


def swap_full(crash: Crash) -> str | None:
    """vLLM, where its swap space is full, too."""
    return engine_first(crash) if crash.first(SwapSpaceExhausted) is not None else None


def full_context(crash: Crash) -> str | None:
    """llama.cpp, where all sequences together fill its context."""
    return engine_first(crash) if kv_pool.context_of_all_sequences_is_full(crash) is not None else None


def no_block(crash: Crash) -> str | None:
    """The engine, where its KV cache has no free block left."""
    return engine_first(crash) if kv_pool.no_free_block(crash) is not None else None


def host_buffer(crash: Crash) -> str | None:
    """LMCache, where its buffer on the host is full."""
    return "LMCache" if isinstance(crash.root, BufferFull) else None


def in_encoder(crash: Crash) -> str | None:
    """The encoder, where it served a request."""
    return encoder(crash) if engine_steps.serving_an_encoder(crash) is not None else None


# GPUs that a process may see


def gpus_wanted(crash: Crash) -> str | None:
    """How many GPUs were requested, where fewer are visible."""
    seen = crash.first(GpuVisibility)
    if seen is None or seen.asked is None or seen.visible is None or seen.asked <= seen.visible:
        return None
    return counted(seen.asked, *_GPUS)


def gpus_visible(crash: Crash) -> str | None:
    """How many of them the process may see."""
    seen = crash.first(GpuVisibility)
    return str(seen.visible) if seen is not None and seen.visible is not None else None


def visible_mask(crash: Crash) -> str | None:
    """CUDA_VISIBLE_DEVICES as printed."""
    seen = crash.first(GpuVisibility)
    return f"CUDA_VISIBLE_DEVICES={seen.mask}" if seen is not None and seen.mask else None


def ordinal(crash: Crash) -> str | None:
    """The GPU that the process asks for and may not see."""
    seen = crash.first(GpuVisibility)
    if seen is None or seen.problem != "invalid-ordinal":
        return None
    return say("GPU {number}", number=seen.ordinal) if seen.ordinal is not None else say("a GPU")


def sees_none(crash: Crash) -> str | None:
    """The process that finds no GPU at all."""
    seen = crash.first(GpuVisibility)
    if seen is None or seen.problem in ("more-than-visible", "invalid-ordinal"):
        return None
    ray = "ray::" in " ".join(crash.root.around.before) or "ray" in crash.context.frameworks
    return say("the Ray worker") if ray else say("the process")


def ray_told(crash: Crash) -> str | None:
    """How many GPUs Ray was started with, where it counts fewer."""
    started, status = crash.first(ClusterStarted), crash.first(ClusterStatus)
    told = started.num_gpus if started is not None else None
    has = (status.total or {}).get("GPU", 0.0) if status is not None else None
    return counted(int(told), *_GPUS) if told is not None and has is not None and has < told else None


def ray_wanted(crash: Crash) -> str | None:
    """How many GPUs a request waits for, where Ray counts fewer."""
    status = crash.first(ClusterStatus)
    wants = ((r.requested or {}).get("GPU", 0.0) * (r.count or 1) for r in crash.every(Unschedulable))
    most = max(wants, default=0.0)
    has = (status.total or {}).get("GPU", 0.0) if status is not None else None
    return say("{count:g} GPUs", count=most) if has is not None and has < most and most > 1 else None


def ray_counts(crash: Crash) -> str | None:
    """How many GPUs Ray counts."""
    status = crash.first(ClusterStatus)
    return f"{(status.total or {}).get('GPU', 0.0):g}" if status is not None else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        available, batch, batch_tokens, beside_engine, cache_before, cache_fraction, cache_missing, cache_needed,
        cache_room,
        cache_there, cache_tokens, dummies, encoder, engine, engine_first, engine_within, external_weights,
        fraction, free_before, free_before_weights, free_requests, freed, full_context, gpus_visible,
        gpus_wanted, graph_pools, host_buffer, in_encoder, least_fraction, left_by_weights, left_of, length,
        needed, no_block, no_states, no_weights, ordinal, profiled, profiling, ray_counts, ray_told, ray_wanted,
        reserved, sees_none, sequences, server, share, states, swap_full, tokens_free, tokens_needed,
        tokens_plenty, tried_requests, unchanged, visible_mask, waking, wanted, warmed, warmup_tokens, weights,
        window_free,
    )
}  # fmt: skip
