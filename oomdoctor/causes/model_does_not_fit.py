"""The weights (and what training keeps beside them) are larger than the device."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import (
    CREATED,
    ENGINE,
    LATER_THAN_LOADING,
    MOVE,
    STATES,
    STRAW,
    TRAINING_STAGES,
    asked,
    beyond_share,
    card,
    in_engine,
    innermost,
    phase,
    refusal,
    stepped,
)
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.ollama import OffloadPlan, Short
from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.tgi import WarmupShort
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.engine_facts import in_engine as serves
from oomdoctor.incident.model import Crash
from oomdoctor.job.building import places_a_model
from oomdoctor.job.frameworks import trainers
from oomdoctor.job.stage import OF_A_TRACEBACK
from oomdoctor.language import joined, mark, say
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
_BUFFER_KNOBS = ("offload-parameters", "quantize-weights", "smaller-model", "shorter-context", "more-gpus")
WEIGHTS_SOURCE = "memory_utils.cu"  # of TurboMind
WEIGHTS_FILL = 0.85  # of the card in live tensors while a warm-up batch runs: few of them are the batch's
LIVE = 0.95  # of the card in live tensors: a rule of thumb
FULL = 0.70  # of the card in this process's hands: the next weights did not fit
OWN_PART = 0.5  # of the card: where this process holds less, others fill it
_TRAINER = r"(?i)trainer\b|\btrain(?:ing)?\b|/train"
START = 5  # lines before the failure: what a program prints before its first step
EMPTY = 0.05  # of the card: less than a context and a few buffers


def judge(crash: Crash) -> Judgement | None:
    root = crash.root
    if isinstance(root, ArrayOutOfMemory):
        return _program(root) or _created(crash, root)
    if (told := _told_by_engine(crash)) is not None:
        return told
    if isinstance(root, DeviceRefusal) and root.layer == "dispatch":
        why = say("The loader's plan left a part of the weights off the card: they do not fit, even as they are.")
        return Finding(weight=0.9, why=why, evidence=(root,), stage="model_load")
    event = refusal(crash)
    if event is None:
        return _refused_by_driver(crash) or _laid_out(crash)
    built = _built(crash)
    filled = built or _filled(crash)
    if filled is None:
        if brimful := _brimful(crash, event):
            return brimful
        if larger := _larger_than_the_card(crash, event) or _full_of_live(crash, event):
            return larger
        went_on = crash.stage in LATER_THAN_LOADING or phase(crash) in ("backward", "optimizer")
        return RuledOut(say("the weights were on the card: the job had got beyond loading")) if went_on else None
    it = card(crash)
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share = it.share(mine)
    if share is not None and share < OWN_PART and (it.tried_bytes or 0) < (it.total_bytes or 0):
        return None
    more = it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes
    decided = more or (share is not None and share >= FULL)
    trained = built and crash.in_trace(_TRAINER)
    sharded = trained or crash.context.frameworks.keys() & trainers() or crash.in_trace(STATES)
    holds = (
        say("This process held {mine} of it ({share}).", mine=show(mine), share=percent(share))
        if mine is not None and share
        else ""
    )
    return Finding(
        weight=0.45 if built else 0.9 if decided else 0.6,
        why=joined((filled, holds)),
        evidence=(event,),
        against=(say("what was put on it, the traceback does not show"),) if built else (),
        stage="model_load" if crash.stage == "unknown" else None,
        knobs=() if sharded else INFERENCE_KNOBS,
    )


def _refused_by_driver(crash: Crash) -> Finding | None:
    """No figures, but the message itself says where the engine was: it laid out its weights."""
    root = crash.root
    if not isinstance(root, DeviceRefusal) or not (root.source or "").startswith(WEIGHTS_SOURCE):
        return None
    if crash.stage != "model_load":
        return None
    return Finding(
        weight=0.6,
        why=say(
            "The card was full while the engine laid out the model's weights, before anything else of it is there."
        ),
        evidence=(root,),
        against=(say("how much was free before, the message does not say"),),
        knobs=INFERENCE_KNOBS,
    )


def _laid_out(crash: Crash) -> Finding | None:
    """TensorRT asks for an engine's weights, and for the workspace of the largest batch that it is built for."""
    if not isinstance(crash.root, LibraryOutOfMemory) or crash.root.library != "TensorRT":
        return None
    sizes = [event.tried_bytes for event in crash.every(LibraryOutOfMemory) if event.tried_bytes]
    return Finding(
        weight=0.45,
        why=say(
            "TensorRT asked for {tried} in one piece while it built or loaded an engine: its "
            "weights, and the workspace of the largest batch that it is built for.",
            tried=show(max(sizes)),
        )
        if sizes
        else say(
            "TensorRT asked for more memory than there was while it built or loaded an engine: "
            "its weights, and the workspace of the largest batch that it is built for."
        ),
        evidence=(crash.root,),
        against=(say("which of the two it was, the message does not say"),),
        stage="engine_init" if crash.stage == "unknown" else None,
        knobs=("fewer-sequences", "tensor-parallel", "quantize-weights", "smaller-model", "shorter-context"),
    )


def _brimful(crash: Crash, event: DeviceOutOfMemory) -> Finding | None:
    """An engine's cache is cut to a share of the card; live tensors to its brim are there before any cache."""
    it = card(crash)
    share = it.share(it.live_bytes)
    unknown = crash.stage in ("unknown", "engine_init") and phase(crash) is None
    brimful = share is not None and share >= beyond_share(facts(crash).share)
    if share is None or not brimful or not unknown or not (in_engine(crash) or serves(crash)):
        return None
    return Finding(
        weight=0.55,
        why=say(
            "Live tensors of {live} fill the card to {share}: a KV cache that is cut to a share "
            "of it leaves more free, so it was still being loaded or measured.",
            live=show(it.live_bytes or 0),
            share=percent(share),
        ),
        evidence=(event,),
        against=(say("the traceback does not show what it was doing"),),
        stage="engine_init" if crash.stage == "unknown" else None,
        knobs=INFERENCE_KNOBS,
    )


def _full_of_live(crash: Crash, event: DeviceOutOfMemory) -> Finding | None:
    """Nothing shows a step of any kind, and live tensors fill the card: first of all that is what was loaded."""
    it = card(crash)
    share = it.share(it.live_bytes)
    shown = crash.stage != "unknown" or phase(crash) is not None or stepped(crash) or in_engine(crash)
    if shown or not _start_is_shown(crash):
        return None
    if share is None or not LIVE <= share <= 1 or (it.tried_bytes or 0) <= STRAW:
        return None
    return Finding(
        weight=0.28,
        why=say(
            "Live tensors of {live} fill the card to {share}, and no step of the job is in the "
            "log: models (and what training keeps beside them) come first.",
            live=show(it.live_bytes or 0),
            share=percent(share),
        ),
        evidence=(event,),
        against=(say("the log does not show what the job was doing"),),
        knobs=() if crash.context.frameworks.keys() & trainers() else INFERENCE_KNOBS,
    )


def _start_is_shown(crash: Crash) -> bool:
    """Whether a step would stand in the log, had there been one: a paste of the message alone shows nothing."""
    if any(setting.outside is None for setting in crash.context.settings.values()):
        return True
    around = crash.root.around
    told = [line for line in around.before if line.strip() and not OF_A_TRACEBACK.match(line)]
    return len(told) >= START


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
        why=say(
            "{tried} were asked for in one piece, more than the {total} of the whole card, with "
            "{held} of this process on it.",
            tried=show(it.tried_bytes),
            total=show(it.total_bytes),
            held=show(held),
        ),
        evidence=(event,),
        against=(say("one tensor of a wrong shape can be as large"),),
    )


def _built(crash: Crash) -> str | None:
    """A traceback that ends in a constructor or the like, and shows nothing else."""
    if crash.stage != "model_load" or phase(crash) is not None or not places_a_model(crash.root.around.trace):
        return None
    return say(
        "The traceback ends in {function}, which puts models on the card and computes nothing: {asked}.",
        function=crash.root.around.trace[-1].function,
        asked=asked(card(crash)),
    )


def _filled(crash: Crash) -> str | None:
    """What of the model was being put on the card when it was full."""
    busy, refused = phase(crash), asked(card(crash))
    if busy == "load" or (crash.stage == "model_load" and busy is None):
        return say("The card filled up while the weights were loaded: {asked}.", asked=refused)
    if busy is None and crash.in_trace(STATES):
        return say(
            "The card filled up while the trainer laid out weights, gradients and optimizer states: {asked}.",
            asked=refused,
        )
    if busy is None and innermost(crash, MOVE, 2) and not crash.in_trace(ENGINE):
        return say("The card filled up while the model was moved to it: {asked}.", asked=refused)
    return None


def _program(root: ArrayOutOfMemory) -> Judgement | None:
    """A compiled program states what it needs; its arguments are the weights and states."""
    if root.used_bytes is None or root.total_bytes is None:
        return None
    used, total, arguments = show(root.used_bytes), show(root.total_bytes), root.arguments_bytes
    if arguments and arguments > root.total_bytes:
        why = say(
            "The program needs {used} of the {total} there are; its arguments (weights and "
            "states) are {arguments}, more than the device alone.",
            used=used,
            total=total,
            arguments=show(arguments),
        )
        return Finding(weight=0.93, why=why, evidence=(root,))
    if arguments and arguments >= OWN_PART * root.total_bytes:
        why = say(
            "The program needs {used} of the {total} there are; its arguments (weights and "
            "states) are {arguments}, most of the device.",
            used=used,
            total=total,
            arguments=show(arguments),
        )
        return Finding(weight=0.7, why=why, evidence=(root,))
    why = say("The program needs {used} of the {total} there are, before anything runs.", used=used, total=total)
    return Finding(weight=0.5, why=why, evidence=(root,))


def _created(crash: Crash, root: ArrayOutOfMemory) -> Judgement | None:
    if not crash.mentions(CREATED):
        return None
    return Finding(
        weight=0.55,
        why=say("An array of the model's own did not fit while the model was being created: no batch had come yet."),
        evidence=(root,),
        against=(say("another process may hold the card"),),
        stage="model_load",
    )


def _buffer(crash: Crash, root: BufferRefused) -> Judgement:
    """ggml puts the weights of a device into few large buffers, before the KV cache and the compute buffers."""
    tried = root.tried_bytes or root.buffer_bytes
    free = _free_of(crash, root.process.gpu)
    if root.what != "weights":
        return Finding(
            weight=0.45 if root.what else 0.6,
            why=_some_buffer(tried, free),
            evidence=(root,),
            against=() if root.what is None else (say("the weights themselves were not what was refused"),),
            knobs=_BUFFER_KNOBS,
        )
    decided = tried is not None and free is not None and tried > free
    return Finding(
        weight=0.92 if decided else 0.8,
        why=joined((_buffer_of_weights(tried, free), _planned(crash, tried))),
        evidence=(root,),
        knobs=_BUFFER_KNOBS,
    )


def _some_buffer(tried: int | None, free: int | None) -> str:
    if tried and free is not None:
        return say(
            "A buffer of {tried} was refused, with {free} free when it started: the model and "
            "what it needs beside the weights do not fit.",
            tried=show(tried),
            free=show(free),
        )
    if tried:
        return say(
            "A buffer of {tried} was refused: the model and what it needs beside the weights do not fit.",
            tried=show(tried),
        )
    return say("A buffer was refused: the model and what it needs beside the weights do not fit.")


def _buffer_of_weights(tried: int | None, free: int | None) -> str:
    if tried and free is not None:
        return say(
            "The model's weights are put into a buffer of {tried}, which the card refused, with "
            "{free} free when it started.",
            tried=show(tried),
            free=show(free),
        )
    if tried:
        return say("The model's weights are put into a buffer of {tried}, which the card refused.", tried=show(tried))
    if free is not None:
        return say(
            "The model's weights are put into a buffer, which the card refused, with {free} free when it started.",
            free=show(free),
        )
    return say("The model's weights are put into a buffer, which the card refused.")


def _short(crash: Crash, root: Short) -> Judgement | None:
    """Ollama or its runner refused."""
    if root.what in ("kv", "compute"):
        return None
    if root.said == "layout":
        why = say("The layers that were asked for do not fit on the cards, in whatever order they are laid out.")
    elif root.tried_bytes:
        refused = say("The runner's allocation of {tried} for the model was refused.", tried=show(root.tried_bytes))
        why = joined((refused, _planned(crash, root.tried_bytes)))
    else:
        refused = say("The runner's allocation for the model was refused.")
        why = joined((refused, _planned(crash, None)))
    return Finding(weight=0.8 if root.what else 0.66, why=why, evidence=(root,), knobs=_BUFFER_KNOBS)


def _told_by_engine(crash: Crash) -> Judgement | None:
    """Engines that say, or whose figures show, that it was the weights."""
    root = crash.root
    if isinstance(root, BufferRefused):
        return _buffer(crash, root)
    if isinstance(root, Short):
        return _short(crash, root)
    failed = crash.first(CreationFailed)
    if failed is not None and failed.stage == "model_load":
        why = (
            say(
                "The weights of the model could not be put on the card with {free} free before it.",
                free=show(failed.free_bytes),
            )
            if failed.free_bytes is not None
            else say("The weights of the model could not be put on the card.")
        )
        return Finding(weight=0.85, why=why, evidence=(failed,), stage="model_load", knobs=INFERENCE_KNOBS)
    if isinstance(root, EngineShort) and root.what == "runtime":
        why = say("Once the weights are on the card, not even the smallest step of the engine fits beside them.")
        return Finding(weight=0.72, why=why, evidence=(root,), knobs=INFERENCE_KNOBS)
    if isinstance(root, NoRoom) and root.weights_bytes and root.available_bytes:
        if root.weights_bytes <= root.available_bytes:
            return None
        why = say(
            "The weights take {weights}, and the engine may use {available}.",
            weights=show(root.weights_bytes),
            available=show(root.available_bytes),
        )
        return Finding(weight=0.85, why=why, evidence=(root,), knobs=INFERENCE_KNOBS)
    warmup = crash.first(WarmupShort)
    return _warm_up(crash, warmup) if warmup is not None else None


def _warm_up(crash: Crash, warmup: WarmupShort) -> Finding:
    """TGI's error says to lower the prefill tokens whatever fills the card."""
    it = card(crash)
    share = it.share(it.allocated_bytes)
    if share is not None and share >= WEIGHTS_FILL:
        weight = 0.72
        why = say(
            "Tensors of {allocated} ({share} of the card) were there in the warm-up, before any "
            "KV cache: that is the weights, whatever the message advises.",
            allocated=show(it.allocated_bytes or 0),
            share=percent(share),
        )
    else:
        weight = 0.5 if share is None else 0.3
        why = say("The warm-up runs once the weights are loaded; where they fill the card, any batch is too large.")
    return Finding(weight=weight, why=why, evidence=(warmup,), knobs=INFERENCE_KNOBS)


def _free_of(crash: Crash, gpu: int | None) -> int | None:
    """What the loader found free on this card."""
    plans = [plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.free_bytes is not None]
    return next((plan.free_bytes for plan in plans if gpu is not None and plan.process.gpu == gpu), None)


def _planned(crash: Crash, tried: int | None) -> str:
    """Ollama reckons before it starts the runner; the runner may need more than that."""
    plan = crash.first(OffloadPlan)
    if plan is None or plan.offloaded_layers is None or plan.layers is None:
        return ""
    planned, layers = plan.offloaded_layers, plan.layers
    if plan.partial_bytes is None or tried is None or tried <= plan.partial_bytes:
        return say("Ollama had planned {planned} of {layers} layers for the card.", planned=planned, layers=layers)
    return say(
        "Ollama had planned {planned} of {layers} layers for the card and reckoned with "
        "{estimate}: its estimate is too low for this model.",
        planned=planned,
        layers=layers,
        estimate=show(plan.partial_bytes),
    )


CAUSE = Cause(
    id="model-does-not-fit",
    title=mark("The model is larger than the card"),
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
    rule=judge,
)
