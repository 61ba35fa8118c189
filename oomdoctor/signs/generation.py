"""What a generation without an engine keeps: the keys and values of all sequences, one step longer each time."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import asked_for
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import innermost

# transformers/cache_utils.py (DynamicCache, StaticCache) and the code of models before it had one
_GROWS: Final = (
    r"/cache_utils\.py|\b(?:\w{1,20}Cache|past_key_values?|kv_cache|layer_past|cache)\.(?:update|append)\("
    r"|\bself\.(?:keys|values|key_cache|value_cache)\b.{0,20}=|\bcat\(\[?\(?(?:past_(?:k|v)|self\.(?:k|v)_cache|past_key|past_value)"
)
_GENERATES: Final = r"\b(?:generate|_sample|_beam_search|greedy_search|beam_search|decode|transcribe)\b"
_INNERMOST: Final = 2  # frames
# What text-generation-webui says of an answer however it ended, none counted where it was not streamed:
# modules/text_generation.py
_ANSWERED: Final = late(r"\bOutput generated in .{1,40}, ([1-9]\d{0,5}) tokens, context (\d{1,6})\b")
SHORT: Final = 1000  # tokens, of which the keys and values are small beside any model: a rule of thumb


@sign
def cache_of_a_generation_was_refused(crash: Crash) -> Seen | None:
    """The innermost frames of a generation on the CPU make its cache of keys and values one step longer."""
    if not isinstance(crash.root, HostAllocation) or crash.job.engine is not None:
        return None
    if not innermost(crash, _GROWS, _INNERMOST) or crash.in_trace(_GENERATES) is None:
        return None
    words = say(
        "The allocation that failed was for the KV cache of the generation{asked}. It grows with each new token of "
        "each sequence of the batch.",
        asked=asked_for(crash),
    )
    return Seen(words=words, evidence=(crash.root,), stage="serving" if crash.stage == "unknown" else None)


@sign
def little_was_generated(crash: Crash) -> Seen | None:
    """The program counts the tokens of the answer that failed, and they are few."""
    told = next(filter(None, map(_ANSWERED.search, crash.root.around.after)), None)
    if told is None or int(told[1]) + int(told[2]) > SHORT:
        return None
    words = say(
        "the answer that failed had {tokens} tokens behind {context} of context: what it keeps is small",
        tokens=told[1],
        context=told[2],
    )
    return Seen(words=words)


__all__ = ["cache_of_a_generation_was_refused", "little_was_generated"]
