"""Nothing of the engine's share is left for the KV cache."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement
from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.families.ollama import Short
from oomdoctor.families.other_engines import EngineShort
from oomdoctor.families.sglang import NoPool
from oomdoctor.families.vllm_error import ContextDoesNotFit, NoCacheBlocks, SequencesExceedState
from oomdoctor.incident import engine_budget
from oomdoctor.incident.engine_facts import EngineFacts, facts
from oomdoctor.incident.model import Crash
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
BUFFER_KNOBS = ("shorter-context", "quantize-kv-cache", "fewer-sequences", "offload-parameters", "smaller-model")


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, BufferRefused | Short):
        return _buffer(crash, crash.root)
    if crash.pool == "host_ram":
        return None
    known = facts(crash)
    blocks = crash.first(NoCacheBlocks)
    if blocks is not None:
        return Finding(
            weight=0.95 if known.kv_bytes is not None and known.kv_bytes <= 0 else 0.88,
            why=f"{_budget(known)} Not one block of KV cache fits.",
            evidence=(blocks,),
            against=_against(known),
            knobs=_knobs(known),
        )
    pool = crash.first(NoPool)
    if pool is not None:
        return _no_pool(pool)
    short = crash.first(EngineShort)
    if short is not None and short.pool == "kv_cache":
        what = short.what.replace("-", " ")
        return Finding(
            weight=0.88, why=f"The weights leave too little of the card for the engine's {what}.", evidence=(short,)
        )
    state = crash.first(SequencesExceedState)
    if state is not None:
        return Finding(
            weight=0.85,
            why=(
                f"Each sequence needs one block of layer state. There is room for {state.state_blocks}, "
                f"and {state.max_num_seqs} sequences are asked for."
            ),
            evidence=(state,),
            knobs=("fewer-sequences", "raise-engine-reservation", "tensor-parallel"),
        )
    context = crash.first(ContextDoesNotFit)
    if context is not None and context.kv_bytes is not None and context.kv_bytes <= 0:
        return Finding(
            weight=0.9,
            why=f"{_budget(known)} No context, however short, fits into {show(context.kv_bytes)}.",
            evidence=(context,),
            against=_against(known),
            knobs=_knobs(known),
        )
    return None


def _buffer(crash: Crash, refused: BufferRefused | Short) -> Finding | None:
    if refused.what not in ("kv", "state"):
        return None
    tried = refused.tried_bytes
    where = "host memory" if refused.pool == "host_ram" else "the card"
    lengths = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    context = f" for a context of {lengths[-1]:,} tokens" if lengths else ""
    return Finding(
        weight=0.88,
        why=f"The weights had found room; the KV cache{f' of {show(tried)}' if tried else ''}{context} was refused by "
        f"{where}.",
        evidence=(refused,),
        knobs=BUFFER_KNOBS,
    )


def _no_pool(pool: NoPool) -> Finding:
    """SGLang's fraction is one of what was free before the weights were loaded."""
    fraction = f" of {pool.fraction:g}" if pool.fraction is not None else ""
    answer = f" It needs more than {pool.smallest_fraction:g}." if pool.smallest_fraction is not None else ""
    return Finding(
        weight=0.95 if pool.smallest_fraction is not None else 0.88,
        why=f"The weights alone take more than the fraction{fraction} that the engine may use.{answer}",
        evidence=(pool,),
    )


def _budget(known: EngineFacts) -> str:
    reserved, weights = known.reserved_bytes, known.weights_bytes
    if reserved is not None and weights is not None and known.kv_bytes is not None:
        beside = reserved - weights - known.kv_bytes
        return (
            f"The engine may use {show(reserved)}; the weights take {show(weights)} and everything else that is not KV "
            f"cache {show(beside)}, so {show(known.kv_bytes)} is left."
        )
    if known.kv_bytes is not None:
        return f"What is left of the engine's share for the KV cache is {show(known.kv_bytes)}."
    if known.share is not None:
        return f"Weights and activations fill the engine's share of {known.share:g} of the card."
    return "Weights and activations fill the engine's share of the card."


def _against(known: EngineFacts) -> tuple[str, ...]:
    if known.era is not None and known.era.others_counted:
        return ("this version counts the memory of other processes inside its share: they may be what fills it",)
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
        if needed > engine_budget.LARGEST_SHARE * known.total_bytes:
            return WITHOUT_A_LARGER_SHARE
    if known.share is not None and known.share >= engine_budget.AT_THE_LIMIT:
        return WITHOUT_A_LARGER_SHARE
    return CAUSE.knobs


CAUSE = Cause(
    id="kv-cache-no-room",
    title="No room is left for the engine's KV cache",
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
    judge=judge,
)
