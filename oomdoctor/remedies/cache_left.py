"""What one request of the longest context leaves of an engine's KV cache: no more may a lower share take from it."""

from __future__ import annotations

from msgspec import Struct

from oomdoctor.arithmetic import kv_cache
from oomdoctor.families.vllm_figures import KvCacheSize
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.units import show


class Spare(Struct, frozen=True):
    bytes: int
    told: str


def spare(crash: Crash) -> Spare | None:
    """By the size of the cache in bytes and in tokens, which vLLM prints one after the other."""
    sizes = crash.every(KvCacheSize)
    room = next((each.kv_bytes for each in reversed(sizes) if each.kv_bytes), None)
    tokens = next((each.tokens for each in reversed(sizes) if each.tokens), None)
    length = facts(crash).max_model_len
    if room is None or tokens is None or length is None or not 0 < length <= tokens or room <= 0:
        return None
    left = max(0, room - kv_cache.need(room / tokens, length))
    told = say(
        "{left} of the KV cache can go ({room} - {room} x {length} / {tokens} tokens); beyond that the context length "
        "has to be lowered, too",
        left=show(left), room=show(room), length=length, tokens=tokens,
    )  # fmt: skip
    return Spare(left, told)


__all__ = ["Spare", "spare"]
