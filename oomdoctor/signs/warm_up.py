"""Engines that were measuring with their largest batch when memory ran out, and say so."""

from __future__ import annotations

from oomdoctor.causes.gpu import asked, card
from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign


@sign
def warm_up_short(crash: Crash) -> Seen | None:
    """TGI's warm-up batch did not fit. The message says so whatever fills the card."""
    warmup = crash.first(WarmupShort)
    if warmup is None:
        return None
    words = (
        say(
            "The engine warms up with the largest batch that its settings let in of {tokens:,} "
            "prefill tokens, before it takes its KV cache: {asked}.",
            tokens=warmup.prefill_tokens,
            asked=asked(card(crash)),
        )
        if warmup.prefill_tokens
        else say(
            "The engine warms up with the largest batch that its settings let in, before it takes "
            "its KV cache: {asked}.",
            asked=asked(card(crash)),
        )
    )
    against = (say("the message says so whatever fills the card"),)
    return Seen(words=words, evidence=(warmup,), against=against)


@sign
def no_room_for_the_largest_batch(crash: Crash) -> Seen | None:
    """TensorRT-LLM had loaded the weights, and failed at what it sets up for its largest batch."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage not in ("memory_profiling", "engine_init"):
        return None
    return Seen(
        words=say("The weights were loaded; what the engine sets up for its largest batch of tokens found no room."),
        evidence=(failed,),
    )
