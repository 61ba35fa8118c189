"""What the forward pass keeps for the backward pass: the batch or the sequences are too large."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import (
    ATTENTION,
    CREATED,
    GRAPHS,
    LOGITS,
    MOVE,
    SAMPLER,
    STRAW,
    VISION,
    asked,
    card,
    in_engine,
    innermost,
    late_collective,
    named_engine,
    phase,
    refusal,
)
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.families.peer import LostPeer
from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.families.vllm_error import ProfilingDisturbed
from oomdoctor.incident.model import Crash
from oomdoctor.job.building import ends_in_building
from oomdoctor.language import joined, mark, say
from oomdoctor.units import GIB, percent, show

# In an engine the batch is what its own settings let in; its reservation is judged by other causes.
ATTENTION_KNOBS = (
    "memory-efficient-attention",
    "smaller-microbatch",
    "shorter-sequences",
    "gradient-checkpointing",
    "token-budget-batching",
    "sequence-parallel",
)
# Without a backward pass nothing is kept for it.
INFERENCE_KNOBS = (
    "smaller-microbatch",
    "shorter-sequences",
    "quantize-weights",
    "memory-efficient-attention",
    "smaller-model",
    "offload-parameters",
)
ENGINE_KNOBS = ("lower-engine-reservation", "smaller-prefill", "fewer-sequences", "shorter-context", "limit-multimodal")
MEASURED_KNOBS = ("smaller-prefill", "shorter-context", "fewer-sequences", "quantize-weights", "tensor-parallel")
COMPUTE_KNOBS = (
    "smaller-prefill",
    "memory-efficient-attention",
    "shorter-context",
    "offload-parameters",
    "quantize-kv-cache",
    "quantize-weights",
)
COMPUTING = frozenset({"memory_profiling", "serving", "logprob", "reward", "eval", "rollout"})
# A driver that only hears of the failure, a wait for what the card does, the frames that every program starts with, and
# moves: no computation.
_NOT_ITS_OWN = (
    rf"{MOVE}|\bsynchronize\b|\bray/|asyncio/|multiprocessing/|concurrent/| <module> |_run_code|\bmain\("
    r"|distributed_c10d"
)
MODEL_SHARE = 0.05  # of the card: more than a context and a few buffers
LARGE_SHARE = 0.10  # of the card in one request


def judge(crash: Crash) -> Judgement | None:
    root = refusal(crash) or crash.root
    if isinstance(root, ProfilingDisturbed):
        return None  # nothing was short
    if isinstance(root, ArrayOutOfMemory):
        return _array(crash, root)
    if (told := _told_by_engine(crash, root)) is not None:
        return told
    where = _where(crash)
    if where is None:
        return _elsewhere(crash, root)
    it = card(crash)
    large = (it.share(it.tried_bytes) or 0) >= LARGE_SHARE or (it.tried_bytes or 0) >= GIB
    if in_engine(crash):
        return _in_engine(crash, root, where)
    weight = 0.75 if where == "backward" else 0.72 if large else 0.66
    against: tuple[str, ...] = ()
    if innermost(crash, LOGITS):
        weight, against = 0.5, (say("the innermost frames work on the logits"),)
    if isinstance(crash.root, LibraryOutOfMemory | LibraryTrouble):
        weight, against = 0.45, (*against, say("a library beside the framework was refused"))
    if crash.stage == "eval" and phase(crash) is None and crash.root.around.trace:
        weight, against = 0.5, (*against, say("no frame of the model is in the traceback"))
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share = it.share(mine)
    if share is not None and share < 0.5:
        weight, against = 0.4, (*against, say("this process holds only {share} of the card", share=percent(share)))
    failed = (
        say("It failed in the {where} pass: {asked}.", where=where, asked=asked(it))
        if mine is None
        else say(
            "It failed in the {where} pass: {asked}, and this process held {mine}.",
            where=where,
            asked=asked(it),
            mine=show(mine),
        )
    )
    return Finding(
        weight=weight,
        why=joined((failed, say("What grows there with the batch and the sequence length are the activations."))),
        evidence=(root,),
        against=against,
        stage=where if crash.stage == "unknown" else None,
        knobs=_knobs(crash),
    )


def _knobs(crash: Crash) -> tuple[str, ...]:
    if crash.stage in ("serving", "rollout") or crash.in_trace(r"\bgenerate\b"):
        return INFERENCE_KNOBS
    return ATTENTION_KNOBS if innermost(crash, ATTENTION) else ()


def _elsewhere(crash: Crash, root: Event) -> Judgement | None:
    if crash.stage in ("model_load", "optimizer_step") or phase(crash) in ("load", "optimizer"):
        return RuledOut(say("it failed while loading or in the optimizer's step, when no activations are held"))
    it = card(crash)
    held = it.share(it.own_bytes or it.reserved_bytes or it.allocated_bytes) or 0  # a model is there already
    larger = it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes
    if crash.stage == "unknown" and larger and held >= MODEL_SHARE:
        return Finding(
            weight=0.45,
            why=say(
                "{tried} were asked for in one piece, more than the card's {total}: so large are "
                "tensors over all pairs of tokens or pixels, which attention without its own kernel "
                "makes.",
                tried=show(it.tried_bytes or 0),
                total=show(it.total_bytes or 0),
            ),
            evidence=(root,),
            against=(say("the traceback does not show which pass it was"),),
            knobs=ATTENTION_KNOBS,
        )
    around = crash.root.around
    elsewhere = around.cut or ends_in_building(around.trace) or innermost(crash, _NOT_ITS_OWN) or in_engine(crash)
    if crash.stage == "unknown" and around.trace and not elsewhere:
        return Finding(
            weight=0.4,
            why=say("It failed in the program's own computation: {asked}.", asked=asked(it)),
            evidence=(root,),
            against=(say("the traceback does not show which pass it was"),),
        )
    if crash.stage == "unknown" and not around.trace and (late := late_collective(crash)) is not None:
        return _while_stepping(root, *late)
    return None


def _while_stepping(root: Event, number: int, waited: LostPeer) -> Finding:
    return Finding(
        weight=0.15,
        why=say(
            "The other ranks waited in collective {number:,}, more than setting up takes: the job had been "
            "stepping, and what differs from step to step is the batch.",
            number=number,
        ),
        evidence=(root, waited),
        against=(say("the log does not show what the job was doing"),),
    )


def _where(crash: Crash) -> str | None:
    """The pass that failed, or None where another part of the job did."""
    busy = phase(crash)
    if busy in ("backward", "forward"):
        return busy
    if busy is not None:
        return None
    if crash.stage in ("forward", "backward"):
        return crash.stage
    if innermost(crash, ATTENTION, 2):
        return "forward"
    return "forward" if crash.stage in COMPUTING else None


def _in_engine(crash: Crash, root: Event, where: str) -> Judgement:
    special = crash.in_trace(f"{SAMPLER}|{GRAPHS}|{VISION}")
    profiling = crash.stage == "memory_profiling"
    weight = 0.3 if special else 0.55 if profiling else 0.5
    refused = asked(card(crash))
    failed = (
        say("It failed while the engine measured its own need: {asked}.", asked=refused)
        if profiling
        else say("It failed in the {where} pass of an inference engine: {asked}.", where=where, asked=refused)
    )
    return Finding(
        weight=weight,
        why=joined((failed, say("What it computes with is what its settings let in at once."))),
        evidence=(root,),
        against=(say("an engine leaves little beside its own reservation"),) if not profiling else (),
        knobs=INFERENCE_KNOBS if crash.stage == "serving" and not named_engine(crash) else ENGINE_KNOBS,
    )


def _told_by_engine(crash: Crash, root: Event) -> Finding | None:
    """Engines whose own message says that it was the batch they compute or measure with."""
    if isinstance(root, BufferRefused | Short) and root.what in ("compute", "pool"):
        return _compute_buffer(root)
    warmup = crash.first(WarmupShort)
    if warmup is not None:
        return Finding(
            weight=0.58,
            why=say(
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
            ),
            evidence=(warmup,),
            against=(say("the message says so whatever fills the card"),),
            knobs=MEASURED_KNOBS,
        )
    failed = crash.first(CreationFailed)
    if failed is not None and failed.stage in ("memory_profiling", "engine_init"):
        return Finding(
            weight=0.6,
            why=say("The weights were loaded; what the engine sets up for its largest batch of tokens found no room."),
            evidence=(failed,),
            knobs=MEASURED_KNOBS,
        )
    return None


def _compute_buffer(root: BufferRefused | Short) -> Finding:
    """ggml reserves what the largest batch needs when it starts; its pool for conversions grows while it computes."""
    if root.what != "compute":
        refused = say(
            "More memory for the pool of intermediate results was refused, beside weights and KV "
            "cache that had found room."
        )
    elif root.tried_bytes:
        refused = say(
            "The compute buffer of {tried} was refused, beside weights and KV cache that had found room.",
            tried=show(root.tried_bytes),
        )
    else:
        refused = say("The compute buffer was refused, beside weights and KV cache that had found room.")
    return Finding(
        weight=0.66,
        why=joined(
            (
                refused,
                say("It grows with the batch of tokens (-ub) and, without flash attention, with the context."),
            )
        ),
        evidence=(root,),
        knobs=COMPUTE_KNOBS,
    )


def _array(crash: Crash, root: ArrayOutOfMemory) -> Judgement | None:
    if crash.mentions(CREATED):
        return RuledOut(say("the array belongs to the model, which was being created"))
    if root.tried_bytes is not None and root.tried_bytes <= STRAW and not root.used_bytes:
        return None  # the card was full before it
    if root.limit_bytes and root.tried_bytes and root.tried_bytes > root.limit_bytes:
        return None  # the process had been given too little of the card for even one array
    return Finding(
        weight=0.45 if root.used_bytes else 0.65 if root.shape else 0.55,
        why=_did_not_fit(root),
        evidence=(root,),
        stage="forward",
    )


def _did_not_fit(root: ArrayOutOfMemory) -> str:
    if root.shape and root.array_bytes:
        return say(
            "An array of shape {shape} ({size}) did not fit while the program ran: such arrays grow with the batch.",
            shape=root.shape,
            size=root.array_words,
        )
    if root.shape:
        return say(
            "An array of shape {shape} did not fit while the program ran: such arrays grow with the batch.",
            shape=root.shape,
        )
    if root.array_bytes:
        return say(
            "An array ({size}) did not fit while the program ran: such arrays grow with the batch.",
            size=root.array_words,
        )
    return say("An array did not fit while the program ran: such arrays grow with the batch.")


CAUSE = Cause(
    id="activations",
    title=mark("The batch or the sequences are too large for what the passes have to keep"),
    pools=("gpu",),
    knobs=(
        "smaller-microbatch",
        "gradient-checkpointing",
        "shorter-sequences",
        "memory-efficient-attention",
        "token-budget-batching",
        "sequence-parallel",
        "offload-activations",
        "packing",
    ),
    rule=judge,
)
