"""The weights (and what training keeps beside them) are larger than the device."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import (
    ENGINE,
    LATER_THAN_LOADING,
    MOVE,
    STATES,
    TRAINING_STAGES,
    asked,
    card,
    in_engine,
    innermost,
    phase,
    refusal,
)
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.incident.engine_facts import TRAINERS, facts
from oomdoctor.incident.engine_facts import in_engine as serves
from oomdoctor.incident.model import Crash
from oomdoctor.units import percent, show

# Where nothing is trained there are no states to shard.
INFERENCE_KNOBS = (
    "quantize-weights",
    "smaller-model",
    "tensor-parallel",
    "offload-parameters",
    "more-gpus",
    "shard-states",
    "mixed-precision",
)
BRIM = 0.99
BEYOND = 0.2  # what an engine holds beside its share at most
FULL = 0.70  # of the card in this process's hands: the next weights did not fit
OWN_PART = 0.5
EMPTY = 0.05  # of the card: less than a context and a few buffers


def judge(crash: Crash) -> Judgement | None:
    root = crash.root
    if isinstance(root, ArrayOutOfMemory):
        return _program(root)
    if isinstance(root, LibraryOutOfMemory) and root.library == "ggml":
        return _buffer(root)
    if isinstance(root, DeviceRefusal) and root.layer == "dispatch":
        why = "The loader's plan left a part of the weights off the card: they do not fit, even as they are."
        return Finding(weight=0.9, why=why, evidence=(root,), stage="model_load")
    event = refusal(crash)
    if event is None:
        return None
    loading = _loading(crash)
    if loading is None:
        if brimful := _brimful(crash, event):
            return brimful
        if larger := _larger_than_the_card(crash, event):
            return larger
        went_on = crash.stage in LATER_THAN_LOADING or phase(crash) in ("backward", "optimizer")
        return RuledOut("the weights were on the card: the job had got beyond loading") if went_on else None
    it = card(crash)
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share = it.share(mine)
    if share is not None and share < OWN_PART and (it.tried_bytes or 0) < (it.total_bytes or 0):
        return None
    more = it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes
    decided = more or (share is not None and share >= FULL)
    sharded = crash.context.frameworks.keys() & TRAINERS or crash.in_trace(STATES)
    holds = f" This process held {show(mine)} of it ({percent(share)})." if mine is not None and share else ""
    return Finding(
        weight=0.9 if decided else 0.6,
        why=f"The card filled up {loading}: {asked(it)}.{holds}",
        evidence=(event,),
        stage="model_load" if crash.stage == "unknown" else None,
        knobs=() if sharded else INFERENCE_KNOBS,
    )


def _brimful(crash: Crash, event: DeviceOutOfMemory) -> Finding | None:
    """An engine's cache is cut to a share of the card; live tensors to its brim are there before any cache."""
    it = card(crash)
    share = it.share(it.live_bytes)
    unknown = crash.stage in ("unknown", "engine_init") and phase(crash) is None
    if share is None or share < _brim(crash) or not unknown or not (in_engine(crash) or serves(crash)):
        return None
    return Finding(
        weight=0.55,
        why=f"Live tensors of {show(it.live_bytes or 0)} fill the card to {percent(share)}: a KV cache that is cut to "
        "a share of it leaves more free, so it was still being loaded or measured.",
        evidence=(event,),
        against=("the traceback does not show what it was doing",),
        knobs=INFERENCE_KNOBS,
    )


def _brim(crash: Crash) -> float:
    """From which part of the card on no cache explains it: where the engine's share is stated, well beyond that."""
    stated = facts(crash).share
    return min(BRIM, stated + BEYOND) if stated else BRIM


def _larger_than_the_card(crash: Crash, event: DeviceOutOfMemory) -> Finding | None:
    """One piece larger than the whole card, and nothing of this process on it yet: no batch has been computed."""
    it = card(crash)
    if it.tried_bytes is None or it.total_bytes is None or it.tried_bytes <= it.total_bytes:
        return None
    held = it.own_bytes or it.reserved_bytes or it.allocated_bytes or 0
    training = crash.stage in TRAINING_STAGES or phase(crash) in ("backward", "optimizer")
    if held >= EMPTY * it.total_bytes or training:
        return None
    return Finding(
        weight=0.45,
        why=f"{show(it.tried_bytes)} were asked for in one piece, more than the {show(it.total_bytes)} of the whole "
        f"card, with {show(held)} of this process on it.",
        evidence=(event,),
        against=("one tensor of a wrong shape can be as large",),
    )


def _loading(crash: Crash) -> str | None:
    """What of the model was being put on the card."""
    busy = phase(crash)
    if busy == "load" or (crash.stage == "model_load" and busy is None):
        return "while the weights were loaded"
    if busy is None and crash.in_trace(STATES):
        return "while the trainer laid out weights, gradients and optimizer states"
    if busy is None and innermost(crash, MOVE, 2) and not crash.in_trace(ENGINE):
        return "while the model was moved to it"
    return None


def _program(root: ArrayOutOfMemory) -> Judgement | None:
    """A compiled program states what it needs; its arguments are the weights and states."""
    if root.used_bytes is None or root.total_bytes is None:
        return None
    words = f"The program needs {show(root.used_bytes)} of the {show(root.total_bytes)} there are"
    arguments = root.arguments_bytes
    if arguments and arguments >= OWN_PART * root.total_bytes:
        fits = "more than the device alone" if arguments > root.total_bytes else "most of the device"
        why = f"{words}; its arguments (weights and states) are {show(arguments)}, {fits}."
        return Finding(weight=0.93 if arguments > root.total_bytes else 0.7, why=why, evidence=(root,))
    return Finding(weight=0.5, why=f"{words}, before anything runs.", evidence=(root,))


def _buffer(root: LibraryOutOfMemory) -> Judgement:
    tried = f"one buffer of {show(root.tried_bytes)}" if root.tried_bytes else "a buffer"
    return Finding(
        weight=0.8,
        why=f"The model's weights are put into {tried}, which the card refused.",
        evidence=(root,),
        knobs=("offload-parameters", "quantize-weights", "smaller-model", "shorter-context", "more-gpus"),
    )


CAUSE = Cause(
    id="model-does-not-fit",
    title="The model is larger than the card",
    pools=("gpu",),
    knobs=(
        "shard-states",
        "quantize-weights",
        "tensor-parallel",
        "smaller-model",
        "offload-parameters",
        "lora",
        "mixed-precision",
        "more-gpus",
    ),
    judge=judge,
)
