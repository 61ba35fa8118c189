"""Weights on their way to the card, and what training lays out beside them."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import training
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Frame
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.lmdeploy import EngineShort
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.tensorrt_llm import CreationFailed
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_error import WeightsDoNotFit
from oomdoctor.incident.engine_facts import facts
from oomdoctor.incident.model import Crash
from oomdoctor.job.checkpoint_names import billions, has_few_bits
from oomdoctor.job.doing import OF_A_TRACEBACK
from oomdoctor.job.frames import places_a_model
from oomdoctor.job.frameworks import outside_pytorch, some
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.checkpoints import in_code_that_loads_an_optimizers_state
from oomdoctor.signs.library import refused_at_the_drivers_start
from oomdoctor.signs.machine import is_in_a_notebook
from oomdoctor.signs.model_size import its_states_are_little_of_the_tensors
from oomdoctor.signs.passes import in_its_own_computation
from oomdoctor.signs.snapshot import weights_hold_most
from oomdoctor.signs.trace import (
    LATER_THAN_LOADING,
    MOVE,
    STATES,
    STRAW,
    TRAINING_STAGES,
    asked,
    beyond_share,
    card,
    innermost,
    phase,
    refusal,
    stepped,
)
from oomdoctor.signs.warm_up import warm_up_short
from oomdoctor.units import GIB, percent, show

WEIGHTS_SOURCE: Final = "memory_utils.cu"  # of TurboMind
LIVE: Final = 0.95  # of the card in live tensors: a rule of thumb
SET_ASIDE: Final = GIB  # MIG's smallest slices have 5 GB, and the smallest cards that PyTorch's builds run on 2 GiB
_WHERE_LITTLE_IS_SET_ASIDE: Final = ("fix-placement", "raise-allocator-cap", "offload-parameters")
FULL: Final = 0.70  # of the card in this process's hands: the next weights did not fit
_TOO_LARGE: Final = late(
    r"(?i)\bmodel (?:is|size is|was) too (?:large|big) for (?:\S{1,20} ){1,5}memory\b"
    r"|\brequired memory (?:size )?\S{1,20} (?:\S{2} )?for (?:the )?model is (?:higher|larger|greater|more) than\b"
    # TorchRec's planner, before any table is on a card
    r"|\bcouldn't find a rank for shard\b|\bunable to find a plan for this model .{0,60}?insufficient storage\b"
)
# vllm/_custom_ops.py: gptq_marlin_repack and its like turn loaded weights into a kernel's order, once
_REPACKS: Final = r"\b\w{1,30}_repack\("
_MAKES: Final = r"set_default_tensor_type"
_HAS_MADE: Final = r"\bLoaded in \d"
_WITH_ITS_CACHE: Final = late(r"(?i)\bmodel (?:and|with|\+) (?:its |the |kv )?cache\b")
_OF_A_CACHE: Final = ("shorter-context", "quantize-kv-cache")
_STARTS_UP: Final = late(r"(?i)\binitiali[sz]ation\b")  # of the runtime: nothing of a model is on the card yet
NEARLY_ALL: Final = 0.85  # of the card, in weights
# lmdeploy/turbomind/builders and deploy: all that PyTorch computes while TurboMind loads a model
_LAYS_OUT: Final = r"\b_nn\.pad\(|\bpad_(?:in|out)_dims?\b|\bcreate_weights\b|turbomind/(?:deploy|builders)/"
_OTHER_WEIGHTS: Final = ("model_format", "quantization", "tp", "tensor_parallel_size")
LITTLE: Final = 0.10  # of the card beside the weights: what an engine measures first needs more
OWN_PART: Final = 0.5  # of the card: where this process holds less, others fill it
_TRAINER = r"(?i)trainer\b|\btrain(?:ing)?\b|/train"
# The weights alone, or a first step that no line tells of: what helps in both
_OF_WEIGHTS_OR_A_STEP: Final = (
    "shard-states", "smaller-microbatch", "gradient-checkpointing", "quantize-weights", "lora", "smaller-model",
    "offload-parameters", "more-gpus",
)  # fmt: skip
START: Final = 5  # lines before the failure: what a program prints before its first step
EMPTY: Final = 0.05  # of the card: less than a context and a few buffers


@sign
def weights_larger_than_the_share(crash: Crash) -> Seen | None:
    """MLC prints that the weights take more than the engine may use."""
    root = crash.root
    if not isinstance(root, NoRoom) or not root.weights_bytes or not root.available_bytes:
        return None
    if root.weights_bytes <= root.available_bytes:
        return None
    words = say(
        "The weights take {weights}; the engine may use {available}.",
        weights=show(root.weights_bytes),
        available=show(root.available_bytes),
    )
    return Seen(words=words, evidence=(root,))


@sign
def weights_by_their_name_fill_the_card(crash: Crash) -> Seen | None:
    """An engine that allocates outside PyTorch was refused while PyTorch laid out a weight, and in 16 bits the weights
    of a model of that name take 85 % of the GPU or more: before any KV cache."""
    engine, it = outside_pytorch(crash.job.frameworks), card(crash)
    count = billions(crash.context.models)
    if engine is None or count is None or not it.total_bytes or not innermost(crash, _LAYS_OUT):
        return None
    if any(map(has_few_bits, crash.context.models)) or crash.setting(*_OTHER_WEIGHTS) is not None:
        return None
    weights = round(count * 1e9) * training.WEIGHT_BYTES
    if weights < NEARLY_ALL * it.total_bytes:
        return None
    words = say(
        "{billions} B parameters (from the model's name) x {each} bytes = {weights} of weights; the GPU has {total}. "
        "{engine} was still laying them out, before its KV cache.",
        billions=f"{count:g}", each=training.WEIGHT_BYTES, weights=show(weights), total=show(it.total_bytes),
        engine=engine.title,
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,), stage="model_load")


@sign
def weights_left_off_the_card(crash: Crash) -> Seen | None:
    """The loader's own plan has no room on the GPU for part of the weights."""
    root = crash.root
    if not isinstance(root, DeviceRefusal) or root.layer != "dispatch":
        return None
    words = say("By the loader's plan, part of the weights does not fit on the GPU.")
    return Seen(words=words, evidence=(root,), stage="model_load")


@sign
def executor_without_weights(crash: Crash) -> Seen | None:
    """TensorRT-LLM says that it could not load the weights on the GPU."""
    failed = crash.first(CreationFailed)
    if failed is None or failed.stage != "model_load":
        return None
    words = (
        say(
            "The model's weights could not be loaded on the GPU, which had {free} free before.",
            free=show(failed.free_bytes),
        )
        if failed.free_bytes is not None
        else say("The model's weights could not be loaded on the GPU.")
    )
    return Seen(words=words, evidence=(failed,), stage="model_load")


@sign
def message_says_that_the_model_is_too_large(crash: Crash) -> Seen | None:
    """The program itself says that it could not load the model, or that the model is too large."""
    said = _TOO_LARGE.search(crash.root.at.text)
    if said is None or crash.pool != "gpu":
        return None
    return Seen(words=say("The program itself says: {words}.", words=said[0]), evidence=(crash.root,))


@sign
def refused_by_vllm(crash: Crash) -> Seen | None:
    """vLLM failed while it loaded the weights, for which it had checked that its share of the GPU was free."""
    failed = crash.first(WeightsDoNotFit)
    if failed is None or failed is not crash.root:
        return None
    words = say("vLLM had found its share of the GPU free and ran out of it while it loaded the weights.")
    return Seen(words=words, evidence=(failed,))


@sign
def executors_weights_fill_the_card(crash: Crash) -> Seen | None:
    """TensorRT-LLM's first allocation finds almost nothing free: the weights were there before."""
    failed = crash.first(CreationFailed)
    if (
        failed is None
        or failed.stage not in ("memory_profiling", "engine_init")
        or failed.free_bytes is None
        or not failed.total_bytes
    ):
        return None
    if failed.free_bytes > LITTLE * failed.total_bytes:
        return None
    words = say(
        "{free} of {total} was free after loading the weights, before anything else was set up.",
        free=show(failed.free_bytes),
        total=show(failed.total_bytes),
    )
    return Seen(words=words, evidence=(failed,))


@sign
def no_step_beside_the_weights(crash: Crash) -> Seen | None:
    """LMDeploy says that its smallest step does not fit beside the weights."""
    root = crash.root
    if not isinstance(root, EngineShort) or root.what != "runtime":
        return None
    words = say("With the weights on the GPU, not even the engine's smallest step fits.")
    return Seen(words=words, evidence=(root,))


@sign
def refused_while_laying_out_weights(crash: Crash) -> Seen | None:
    """TurboMind failed in the code that allocates its weights; it prints no figures."""
    root = crash.root
    if not isinstance(root, DeviceRefusal) or not (root.source or "").startswith(WEIGHTS_SOURCE):
        return None
    if crash.stage != "model_load":
        return None
    return Seen(
        words=say("GPU memory ran out while the engine allocated the model's weights, before its other parts."),
        evidence=(root,),
        against=(_what_else_may_hold_it(crash),),
    )


def _what_else_may_hold_it(crash: Crash) -> str:
    if is_in_a_notebook(crash):
        return say("the message does not say how much was free before: an earlier cell may still hold the GPU")
    return say("the message does not say how much was free before")


@sign
def refused_to_tensorrt(crash: Crash) -> Seen | None:
    """TensorRT requests memory for an engine's weights, and for the workspace of the largest batch."""
    if not isinstance(crash.root, LibraryOutOfMemory) or crash.root.library != "TensorRT":
        return None
    sizes = [event.tried_bytes for event in crash.every(LibraryOutOfMemory) if event.tried_bytes]
    words = (
        say(
            "TensorRT requested {tried} in one allocation while building or loading an engine: for its "
            "weights, or for the workspace of its largest batch.",
            tried=show(max(sizes)),
        )
        if sizes
        else say(
            "TensorRT requested more memory than available while building or loading an engine: for its "
            "weights, or for the workspace of its largest batch."
        )
    )
    return Seen(
        words=words,
        evidence=(crash.root,),
        against=(say("the message does not say which of the two"),),
        stage="engine_init" if crash.stage == "unknown" else None,
    )


@sign
def loading_fills_the_card(crash: Crash) -> Seen | None:
    """Loading weights or states on the GPU failed; this process fills 70% of the GPU, or the allocation would."""
    return _filled(crash) if _is_decided(crash) else None


@sign
def loading_meets_a_full_card(crash: Crash) -> Seen | None:
    """Loading weights or states on the GPU failed; this process holds half of the GPU, or the log does not say."""
    return _filled(crash)


def _filled(crash: Crash) -> Seen | None:
    event, words = _refused(crash), _put_on_the_card(crash)
    if event is None or words is None or _others_fill(crash):
        return None
    stage = "model_load" if crash.stage == "unknown" else None
    held = joined((words, _held(crash)))
    frame = crash.doing.because
    if crash.stage != "model_load" or not crash.doing.weak or not isinstance(frame, Frame):
        return Seen(words=held, evidence=(event,), stage=stage)
    doubt = say("only the frame {function} speaks of loading; other work passes there, too", function=frame.function)
    return Seen(words=held, evidence=(event,), against=(doubt,), unsure=True)


@sign
def building_on_the_card(crash: Crash) -> Seen | None:
    """The traceback ends in a constructor or the like, and shows nothing else."""
    event = _refused(crash)
    if event is None or not _builds(crash) or _others_fill(crash):
        return None
    words = say(
        "The traceback ends in {function}, which moves models to the GPU and computes nothing: {asked}.",
        function=crash.root.around.trace[-1].function,
        asked=asked(card(crash)),
    )
    against = (say("the traceback does not show what was moved to the GPU"),)
    return Seen(words=joined((words, _held(crash))), evidence=(event,), against=against)


@sign
def another_loader_was_refused(crash: Crash) -> Seen | None:
    """An allocator that prints no figures of the GPU was refused in a frame that loads a model, or a load failed with
    it."""
    root, doing = crash.root, crash.doing
    if not isinstance(root, DeviceRefusal | LibraryOutOfMemory | Shortage) or root.pool != "gpu":
        return None
    if crash.stage != "model_load" or doing.weak:
        return None
    if not isinstance(doing.because, Frame) and (crash.job.runs_engine or doing.because not in root.around.below):
        return None  # what was begun above may be over, and an engine may fill the GPU
    if refused_at_the_drivers_start(crash) is not None or _STARTS_UP.search(root.at.text) is not None:
        return None
    words = (
        say("GPU memory ran out while {function} loaded a model.", function=doing.because.function)
        if isinstance(doing.because, Frame)
        else say("GPU memory ran out while a model was loaded.")
    )
    return Seen(
        words=words,
        evidence=(root,),
        against=(say("the log does not say how much was free"),),
        knobs=_OF_A_CACHE if _WITH_ITS_CACHE.search(root.at.text) else (),
    )


@sign
def program_makes_its_model(crash: Crash) -> Seen | None:
    """It makes tensors of the GPU the default, then the model, and then prints how long loading took, as Llama.build
    does in llama/generation.py."""
    event, it = _refused(crash), card(crash)
    if event is None or not some(crash.job.frameworks, "says when it has loaded") or crash.stage != "unknown":
        return None
    if crash.mentions(_MAKES) is None or crash.mentions(_HAS_MADE) is not None:
        return None
    words = say(
        "The program had begun to make its model on the GPU, and had not yet said that it was loaded: {asked}.",
        asked=asked(it),
    )
    doubt = say("the traceback does not show what was moved to the GPU")
    return Seen(words=joined((words, _held(crash))), evidence=(event,), against=(doubt,), stage="model_load")


@sign
def live_tensors_beyond_any_share(crash: Crash) -> Seen | None:
    """PyTorch tensors fill an engine's GPU to 99%, or 20% beyond its share, before its cache exists."""
    event, it = _refused(crash), card(crash)
    share = it.share(it.live_bytes)
    if event is None or share is None or share < beyond_share(facts(crash).share):
        return None
    starting = crash.stage in ("unknown", "engine_init") and phase(crash) is None
    if not starting or _puts(crash) or not (crash.job.in_engine or crash.job.in_reserving_engine):
        return None
    repacks = crash.shows(_REPACKS)
    words = (
        say(
            "PyTorch tensors take {live}, {share} of the GPU while the engine repacks its weights, before it has a "
            "cache.",
            live=show(it.live_bytes or 0),
            share=percent(share),
        )
        if repacks
        else say(
            "PyTorch tensors take {live}, {share} of the GPU. A KV cache cut to its share leaves more free, so the "
            "engine was still loading or profiling.",
            live=show(it.live_bytes or 0),
            share=percent(share),
        )
    )
    return Seen(
        words=words,
        evidence=(event,),
        against=() if repacks else (say("the traceback does not show what the engine was doing"),),
        stage="model_load" if repacks else "engine_init" if crash.stage == "unknown" else None,
    )


@sign
def one_piece_on_an_empty_card(crash: Crash) -> Seen | None:
    """A single allocation is larger than the GPU, of which this process holds less than 5%, and no frame shows a
    computation: no batch has run."""
    event, it = _refused(crash), card(crash)
    if event is None or it.tried_bytes is None or it.total_bytes is None or it.tried_bytes <= it.total_bytes:
        return None
    held = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    training = crash.stage in TRAINING_STAGES or phase(crash) in ("backward", "optimizer")
    if (
        (held or it.used_bytes or 0) >= EMPTY * it.total_bytes
        or training
        or _puts(crash)
        or in_its_own_computation(crash) is not None
    ):
        return None
    words = say(
        "One allocation requested {tried}, more than the {total} of the whole GPU.",
        tried=show(it.tried_bytes),
        total=show(it.total_bytes),
    )
    mine = say("This process held {mine}.", mine=show(held)) if held is not None else ""
    words = joined((words, mine))
    return Seen(words=words, evidence=(event,), against=(say("one tensor of a wrong shape can be as large"),))


@sign
def a_card_for_no_model(crash: Crash) -> Seen | None:
    """The whole GPU has less than a GiB: what the firmware sets aside for an integrated one, and no card of its own."""
    event, it = _refused(crash), card(crash)
    if event is None or it.total_bytes is None or it.total_bytes >= SET_ASIDE:
        return None
    words = say(
        "The whole GPU has {total}, like an integrated one for which the firmware (BIOS) sets aside little of the RAM. "
        "The weights of a model of today do not fit.",
        total=show(it.total_bytes),
    )
    return Seen(words=words, evidence=(event,), knobs=_WHERE_LITTLE_IS_SET_ASIDE)


@sign
def live_tensors_before_any_step(crash: Crash) -> Seen | None:
    """PyTorch tensors fill 95% of the GPU, and the log shows the start of the job but no step."""
    event, it = _refused(crash), card(crash)
    share = it.share(it.live_bytes)
    if event is None or share is None or not LIVE <= share <= 1 or (it.tried_bytes or 0) <= STRAW:
        return None
    shown = crash.stage != "unknown" or phase(crash) is not None or stepped(crash) or crash.job.in_engine
    if shown or not _start_is_shown(crash) or _puts(crash) or its_states_are_little_of_the_tensors(crash):
        return None
    words = say(
        "PyTorch tensors take {live}, {share} of the GPU, and the log shows no step of the job. Models and "
        "training states are allocated first.",
        live=show(it.live_bytes or 0),
        share=percent(share),
    )
    doubt = say("the log does not show what the job was doing")
    knobs = _OF_WEIGHTS_OR_A_STEP if nothing_is_trained(crash) is None else ()
    return Seen(words=words, evidence=(event,), against=(doubt,), knobs=knobs)


def _start_is_shown(crash: Crash) -> bool:
    """Whether a step would stand in the log, had there been one: a paste of the message alone shows nothing."""
    if any(setting.outside is None for setting in crash.context.settings.values()):
        return True
    before = crash.root.around.before
    return sum(bool(line.strip()) and not OF_A_TRACEBACK.match(line) for line in before) >= START


@sign
def beyond_loading(crash: Crash) -> Seen | None:
    """The job computed, served, saved or gave its optimizer a saved state: its weights were on the GPU."""
    if _refused(crash) is None or not _is_later(crash) or one_piece_on_an_empty_card(crash):
        return None
    if a_card_for_no_model(crash) is not None:
        return None
    if weights_hold_most(crash) is not None:
        return None
    return Seen(words=say("the weights were already on the GPU: the job had passed loading"))


def _is_later(crash: Crash) -> bool:
    if in_code_that_loads_an_optimizers_state(crash) is not None:
        return True
    later = crash.stage in LATER_THAN_LOADING or phase(crash) in ("backward", "optimizer")
    return later and not _puts(crash)


@sign
def nothing_is_trained(crash: Crash) -> Seen | None:
    """The log shows neither a trainer nor training states: there are no states to shard."""
    frames = crash.in_trace(STATES) or crash.in_trace(_TRAINER)
    return None if crash.job.trains or frames else Seen(words="")


def _refused(crash: Crash) -> DeviceOutOfMemory | None:
    """The allocator's refusal, where no engine says itself for what."""
    return None if warm_up_short(crash) or executor_without_weights(crash) else refusal(crash)


def _puts(crash: Crash) -> bool:
    return _builds(crash) or _put_on_the_card(crash) is not None


def _builds(crash: Crash) -> bool:
    return crash.stage == "model_load" and phase(crash) is None and places_a_model(crash.root.around.trace)


def _put_on_the_card(crash: Crash) -> str | None:
    """What of the model was being put on the card when it was full."""
    busy, refused = phase(crash), asked(card(crash))
    if _builds(crash):
        return None
    if busy == "load" or (crash.stage == "model_load" and busy is None):
        return say("GPU memory ran out while the weights were loading: {asked}.", asked=refused)
    if busy is None and crash.in_trace(STATES):
        return say(
            "GPU memory ran out while the trainer allocated weights, gradients and optimizer states: {asked}.",
            asked=refused,
        )
    if busy is None and innermost(crash, MOVE, 2) and not crash.job.in_engine and crash.stage != "data_load":
        return say("GPU memory ran out while the model was moved to the GPU: {asked}.", asked=refused)
    return None


def _others_fill(crash: Crash) -> bool:
    """Whether this process holds less than half of the card, and what it asked for would fit on it."""
    it = card(crash)
    share = it.share(it.own_bytes or it.reserved_bytes or it.allocated_bytes)
    return share is not None and share < OWN_PART and (it.tried_bytes or 0) < (it.total_bytes or 0)


def _is_decided(crash: Crash) -> bool:
    it = card(crash)
    share = it.share(it.own_bytes or it.reserved_bytes or it.allocated_bytes)
    larger = it.tried_bytes is not None and it.total_bytes is not None and it.tried_bytes > it.total_bytes
    return larger or (share is not None and share >= FULL)


def _held(crash: Crash) -> str:
    it = card(crash)
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share = it.share(mine)
    if mine is None or not share:
        return ""
    return say("This process held {mine} of it ({share}).", mine=show(mine), share=percent(share))
