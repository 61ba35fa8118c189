"""Engines that were measuring with their largest batch when memory ran out, and say so."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import asked, card
from oomdoctor.units import percent, show

OF_THE_CACHE: Final = "kv_cache"
WEIGHTS_FILL: Final = 0.85  # of the card in live tensors while a warm-up batch runs: few of them are the batch's


@sign
def warm_up_short(crash: Crash) -> Seen | None:
    """TGI's warm-up batch did not fit. TGI prints this message whatever fills the GPU."""
    warmup = _of_the_batch(crash)
    if warmup is None:
        return None
    words = (
        say(
            "The engine warms up with the largest batch that its settings allow ({tokens:,} prefill tokens), "
            "before it allocates its KV cache: {asked}.",
            tokens=warmup.of_prefill,
            asked=asked(card(crash)),
        )
        if warmup.of_prefill
        else say(
            "The engine warms up with the largest batch that its settings allow, before it allocates its KV "
            "cache: {asked}.",
            asked=asked(card(crash)),
        )
    )
    against = (say("the engine prints this message whatever fills the GPU"),)
    return Seen(words=words, evidence=(warmup,), against=against)


@sign
def no_room_for_the_largest_batch(crash: Crash) -> Seen | None:
    """TensorRT-LLM had loaded the weights and failed while setting up its largest batch."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage not in ("memory_profiling", "engine_init"):
        return None
    return Seen(
        words=say("The weights were loaded, but the buffers for the engine's largest batch of tokens did not fit."),
        evidence=(failed,),
    )


@sign
def weights_there_in_the_warm_up(crash: Crash) -> Seen | None:
    """Tensors take 85 % of the GPU in TGI's warm-up, before any KV cache; its batch is a small part of them."""
    warmup, it = _of_the_batch(crash), card(crash)
    share = it.share(it.allocated_bytes)
    if warmup is None or share is None or share < WEIGHTS_FILL:
        return None
    words = say(
        "Tensors took {allocated} ({share} of the GPU) in the warm-up, before any KV cache. They are the "
        "weights, whatever the message advises.",
        allocated=show(it.allocated_bytes or 0),
        share=percent(share),
    )
    return Seen(words=words, evidence=(warmup,))


@sign
def warm_up_after_loading(crash: Crash) -> Seen | None:
    """TGI's warm-up batch did not fit beside weights that may fill the GPU."""
    warmup = _of_the_batch(crash)
    if warmup is None:
        return None
    words = say("The warm-up runs after the weights are loaded. If they fill the GPU, any batch is too large.")
    return Seen(words=words, evidence=(warmup,))


@sign
def longest_request_exceeds_tgis_cache(crash: Crash) -> Seen | None:
    """TGI's router compares the cache that the warm-up left with the longest request that may come."""
    short = crash.first(WarmupShort)
    if short is None or short.pool != OF_THE_CACHE:
        return None
    words = (
        say(
            "The KV cache that the warm-up left holds fewer than the {tokens:,} tokens that one request may have.",
            tokens=short.total_tokens,
        )
        if short.total_tokens
        else say("The KV cache that the warm-up left holds fewer tokens than one request may have.")
    )
    return Seen(words=words, evidence=(short,), pool=OF_THE_CACHE)


def _of_the_batch(crash: Crash) -> WarmupShort | None:
    short = crash.first(WarmupShort)
    return short if short is not None and short.pool != OF_THE_CACHE else None
