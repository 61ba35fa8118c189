"""Slots about an inference engine, its share of the GPU and its KV cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.sglang import NoPool, PoolExhausted
from oomdoctor.families.tensorrt_llm import CreationFailed, EngineFigures
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_error import (
    ContextDoesNotFit,
    NotEnoughFree,
    ProfilingDisturbed,
    SequencesExceedState,
    SwapSpaceExhausted,
    WarmupOutOfMemory,
)
from oomdoctor.families.vllm_figures import EncoderProfile, WeightsLoaded
from oomdoctor.families.vllm_rs import PromptRefused
from oomdoctor.incident.engine_facts import EngineFacts, Loading, facts, loading, phase, takes_its_pool
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among, outside_pytorch
from oomdoctor.language import counted, mark, say, translated
from oomdoctor.report.headline.card import start
from oomdoctor.report.headline.figures import GPUS, TOKENS, shown
from oomdoctor.report.headline.names import title, with_pid
from oomdoctor.report.headline.slot import about, first, root, where
from oomdoctor.signs import engine as engine_share
from oomdoctor.signs import engine_steps, kv_cache, kv_pool
from oomdoctor.signs import loading as weights_on_their_way
from oomdoctor.signs.generation import cache_of_a_generation_was_refused
from oomdoctor.signs.ggml import computed_after, size_of_the_warm_up
from oomdoctor.signs.neighbours import a_server_woke_to_less
from oomdoctor.units import show

LONG: Final = 40  # characters: a name that is longer is none for a headline
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


@about(computed_after)
def cache_before(size: int) -> str | None:
    """The KV cache that llama.cpp had allocated before a computation ran out of memory."""
    return show(size)


# its share


def share(crash: Crash) -> str | None:
    """The share of the GPU that vLLM takes, as set or printed."""
    found = facts(crash).share
    refusal = start(crash)
    if refusal is not None and refusal.utilization is not None:
        found = refusal.utilization
    return f"{found:g}" if found else None


@about(start)
def wanted(refusal: NotEnoughFree) -> str | None:
    """What that share comes to, where less was free when vLLM started."""
    size = refusal.requested_bytes
    return shown(size) if (size or 0) > (refusal.free_bytes or 0) else None


@about(facts)
def reserved(known: EngineFacts) -> str | None:
    """What the share comes to."""
    return shown(known.reserved_bytes)


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
    return with_pid(process.name, process.pid)


@where(engine_share.graphs_on_a_full_card)
@about(root(DeviceOutOfMemory))
def graph_pools(event: DeviceOutOfMemory) -> str | None:
    """What lies in private pools of CUDA graphs, where nothing else shows an engine."""
    return show(event.private_pools_bytes or 0)


@where(engine_share.no_room_beside_the_weights)
def beside_weights(crash: Crash) -> str:
    """The engine, where its weights left too little for the rest of it."""
    return engine_first(crash)


@where(engine_share.an_engine_outside_pytorch)
def apart_from_pytorch(crash: Crash) -> str | None:
    """The engine that holds its memory outside PyTorch."""
    engine = outside_pytorch(crash.context.frameworks)
    return engine.title if engine is not None else None


def waking(crash: Crash) -> str | None:
    """The engine, where it took its memory back."""
    if engine_share.memory_saver_of_nobody_named(crash) is not None:
        return "torch_memory_saver"
    woken = (phase(crash) == "waking" and not takes_its_pool(crash)) or a_server_woke_to_less(crash) is not None
    return engine_first(crash) if woken else None


def pool_taker(crash: Crash) -> str | None:
    """The engine, where the pool of its sleep mode was refused, at its load or at its wake-up."""
    return engine_first(crash) if takes_its_pool(crash) else None


def cache_fraction(crash: Crash) -> str | None:
    """TensorRT-LLM's fraction of what is free, for its KV cache."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage != "kv_cache_init":
        return None
    found = [event.fraction for event in crash.every(EngineFigures) if event.fraction is not None]
    return f"{found[-1]:g}" if found else None


@about(first(CreationFailed))
def free_before(failed: CreationFailed) -> str | None:
    """What was free before TensorRT-LLM's attempt."""
    return show(failed.free_bytes) if failed.free_bytes is not None else None


@where(weights_on_their_way.executors_weights_fill_the_card)
def left_by_weights(crash: Crash) -> str | None:
    """What TensorRT-LLM's weights left free, where that was hardly any."""
    return free_before(crash)


@about(first(CreationFailed))
def left_of(failed: CreationFailed) -> str | None:
    """The memory of that GPU."""
    return shown(failed.total_bytes)


# what it was doing


def weights(crash: Crash) -> str | None:
    """What the engine's weights take."""
    before = loading(crash)
    return shown(facts(crash).weights_bytes or (before.weights_bytes if before is not None else None))


def no_weights(crash: Crash) -> str | None:
    """The engine, where its weights took nothing on the GPU that it looks at."""
    empty = any(event.weights_bytes == 0 for event in crash.every(WeightsLoaded))
    return engine_first(crash) if empty else None


@about(first(WarmupShort))
def warmup_tokens(short: WarmupShort) -> str | None:
    """The prefill tokens of TGI's warm-up batch; of a few it is the total that is too many."""
    return _count(max(short.prefill_tokens or 0, short.total_tokens or 0), TOKENS)


@about(engine_steps.announcement)
def profiled(profile: EncoderProfile) -> str | None:
    """With how many items the encoder is profiled."""
    if profile.items is not None and profile.modality:
        return counted(
            profile.items,
            mark("{count} {modality} item of the largest size"),
            mark("{count} {modality} items of the largest size"),
            modality=profile.modality,
        )
    tokens = profile.embedding_tokens or profile.profiled_tokens
    return _count(tokens, (mark("{count} image token"), mark("{count} image tokens")))


def encoder(crash: Crash) -> str:
    """The vision or audio encoder, at the head of a sentence."""
    profile = engine_steps.announcement(crash)
    known = _ENCODERS.get(profile.modality or "") if profile is not None else None
    return translated(known) if known else say("The vision or audio encoder")


def local_program(crash: Crash) -> str | None:
    """The program without a share of the GPU that was refused its KV cache."""
    seen = kv_cache.cache_beside_all_weights_was_refused(crash)
    names = (one for one in among(crash.job.frameworks) if "takes what it needs" in one.traits)
    return next(names).title if seen is not None else None


def warm_up_image(crash: Crash) -> str | None:
    """The size of the image with which llama.cpp warms its vision encoder up."""
    return size_of_the_warm_up(crash)


def profiling(crash: Crash) -> str | None:
    """The encoder, where the engine was measuring what it needs."""
    return encoder(crash) if crash.stage == "memory_profiling" else None


@about(first(WarmupOutOfMemory))
def dummies(warmup: WarmupOutOfMemory) -> str | None:
    """With how many requests the engine warmed up."""
    return _count(warmup.requests, (mark("{count} dummy request"), mark("{count} dummy requests")))


def warmed(crash: Crash) -> str:
    """What it warmed up."""
    warmup = crash.first(WarmupOutOfMemory)
    return translated(_WARMED.get(warmup.what if warmup is not None else "", _WARMED["sampler"]))


@about(first(ProfilingDisturbed))
def freed(event: ProfilingDisturbed) -> str | None:
    """What another process freed while vLLM measured."""
    return shown(engine_steps.freed_bytes(event))


@about(first(ProfilingDisturbed))
def unchanged(event: ProfilingDisturbed) -> str | None:
    """What was free before and after vLLM measured, where it is the same."""
    if event.current_free_bytes is None or engine_steps.freed_bytes(event) != 0:
        return None
    return show(event.current_free_bytes)


# room for the KV cache


def grown_cache(crash: Crash) -> str | None:
    """The cache of a generation without an engine, where its next step was refused."""
    return say("The KV cache of the generation") if cache_of_a_generation_was_refused(crash) is not None else None


@about(facts)
def cache_room(known: EngineFacts) -> str | None:
    """What is left of the engine's share for its KV cache."""
    return shown(known.kv_bytes)


@about(facts)
def cache_missing(known: EngineFacts) -> str | None:
    """What the engine's share lacks before there is any room for its KV cache."""
    return shown(-known.kv_bytes) if known.kv_bytes is not None else None


def fraction(crash: Crash) -> str | None:
    """SGLang's fraction of what was free before it loaded its weights, where its weights fill it."""
    pool = crash.first(NoPool)
    if pool is None or kv_cache.sglangs_fraction_should_do(crash) is not None:
        return None
    found = kv_cache.sglangs_fraction(crash, pool)
    return f"{found:g}" if found is not None else None


def without_a_pool(crash: Crash) -> str | None:
    """SGLang, where nothing of what was free before loading is left for its pool."""
    return engine_first(crash) if crash.first(NoPool) is not None else None


@about(loading)
def free_before_weights(before: Loading) -> str | None:
    """What was free before SGLang loaded its weights."""
    return show(before.free_before_bytes)


def external_weights(crash: Crash) -> str | None:
    """Weights that another process holds for vLLM, and that are larger than its share."""
    return shown(max((event.external_bytes or 0 for event in crash.every(NotEnoughFree)), default=0))


@about(first(SequencesExceedState))
def sequences(state: SequencesExceedState) -> str | None:
    """How many sequences may run, of layers that keep a state of each."""
    return _count(state.max_num_seqs, _SEQUENCES)


@about(first(SequencesExceedState))
def states(state: SequencesExceedState) -> str | None:
    """How many of these states there is room for."""
    return str(state.state_blocks) if state.state_blocks is not None else None


# one request


def length(crash: Crash) -> str | None:
    """The configured context."""
    return _count((kv_cache.too_long(crash) or facts(crash)).max_model_len, TOKENS)


@about(kv_cache.too_long)
def cache_needed(short: ContextDoesNotFit) -> str | None:
    """The KV cache that one request of this length needs."""
    return shown(short.needed_bytes)


@about(kv_cache.too_long)
def cache_there(short: ContextDoesNotFit) -> str | None:
    """The KV cache that there is, where it is less."""
    if short.kv_bytes is None or short.kv_bytes >= (short.needed_bytes or 0):
        return None
    return show(short.kv_bytes) if show(short.kv_bytes) != show(short.needed_bytes or 0) else None


@about(kv_cache.too_long)
def cache_tokens(short: ContextDoesNotFit) -> str | None:
    """The tokens that fit into the KV cache, where they are fewer than the context."""
    count = kv_cache.longest(short)
    if count is None or count >= (short.max_model_len or count + 1):
        return None
    return counted(count, *TOKENS)


def _counts(crash: Crash) -> tuple[int, int] | None:
    """What a message in other words says was needed and was there, where it prints both: "16,32" is not 1632."""
    event = crash.root
    if not isinstance(event, Shortage) or event.needed is None or event.available is None:
        return None
    numbers = (event.needed, event.available)
    printed = all(re.search(rf"(?<![\d.,]){number}(?!\d|[.,]\d)", event.at.text) for number in numbers)
    return numbers if printed and event.needed > event.available else None


def needed(crash: Crash) -> str | None:
    """What such a message says was needed, of what it counts."""
    pair, event = _counts(crash), crash.root
    if pair is None or not isinstance(event, Shortage):
        return None
    if event.unit == "tokens":
        return counted(pair[0], *TOKENS)
    return counted(pair[0], *GPUS) if event.unit == "devices" else f"{pair[0]}"


def tokens_needed(crash: Crash) -> str | None:
    """The same in tokens, where the message speaks of them."""
    pair = _counts(crash)
    return counted(pair[0], *TOKENS) if pair is not None and "token" in crash.root.at.text.lower() else None


@about(_counts)
def available(pair: tuple[int, int]) -> str | None:
    """What it says was there, where that is less."""
    return f"{pair[1]:,}"


# the pool while serving


@about(first(PoolExhausted))
def batch(pool: PoolExhausted) -> str | None:
    """The batch that found SGLang's pool empty, at the head of a sentence."""
    return translated(_BATCHES.get(pool.batch or "", mark("A batch")))


@where(kv_pool.one_request_fills_the_pool)
def engine_of_one(crash: Crash) -> str:
    """The engine whose pool one request fills."""
    return engine_within(crash)


@about(first(PoolExhausted))
def batch_tokens(pool: PoolExhausted) -> str | None:
    """The tokens that it needed."""
    return _count(pool.tried_tokens, TOKENS)


@about(first(PoolExhausted))
def tokens_free(pool: PoolExhausted) -> str | None:
    """The tokens that were free, where they were fewer."""
    if pool.free_tokens is None or pool.free_tokens >= (pool.tried_tokens or 0):
        return None
    return f"{pool.free_tokens:,}"


@about(first(PoolExhausted))
def tokens_plenty(pool: PoolExhausted) -> str | None:
    """The tokens that were free, where they were enough."""
    if pool.free_tokens is None or not pool.tried_tokens or pool.free_tokens < pool.tried_tokens:
        return None
    return f"{pool.free_tokens:,}"


@where(kv_pool.evictable_tokens_stayed)
@about(first(PoolExhausted))
def tokens_unused(pool: PoolExhausted) -> str | None:
    """The tokens that were free before any is evicted."""
    return f"{pool.available_tokens or 0:,}"


@where(kv_pool.evictable_tokens_stayed)
@about(first(PoolExhausted))
def tokens_stayed(pool: PoolExhausted) -> str | None:
    """The tokens that count as evictable and were not evicted."""
    return f"{pool.evictable_tokens or 0:,}"


@where(kv_pool.fewer_tokens_of_the_window)
@about(first(PoolExhausted))
def window_free(pool: PoolExhausted) -> str | None:
    """The tokens that were free in the pool of the layers with a sliding window, where they were fewer."""
    return f"{pool.window_free_tokens or 0:,}"


def no_states(crash: Crash) -> str | None:
    """The engine, where it has no state of the Mamba layers left."""
    seen = kv_pool.no_states_for_requests(crash) or kv_pool.no_state_beside_the_tokens(crash)
    return engine_first(crash) if seen is not None else None


@about(first(PoolExhausted))
def tried_requests(pool: PoolExhausted) -> str | None:
    """How many requests SGLang was to take in."""
    return _count(pool.tried_requests, _REQUESTS)


@about(first(PoolExhausted))
def free_requests(pool: PoolExhausted) -> str | None:
    """How many places for them there were, where they were fewer."""
    if pool.free_requests is None or pool.free_requests >= (pool.tried_requests or 0):
        return None
    return str(pool.free_requests)


@where(first(SwapSpaceExhausted))
def swap_full(crash: Crash) -> str | None:
    """vLLM, where its swap space is full, too."""
    return engine_first(crash)


@where(kv_pool.context_of_all_sequences_is_full)
def full_context(crash: Crash) -> str | None:
    """llama.cpp, where all sequences together fill its context."""
    return engine_first(crash)


@about(kv_pool.last_prompt_refused)
def prompt_tokens(refused: PromptRefused) -> str | None:
    """What the last prompt that was refused would have taken."""
    return _count(refused.tried_tokens, TOKENS)


@about(kv_pool.last_prompt_refused)
def prompt_free(refused: PromptRefused) -> str | None:
    """What was free for it, where that is less."""
    return f"{refused.free_tokens:,}" if refused.free_tokens is not None else None


@where(kv_pool.no_free_block)
def no_block(crash: Crash) -> str | None:
    """The engine, where its KV cache has no free block left."""
    return engine_first(crash)


def _count(count: int | None, words: tuple[str, str]) -> str | None:
    return counted(count, *words) if count else None
