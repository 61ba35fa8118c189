"""The KV pool of a serving engine: which part of it a batch found empty."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.llama_cpp import ContextFull
from oomdoctor.families.lmcache import BufferFull
from oomdoctor.families.lmdeploy import CacheFull
from oomdoctor.families.sglang import PoolExhausted
from oomdoctor.families.tensorrt_llm import CacheTooSmall
from oomdoctor.families.vllm_error import SwapSpaceExhausted
from oomdoctor.families.vllm_pressure import Preemption
from oomdoctor.families.vllm_rs import CacheUsage, PromptRefused
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import TOKENS_OF_SGLANG
from oomdoctor.signs.kv_cache import on_the_card
from oomdoctor.units import percent, show

# SGLang's statistics of a batch: managers/scheduler_metrics_mixin.py
_TOKENS_IN_USE: Final = late(r"\btoken usage: (?P<share>\d\.\d{1,3})\b")
MANY: Final = 0.5  # of the tokens: with fewer in use, slots and not tokens ran out
_AN_ERROR: Final = late(r"\b[A-Z]\w{0,60}(?:Error|Exception)\b")


@sign
def no_places_for_requests(crash: Crash) -> Seen | None:
    """SGLang has no slots for running requests: on a hybrid model each request also needs a Mamba state."""
    pool = _pool(crash, "requests")
    if pool is None:
        return None
    taken_in = say("The engine accepted more requests than it has slots for.")
    if pool.tried_requests is None or pool.free_requests is None:
        return Seen(words=taken_in, evidence=(pool,))
    figures = say("New requests: {tried}; free slots: {free}.", tried=pool.tried_requests, free=pool.free_requests)
    doubt = say("request slots were left: on a hybrid model the Mamba states ran out")
    against = (doubt,) if pool.free_requests >= pool.tried_requests else ()
    return Seen(words=joined((taken_in, figures)), evidence=(pool,), against=against)


@sign
def no_places_although_tokens_are_free(crash: Crash) -> Seen | None:
    """The same, and less than half of the tokens were in use at the print that is nearest. The pool has as many slots
    as requests may run (model_executor/model_runner.py, `ReqToTokenPool(size=max_num_reqs, ...)`): not of the tokens'
    memory, and fewer where the option says fewer."""
    pool, line = _pool(crash, "requests"), crash.mentions(_TOKENS_IN_USE.pattern)
    found = _TOKENS_IN_USE.search(line) if line is not None else None
    slots = no_places_for_requests(crash)
    if pool is None or found is None or slots is None or slots.against or float(found["share"]) >= MANY:
        return None
    room = say("The KV cache has room: its token usage was {share}.", share=found["share"])
    doubt = say("slots that are not given back run out however many there are")
    return Seen(words=joined((slots.words, room)), evidence=slots.evidence, against=(doubt,))


@sign
def no_states_for_requests(crash: Crash) -> Seen | None:
    """SGLang has no Mamba state left; each running request needs one."""
    pool = _pool(crash, "states")
    if pool is None:
        return None
    left = say("Free states: {count}.", count=pool.available_states) if pool.available_states is not None else ""
    words = joined((say("Each running request needs a Mamba state, and the pool of these states ran out."), left))
    return Seen(words=words, evidence=(pool,))


@sign
def fewer_tokens_than_needed(crash: Crash) -> Seen | None:
    """A batch needs more of SGLang's tokens than are available or evictable, or the log does not say how many."""
    pool = _pool(crash, "tokens")
    if pool is None:
        return None
    tried, free = pool.tried_tokens, pool.free_tokens
    if tried is None or free is None:
        return _too_few_by_the_error_alone(pool)
    if free < tried:
        words = say(
            "{batch} needed {tried} tokens of the KV pool; {free} were available.",
            batch=_batch(pool),
            tried=f"{tried:,}",
            free=f"{free:,}",
        )
    else:
        return None
    return Seen(words=words, evidence=(pool,))


def _too_few_by_the_error_alone(pool: PoolExhausted) -> Seen:
    """SGLang raises it where it found too few tokens, also of those that can be evicted."""
    return Seen(
        words=say("{batch} found too few free tokens in the KV pool.", batch=_batch(pool)),
        evidence=(pool,),
        against=(say("the log does not show how many tokens were requested and available"),),
        next_evidence=(TOKENS_OF_SGLANG,),
    )


@sign
def one_request_fills_the_pool(crash: Crash) -> Seen | None:
    """SGLang took back all requests but one, and that one finds no token to go on."""
    pool = _pool(crash, "tokens")
    if pool is None or pool.left_requests != 1:
        return None
    words = say("Only one request was left, and the engine's KV cache had no token free for it.")
    return Seen(words=words, evidence=(pool,))


@sign
def fewer_tokens_of_the_window(crash: Crash) -> Seen | None:
    """SGLang's pool of the sliding-window layers has fewer tokens than a batch needs."""
    pool = _pool(crash, "tokens")
    window = pool.window_free_tokens if pool is not None else None
    if pool is None or window is None or window >= (pool.tried_tokens or 0):
        return None
    words = say(
        "{batch} needed {tried} tokens of the KV pool; {free} were available, but only {window:,} in the "
        "sliding-window pool, which ran out.",
        window=window,
        **_figures(pool),
    )
    return Seen(words=words, evidence=(pool,))


@sign
def no_state_beside_the_tokens(crash: Crash) -> Seen | None:
    """SGLang had tokens for a batch, but no slot for a Mamba state."""
    pool = _pool(crash, "tokens")
    if pool is None or pool.free_states != 0:
        return None
    words = say(
        "{batch} needed {tried} tokens of the KV pool; {free} were available, but no slot for a Mamba state: "
        "these ran out.",
        **_figures(pool),
    )
    return Seen(words=words, evidence=(pool,))


@sign
def pages_for_all_requests_of_a_decode_batch(crash: Crash) -> Seen | None:
    """SGLang decodes a token for each request and hands out pages: as many tokens as requests may be too few pages
    (mem_cache/common.py 0.5.4 and later, `alloc_paged_token_slots_decode`: "assume each request needs a new page")."""
    pool = _pool(crash, "tokens")
    if pool is None or pool.batch != "decode" or pool.tried_tokens is None or pool.free_tokens is None:
        return None
    stated = crash.setting("page_size")
    page = stated.whole if stated is not None else None
    if page is not None and page * pool.tried_tokens <= pool.free_tokens:
        return None
    figures = _figures(pool)
    if page is None:
        words = say(
            "{batch} needed {tried} tokens of the KV pool, one for each request; {free} were available. The pool is "
            "handed out in pages (page_size, not in the log), and a request whose page is full needs a whole one.",
            **figures,
        )
    else:
        words = say(
            "{batch} needed {tried} tokens of the KV pool, one for each request; {free} were available: "
            "{free} / {page} = {pages} pages. A request whose page is full needs a whole one.",
            page=page,
            pages=pool.free_tokens // page,
            **figures,
        )
    return Seen(words=words, evidence=(pool,))


@sign
def evictable_tokens_stayed(crash: Crash) -> Seen | None:
    """SGLang evicts before it allocates (python/sglang/srt/mem_cache/common.py, evict_from_tree_cache): what it still
    counts as evictable behind a failed allocation has stayed."""
    pool = _pool(crash, "tokens")
    if pool is None or pool.available_tokens is None or pool.tried_tokens is None or not pool.evictable_tokens:
        return None
    if not pool.available_tokens < pool.tried_tokens <= pool.available_tokens + pool.evictable_tokens:
        return None
    words = say(
        "{batch} needed {tried:,} tokens of the KV pool: {available:,} were free, and {evictable:,} that the engine "
        "counts as evictable were not evicted. The pool is large enough.",
        batch=_batch(pool),
        tried=pool.tried_tokens,
        available=pool.available_tokens,
        evictable=pool.evictable_tokens,
    )
    return Seen(words=words, evidence=(pool,))


@sign
def enough_tokens_by_the_count(crash: Crash) -> Seen | None:
    """SGLang counts evictable tokens as available, and failed to evict them."""
    pool = _pool(crash, "tokens")
    if pool is None:
        return None
    words = say(
        "{batch} needed {tried} tokens of the KV pool; {free} were available. Either the engine's count is "
        "wrong or the tokens could not be evicted.",
        **_figures(pool),
    )
    return Seen(words=words, evidence=(pool,))


@sign
def prompt_beside_cached_prefixes(crash: Crash) -> Seen | None:
    """A prompt does not fit into what no sequence and no cached prefix holds: releases that evict none for it."""
    refused = last_prompt_refused(crash)
    return None if refused is None or refused.evicts else _refused(crash, refused)


@sign
def prompt_beside_running_sequences(crash: Crash) -> Seen | None:
    """A prompt does not fit beside the sequences that run, and the prefixes that could be were evicted."""
    refused = last_prompt_refused(crash)
    return None if refused is None or not refused.evicts else _refused(crash, refused)


def last_prompt_refused(crash: Crash) -> PromptRefused | None:
    """The server goes on after each: the last one says how it ended."""
    return next(reversed(crash.every(PromptRefused)), None) if on_the_card(crash, PromptRefused) is not None else None


def _refused(crash: Crash, refused: PromptRefused) -> Seen:
    words = say(
        "A prompt needed {tried} tokens of the KV cache; {free} were free.",
        tried=f"{refused.tried_tokens or 0:,}",
        free=f"{refused.free_tokens or 0:,}",
    )
    return Seen(words=joined((words, _in_use(crash))), evidence=(refused,))


def _in_use(crash: Crash) -> str:
    usage = next(reversed(crash.every(CacheUsage)), None)
    if usage is None or not usage.kv_bytes or usage.used_fraction is None:
        return ""
    return say("The cache was {used} in use ({total}).", used=percent(usage.used_fraction), total=show(usage.kv_bytes))


@sign
def context_of_all_sequences_is_full(crash: Crash) -> Seen | None:
    """llama.cpp's cache has the length of the context, for all sequences together."""
    full = on_the_card(crash, ContextFull)
    if full is None:
        return None
    words = say(
        "The KV cache has the length of the context (-c) for all sequences together. It was full, so no "
        "further token could be decoded."
    )
    return Seen(words=words, evidence=(full,))


@sign
def no_free_block(crash: Crash) -> Seen | None:
    """TurboMind or TensorRT-LLM found no free block for a running request."""
    small = on_the_card(crash, CacheTooSmall)
    blocks = small if small is not None and small.said == "no-blocks" else on_the_card(crash, CacheFull)
    if blocks is None:
        return None
    words = say("The KV cache had no free block, and no running request could release one.")
    return Seen(words=words, evidence=(blocks,))


@sign
def swap_space_is_full_too(crash: Crash) -> Seen | None:
    """vLLM's cache is full, and so is the host memory for the cache of waiting sequences."""
    swapped = on_the_card(crash, SwapSpaceExhausted)
    if swapped is None:
        return None
    preemptions = max((event.preemptions or 0 for event in crash.every(Preemption)), default=0)
    pressed = say("Sequences preempted before: {count}.", count=preemptions) if preemptions else ""
    full = say(
        "The KV cache on the GPU and the host memory for waiting sequences are both full. The engine then "
        "aborts requests."
    )
    return Seen(words=joined((full, pressed)), evidence=(swapped,))


@sign
def buffer_on_the_host_is_full(crash: Crash) -> Seen | None:
    """LMCache's host buffer of fixed size had no room, and the engine failed behind it."""
    full = crash.root
    if not isinstance(full, BufferFull):
        return None
    words = (
        say(
            "LMCache's host buffer of fixed size (max_local_cpu_size) had no room for a block of {tried}; then "
            "the engine failed.",
            tried=show(full.tried_bytes),
        )
        if full.tried_bytes
        else say("LMCache's host buffer of fixed size (max_local_cpu_size) had no room; then the engine failed.")
    )
    told = any(_AN_ERROR.search(line) for line in (full.at.text, *full.around.below))
    doubt = say("the engine's own error is not in the log: LMCache alone goes on without storing the block")
    return Seen(words=words, evidence=(full,), against=() if told else (doubt,))


def _pool(crash: Crash, of: str) -> PoolExhausted | None:
    """SGLang takes requests back as long as it can; what it cannot take back kills its scheduler."""
    pool = on_the_card(crash, PoolExhausted)
    return pool if pool is not None and pool.of == of else None


def _batch(pool: PoolExhausted) -> str:
    return say("A {kind} batch", kind=pool.batch) if pool.batch else say("A batch")


def _figures(pool: PoolExhausted) -> dict[str, str]:
    return {"batch": _batch(pool), "tried": f"{pool.tried_tokens or 0:,}", "free": f"{pool.free_tokens or 0:,}"}
