"""Nothing of the engine's share is left for the KV cache."""

from __future__ import annotations

from oomdoctor.arithmetic import shares
from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.ollama import Short
from oomdoctor.families.sglang import NoPool
from oomdoctor.families.tensorrt_llm import CacheTooSmall
from oomdoctor.families.vllm_error import ContextDoesNotFit, NoCacheBlocks, NotEnoughFree, SequencesExceedState
from oomdoctor.families.vllm_figures import KvCacheSize, MemoryProfile
from oomdoctor.incident import engine_facts
from oomdoctor.incident.engine_facts import EngineFacts, facts
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.units import show

WITHOUT_A_LARGER_SHARE = (
    "tensor-parallel",
    "quantize-weights",
    "shorter-context",
    "smaller-prefill",
    "free-the-gpu",
    "smaller-model",
)
HEAVY_ACTIVATIONS = 0.2  # of the card: then the profiled batch is the first thing to make smaller


# llama.cpp and Ollama allocate the cache for the whole context at once, behind the weights.
_CACHES = {"kv-cache": mark("kv cache"), "state-cache": mark("state cache")}

BUFFER_KNOBS = ("shorter-context", "quantize-kv-cache", "fewer-sequences", "offload-parameters", "smaller-model")


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, BufferRefused | Short):
        return _buffer(crash, crash.root)
    if crash.pool == "host_ram":
        return None
    pool = crash.first(NoPool)
    if pool is not None:
        return _no_pool(crash, pool)
    short = crash.first(EngineShort)
    if short is not None and short.pool == "kv_cache":
        return Finding(
            weight=0.88,
            why=say(
                "The weights leave too little of the card for the engine's {cache}: its share is one "
                "of what is free once they are loaded.",
                cache=translated(_CACHES[short.what]),
            ),
            evidence=(short,),
            knobs=("quantize-weights", "tensor-parallel", "quantize-kv-cache", "free-the-gpu", "smaller-model"),
        )
    if isinstance(crash.root, NoRoom):
        return _of_mlc(crash.root)
    small = crash.first(CacheTooSmall)
    if small is not None and small.said == "one-sequence":
        return Finding(
            weight=0.6,
            why=say(
                "What is free once the engine is loaded, times the fraction for the cache, does not hold one sequence."
            ),
            evidence=(small,),
            knobs=(
                "raise-engine-reservation",
                "shorter-context",
                "quantize-weights",
                "tensor-parallel",
                "free-the-gpu",
            ),
        )
    return _of_vllm(crash)


def _buffer(crash: Crash, refused: BufferRefused | Short) -> Finding | None:
    if refused.what not in ("kv", "state"):
        return None
    lengths = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    return Finding(
        weight=0.88,
        why=_refused_by(refused.pool, refused.tried_bytes, lengths[-1] if lengths else None),
        evidence=(refused,),
        knobs=BUFFER_KNOBS,
    )


def _refused_by(pool: str | None, tried: int | None, length: int | None) -> str:
    memory = say("host memory") if pool == "host_ram" else say("the card")
    if tried and length is not None:
        return say(
            "The weights had found room; the KV cache of {tried} for a context of {length:,} "
            "tokens was refused by {memory}.",
            tried=show(tried),
            length=length,
            memory=memory,
        )
    if tried:
        return say(
            "The weights had found room; the KV cache of {tried} was refused by {memory}.",
            tried=show(tried),
            memory=memory,
        )
    if length is not None:
        return say(
            "The weights had found room; the KV cache for a context of {length:,} tokens was refused by {memory}.",
            length=length,
            memory=memory,
        )
    return say("The weights had found room; the KV cache was refused by {memory}.", memory=memory)


def _of_mlc(short: NoRoom) -> Finding | None:
    """Its share is one of the card, and weights and temporary buffers come off it."""
    room, weights, buffers = short.available_bytes, short.weights_bytes, short.buffers_bytes
    if room is None or weights is None or buffers is None:
        return None
    return Finding(
        weight=0.92 if weights <= room else 0.7,
        why=say(
            "The engine may use {room}; weights of {weights} and temporary buffers of {buffers} "
            "leave {left} for the KV cache.",
            room=show(room),
            weights=show(weights),
            buffers=show(buffers),
            left=show(room - weights - buffers),
        ),
        evidence=(short,),
    )


def _of_vllm(crash: Crash) -> Finding | None:
    known = facts(crash)
    blocks = crash.first(NoCacheBlocks)
    if blocks is not None:
        return Finding(
            weight=0.95 if known.kv_bytes is not None and known.kv_bytes <= 0 else 0.88,
            why=joined((_budget(known), say("Not one block of KV cache fits."))),
            evidence=(blocks,),
            against=_against(known),
            knobs=_knobs(known),
        )
    if isinstance(crash.root, KvCacheSize | MemoryProfile):
        return Finding(
            weight=0.85,
            why=joined((_budget(known), say("No version of this engine starts without room for one block."))),
            evidence=(crash.root,),
            against=(*_against(known), say("the log is cut before the engine's own error")),
            knobs=_knobs(known),
        )
    shared = crash.first(NotEnoughFree)
    if shared is not None and shared.external_bytes is not None:
        return _of_shared_weights(shared, shared.external_bytes)
    state = crash.first(SequencesExceedState)
    if state is not None:
        return Finding(
            weight=0.85,
            why=say(
                "Each sequence needs one block of layer state. There is room for {state_blocks}, and "
                "{max_num_seqs} sequences are asked for.",
                state_blocks=state.state_blocks,
                max_num_seqs=state.max_num_seqs,
            ),
            evidence=(state,),
            knobs=("fewer-sequences", "raise-engine-reservation", "tensor-parallel"),
        )
    context = crash.first(ContextDoesNotFit)
    if context is not None and context.kv_bytes is not None and context.kv_bytes <= 0:
        return Finding(
            weight=0.9,
            why=joined((_budget(known), say("No context, however short, fits into {kv}.", kv=show(context.kv_bytes)))),
            evidence=(context,),
            against=_against(known),
            knobs=_knobs(known),
        )
    return None


def _of_shared_weights(refused: NotEnoughFree, held: int) -> Finding:
    """Weights that another process holds for the engine count inside its share."""
    share = f"{refused.utilization:g}" if refused.utilization is not None else say("the card")
    room = refused.requested_bytes
    return Finding(
        weight=0.85,
        why=say(
            "Another process holds {held} of weights for the engine: more than its share of {share}.",
            held=show(held),
            share=share,
        )
        if room is None
        else say(
            "Another process holds {held} of weights for the engine: more than its share of {share} ({room}).",
            held=show(held),
            share=share,
            room=show(room),
        ),
        evidence=(refused,),
        pool="kv_cache",
    )


def _no_pool(crash: Crash, pool: NoPool) -> Finding:
    """SGLang's fraction is one of what was free before the weights were loaded."""
    loaded = engine_facts.loading(crash)
    fraction = pool.fraction if pool.fraction is not None else engine_facts.static_fraction(crash)
    smallest = pool.smallest_fraction
    told = [
        say(
            "The weights take more than the fraction of {fraction:g} that the engine may use of "
            "what was free before it loaded them.",
            fraction=fraction,
        )
        if fraction is not None
        else say(
            "The weights take more than the fraction that the engine may use of what was free before it loaded them."
        )
    ]
    if loaded is not None:
        before, after = show(loaded.free_before_bytes), show(loaded.free_after_bytes)
        if smallest is None:
            smallest = loaded.smallest_fraction
            told.append(
                say(
                    "{before} were free before, {after} afterwards: it needs more than 1 - {after} / "
                    "{before} = {fraction}.",
                    before=before,
                    after=after,
                    fraction=f"{smallest:.3f}",
                )
            )
        else:
            told.append(say("{before} were free before, {after} afterwards.", before=before, after=after))
    if pool.smallest_fraction is not None:
        told.append(say("It needs more than {fraction:g}.", fraction=pool.smallest_fraction))
    decided = pool.smallest_fraction is not None or (
        fraction is not None and smallest is not None and fraction <= smallest
    )
    return Finding(weight=0.95 if decided else 0.88, why=joined(told), evidence=(pool,))


def _budget(known: EngineFacts) -> str:
    reserved, weights = known.reserved_bytes, known.weights_bytes
    if reserved is not None and weights is not None and known.kv_bytes is not None:
        return _account(show(reserved), show(weights), show(known.kv_bytes), known)
    if known.kv_bytes is not None:
        return say("What is left of the engine's share for the KV cache is {left}.", left=show(known.kv_bytes))
    if known.share is not None:
        return say("Weights and activations fill the engine's share of {share:g} of the card.", share=known.share)
    return say("Weights and activations fill the engine's share of the card.")


def _account(reserved: str, weights: str, left: str, known: EngineFacts) -> str:
    peak = show(known.activation_bytes) if known.activation_bytes is not None else None
    outside = show(known.non_torch_bytes) if known.non_torch_bytes is not None else None
    if peak is not None and outside is not None:
        return say(
            "The engine may use {reserved}; {weights} are weights, {peak} the activations of the "
            "profiling run, {outside} memory outside PyTorch, so {left} is left.",
            reserved=reserved,
            weights=weights,
            peak=peak,
            outside=outside,
            left=left,
        )
    if peak is not None:
        return say(
            "The engine may use {reserved}; {weights} are weights, {peak} the activations of the "
            "profiling run, so {left} is left.",
            reserved=reserved,
            weights=weights,
            peak=peak,
            left=left,
        )
    if outside is not None:
        return say(
            "The engine may use {reserved}; {weights} are weights, {outside} memory outside "
            "PyTorch, so {left} is left.",
            reserved=reserved,
            weights=weights,
            outside=outside,
            left=left,
        )
    return say(
        "The engine may use {reserved}; {weights} are weights, so {left} is left.",
        reserved=reserved,
        weights=weights,
        left=left,
    )


def _against(known: EngineFacts) -> tuple[str, ...]:
    if known.era is not None and known.era.others_counted:
        return (say("this version counts the memory of other processes inside its share: they may be what fills it"),)
    return ()


def _knobs(known: EngineFacts) -> tuple[str, ...]:
    if (
        known.activation_bytes is not None
        and known.total_bytes is not None
        and known.activation_bytes > HEAVY_ACTIVATIONS * known.total_bytes
    ):
        return ("smaller-prefill", *(knob for knob in CAUSE.knobs if knob != "smaller-prefill"))
    if known.reserved_bytes is not None and known.total_bytes is not None and known.kv_bytes is not None:
        # Where even the whole card would not do, raising the share is no help.
        needed = known.reserved_bytes - known.kv_bytes
        if needed > shares.LARGEST * known.total_bytes:
            return WITHOUT_A_LARGER_SHARE
    if known.share is not None and known.share >= shares.AT_THE_LIMIT:
        return WITHOUT_A_LARGER_SHARE
    return CAUSE.knobs


CAUSE = Cause(
    id="kv-cache-no-room",
    title=mark("No room is left for the engine's KV cache"),
    pools=("kv_cache", "gpu", "host_ram"),
    knobs=(
        "raise-engine-reservation",
        "smaller-prefill",
        "quantize-weights",
        "tensor-parallel",
        "shorter-context",
        "free-the-gpu",
        "smaller-model",
    ),
    rule=judge,
)
