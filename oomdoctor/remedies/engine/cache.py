"""What the engine keeps beside its weights: the KV cache, CUDA graphs, and memory while it sleeps."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import vllm
from oomdoctor.families.vllm_error import ContextDoesNotFit
from oomdoctor.job.frameworks import among
from oomdoctor.language import say
from oomdoctor.remedies.engine.known import engine_version, sleeps
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, already
from oomdoctor.remedies.settings import known_versions, of_knob, pin_of
from oomdoctor.units import show
from oomdoctor.versions import version_of

# The largest batch that graphs are captured for.
_CAPTURED: Final = (
    "cuda_graph_max_bs_decode",
    "cuda_graph_max_bs",
    "max_cudagraph_capture_size",
    "max_capture_size",
    "cuda_graph_sizes",
)
_FLASH_ATTENTION: Final = r"Flash Attention was auto, set to enabled|\bflash_attn\s{1,4}= (?:1|on|enabled)\b"


def sleep(case: Case) -> Answer:
    """An engine that does not sleep yet."""
    crash = case.crash
    own = next((each for each in among(crash.context.frameworks) if "sleeps by itself" in each.traits), None)
    if own is not None:
        told = say("colocated engines of {framework} free their memory by themselves", framework=own.title)
        return Refusal(told)
    if sleeps(crash):
        return Refusal(say("the engine already uses sleep mode"))
    return None


def _of_the_values_too(case: Case) -> Proposal | None:
    """llama.cpp has an option for the keys and one for the values, which needs flash attention."""
    row = case.row
    if row is None or row.setting != "-ctk" or case.crash.mentions(_FLASH_ATTENTION) is None:
        return None
    return Proposal(suggested=row.value, snippet=f"-ctk {row.value} -ctv {row.value}")


def quantize_cache(case: Case) -> Answer:
    if case.now is not None and str(case.now.value).startswith(("fp8", "int8", "q8", "q4")):
        return Refusal(say("the KV cache is already {value} ({place})", value=case.now.value, place=case.now.place))
    error = case.crash.first(ContextDoesNotFit)
    row = case.row
    if error is not None and row is not None and error.kv_tokens:
        longest = 2 * error.kv_tokens
        return Proposal(
            suggested=row.value,
            action=say("Store the KV cache in {type}: about {tokens} tokens would fit", type=row.value, tokens=longest),
            derivation=say("2 x {tokens} tokens = {longest}", tokens=error.kv_tokens, longest=longest),
        )
    if error is None or row is None or not error.needed_bytes:
        return _of_the_values_too(case) or _fixed(case)
    halved = error.needed_bytes // 2
    if error.kv_bytes is not None and halved > error.kv_bytes:
        longest = 2 * (error.estimated_tokens or 0)
        figures = {"type": row.value, "halved": show(halved), "needed": show(error.needed_bytes)}
        return Proposal(
            suggested=row.value,
            action=say(
                "Store the KV cache in {type}: {halved} instead of {needed}; about {tokens} tokens would fit",
                tokens=longest, **figures,
            )
            if longest
            else say("Store the KV cache in {type}: {halved} instead of {needed}", **figures),
            derivation=say(
                "{needed} / 2 = {halved}; {room} available",
                needed=show(error.needed_bytes), halved=show(halved), room=show(error.kv_bytes),
            ),
        )  # fmt: skip
    return Proposal(
        suggested=row.value,
        derivation=f"{show(error.needed_bytes)} / 2 = {show(halved)}",
    )


def fewer_graphs(case: Case) -> Answer:
    """Graphs that did not fit, up to a printed size: up to half of it. Without graphs altogether as the other way."""
    crash, row = case.crash, case.row
    if case.cause != "cuda-graph-capture" or row is None or crash.job.may_share:
        return None
    stated = crash.setting(*_CAPTURED)
    now = stated.whole if stated is not None else None
    if stated is None or now is None or now < 2:
        return None
    known = known_versions(row.framework, crash.context)
    rows = [one for one in of_knob(case.knob, row.framework) if one.versions.overlaps(known)]
    sizes = [one for one in rows if one.key in _CAPTURED]
    own = next((one for one in sizes if one.key == stated.name.rsplit(".", 1)[-1].replace("-", "_")), None)
    size = own or next(iter(sizes), None)
    if size is None:
        return None
    switch = next((one.setting for one in rows if one.is_switch), None)
    return Proposal(
        action=say(
            "Capture CUDA graphs for batch sizes up to {half} instead of {now}, or none ({switch})",
            half=now // 2, now=now, switch=switch,
        )
        if switch is not None
        else say(
            "Capture CUDA graphs for batch sizes up to {half} instead of {now}, or none",
            half=now // 2, now=now,
        ),
        current=now,
        suggested=now // 2,
        derivation=f"{now} / 2 = {now // 2}",
        assumes=(say("half is a first step: the graphs' sizes are not printed"),),
        setting=size.setting,
        snippet=size.snippet(now // 2),
        cost=say("slower decoding for the other batch sizes"),
    )  # fmt: skip


def _fixed(case: Case) -> Answer:
    return Proposal(suggested=case.row.value if case.row and not isinstance(case.row.value, int | float) else None)


def keep_cache(case: Case) -> Answer:
    """Only the first generation of verl, with vLLM 0.6.3, builds its caches again at every rollout."""
    version = engine_version(case.crash) or version_of(pin_of(vllm.NAME, case.crash.context))
    if version is None or version >= (0, 7):
        return Refusal(
            say("free_cache_engine is sleep mode in this verl: without it the engine never frees its GPU memory")
        )
    if case.now is not None and case.now.value is False:
        return already(case.now, False)
    return Proposal(
        action=say("Keep the engine's caches between rollouts: free_cache_engine=False"),
        suggested=False,
        assumes=(say("this fork (vLLM 0.6.3) rebuilds its caches and swap space in each rollout"),),
    )
