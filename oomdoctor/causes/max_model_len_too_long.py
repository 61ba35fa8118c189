"""One request of the configured length needs more KV cache than there is."""

from __future__ import annotations

from oomdoctor.arithmetic import vllm
from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.tensorrt_llm import CacheTooSmall
from oomdoctor.families.vllm_error import ContextDoesNotFit, NoCacheBlocks
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show


def judge(crash: Crash) -> Judgement | None:
    refused = crash.every(ContextDoesNotFit)
    small = crash.first(CacheTooSmall)
    if small is not None and small.said == "one-sequence":
        return Finding(
            weight=0.75,
            why=say(
                "The KV cache has fewer blocks than one sequence of the length that the engine was built for needs."
            ),
            evidence=(small,),
        )
    if not refused:
        if crash.first(NoCacheBlocks):
            return RuledOut(say("not one block of KV cache fits, so a shorter context alone gains nothing"))
        return None
    tightest = min(refused, key=_room)
    longest = longest_of(tightest)
    if longest is None:
        return RuledOut(say("there is no KV cache at all, so no context is short enough"))
    return Finding(
        weight=0.95,
        why=joined((_compared(tightest), say("A context of up to {longest:,} tokens fits.", longest=longest))),
        evidence=(tightest,),
    )


def _room(refused: ContextDoesNotFit) -> int:
    return refused.kv_bytes if refused.kv_bytes is not None else refused.kv_tokens or 0


def longest_of(refused: ContextDoesNotFit) -> int | None:
    """V0 says how many tokens fit; V1 estimates it, or it follows from what is needed and what there is."""
    if refused.kv_tokens is not None:
        return refused.kv_tokens or None
    if refused.max_model_len is None or refused.needed_bytes is None or refused.kv_bytes is None:
        return refused.estimated_tokens
    return vllm.longest_context(refused.max_model_len, refused.needed_bytes, refused.kv_bytes, refused.estimated_tokens)


def _compared(refused: ContextDoesNotFit) -> str:
    length = (
        say("{max_model_len:,} tokens", max_model_len=refused.max_model_len)
        if refused.max_model_len is not None
        else say("the full length")
    )
    if refused.kv_tokens is not None:
        return say(
            "The KV cache holds {kv_tokens:,} tokens, and one request may have {length}.",
            kv_tokens=refused.kv_tokens,
            length=length,
        )
    if refused.needed_bytes is None or refused.kv_bytes is None:
        return say("One request of {length} needs more KV cache than there is.", length=length)
    return say(
        "One request of {length} needs {needed} of KV cache, and there is {kv}.",
        length=length,
        needed=show(refused.needed_bytes),
        kv=show(refused.kv_bytes),
    )


CAUSE = Cause(
    id="max-model-len-too-long",
    title=mark("The configured context is longer than the KV cache there is"),
    pools=("kv_cache", "gpu"),
    knobs=("shorter-context", "raise-engine-reservation", "quantize-kv-cache", "tensor-parallel", "quantize-weights"),
    rule=judge,
)
