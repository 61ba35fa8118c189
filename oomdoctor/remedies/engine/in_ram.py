"""vLLM on a CPU: its cache lies in RAM, and a variable says how large it is, in GiB."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.families.vllm_error import ContextDoesNotFit
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Proposal
from oomdoctor.signs.host_engines import on_the_processor
from oomdoctor.units import GIB, show

_VARIABLE: Final = "VLLM_CPU_KVCACHE_SPACE"
# vllm/platforms/cpu.py to 0.12 says so where it is not set; later releases take a share of the RAM (#29604)
_BY_DEFAULT: Final = rf"\b{_VARIABLE} \(GiB\) for CPU backend is not set, using (?:4|4\.0) by default"
_DEFAULT: Final = 4


def larger_cache(crash: Crash) -> Proposal | None:
    """As large as one request needs, by vLLM's own figures."""
    if not on_the_processor(crash):
        return None
    stated = crash.setting(_VARIABLE)
    now = stated.number if stated is not None else _DEFAULT if crash.mentions(_BY_DEFAULT) is not None else None
    found = _needed(crash.first(ContextDoesNotFit), now)
    return Proposal(
        action=say("Give the KV cache more of the RAM: this engine runs on a CPU"),
        setting=_VARIABLE,
        current=now,
        suggested=found[0] if found is not None else None,
        snippet=f"export {_VARIABLE}={found[0]}" if found is not None else None,
        derivation=found[1] if found is not None else None,
        cost=say("host RAM"),
    )


def _needed(refused: ContextDoesNotFit | None, now: float | None) -> tuple[int, str] | None:
    """In whole GiB, and by which figures."""
    if refused is None:
        return None
    if refused.needed_bytes is not None:
        return math.ceil(refused.needed_bytes / GIB), say("{amount}, rounded up", amount=show(refused.needed_bytes))
    if not refused.kv_tokens or not refused.max_model_len or not now:
        return None
    gib = now * refused.max_model_len / refused.kv_tokens
    formula = f"{now:g} GiB x {refused.max_model_len} / {refused.kv_tokens} = {gib:.2f} GiB"
    return math.ceil(gib), say("{formula}, rounded up", formula=formula)
