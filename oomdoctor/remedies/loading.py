"""A failure inside a loader: what reaches it are the arguments of that call, and what is done to the weights before.

What is called with a loaded model (FSDP, torchao's quantize_) comes too late where the loader itself fails.
Looked up in transformers/modeling_utils.py 4.57.1 and 5.7.0 (`torch_dtype` is kept beside `dtype`; float32 is the
default before 5), accelerate/utils/modeling.py 1.11 (`device_map`), torch/nn/modules/module.py 2.9, 2026-11.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.incident.card import card_of
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import driven
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies.in_force import half_precision, merges
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.split import whole_on_one
from oomdoctor.remedies.training.precision import is_mixed
from oomdoctor.units import show

_FROM_A_CHECKPOINT: Final = (
    r"\bfrom_pretrained\b|_load_pretrained_model|_load_state_dict_into_meta_model|set_module_tensor_to_device"
    r"|\bload_checkpoint_(?:in_model|and_dispatch)\b"
)
_MOVES: Final = r"[/\\]torch[/\\]nn[/\\]modules[/\\]module\.py .*\bt\.(?:to|cuda)\("
_PARTS: Final = late(r"Loading checkpoint shards:\s{1,4}\d{1,3}%.{0,120}?\s(\d{1,5})/(\d{1,5})\s\[")
_PIPELINES: Final = "diffusers"  # whose device_map knows other words
_OWN_DEVICES: Final = r"device_map\s?=\s?[\"']auto"
_BITSANDBYTES: Final = "CUDA"  # the devices whose 8-bit weights are not experimental
_QUANTIZED: Final = "quantization_config=BitsAndBytesConfig(load_in_{bits}bit=True)"
_HALF: Final = 2
_QUARTER: Final = 4
_CALL: Final = "from_pretrained(..., {argument})"
_TRAINING: Final = ("training", "rl")  # tasks
_INFERENCE: Final = ("inference", "serving")
_SPLIT: Final = "tensor-parallel"
_SHARDS: Final = "shard-states"
_TOO_LARGE: Final = "model-does-not-fit"
# What is called with the model once it is there
_AFTERWARDS: Final = ("shard-states", "lora")


class Whole(NamedTuple):
    """All weights, by what the shards hold that are loaded already."""

    bytes: int
    formula: str


def from_a_checkpoint(crash: Crash) -> bool:
    """A library's loader puts the weights on the GPU itself, while it reads them."""
    if not _loads(crash):
        return False
    return crash.in_trace(_FROM_A_CHECKPOINT) is not None or parts_loaded(crash) is not None


def moved_whole(crash: Crash) -> bool:
    """The model is there, and moves to the GPU as one."""
    return _loads(crash) and crash.in_trace(_MOVES) is not None


def _loads(crash: Crash) -> bool:
    of_torch = isinstance(crash.root, DeviceOutOfMemory) and crash.job.world == "torch"
    return of_torch and crash.stage == "model_load" and not (crash.job.in_engine or crash.job.runs_engine)


def parts_loaded(crash: Crash) -> tuple[int, int] | None:
    """How many shards were loaded, of how many."""
    line = crash.mentions(_PARTS.pattern)
    found = _PARTS.search(line) if line is not None else None
    return (int(found[1]), int(found[2])) if found is not None else None


def whole(crash: Crash) -> Whole | None:
    """Shards of one checkpoint are about equally large."""
    parts, root = parts_loaded(crash), crash.root
    if parts is None or not isinstance(root, DeviceOutOfMemory) or not root.allocated_bytes:
        return None
    done, all_parts = parts
    if not 0 < done < all_parts:
        return None
    size = round(root.allocated_bytes * all_parts / done)
    formula = say(
        "{held} after {done} of {all} shards: about {size} in all",
        held=show(root.allocated_bytes),
        done=done,
        all=all_parts,
        size=show(size),
    )
    return Whole(size, formula)


def in_its_order(knobs: Sequence[str], cause: str, crash: Crash) -> Sequence[str]:
    """What the loader's call takes goes first; before it that the model is split, where it should be and is not."""
    if _SPLIT in knobs and whole_on_one(crash) is not None:
        return (_SPLIT, *(knob for knob in knobs if knob != _SPLIT))
    if cause == _TOO_LARGE and _SHARDS in knobs and _of_one_rank(crash):
        return (_SHARDS, *(knob for knob in knobs if knob != _SHARDS))
    if cause != _TOO_LARGE or crash.job.task in _TRAINING or not (from_a_checkpoint(crash) or moved_whole(crash)):
        return knobs
    smaller = ("mixed-precision", "quantize-weights")
    order = (
        (_SPLIT, *smaller, "offload-parameters")
        if _half_is_too_much(crash)
        else (*smaller, _SPLIT, "offload-parameters")
    )
    known = tuple(knob for knob in order if knob in knobs)
    return (*known, *(knob for knob in knobs if knob not in known))


def _of_one_rank(crash: Crash) -> bool:
    """Whether all weights go to one GPU that is not the first, as they do in each rank of a training job; what only
    infers takes the first GPU, or all of them."""
    later = (crash.root.process.gpu or 0) > 0 and crash.job.task not in _INFERENCE
    return later and from_a_checkpoint(crash) and _half_is_too_much(crash)


def _half_is_too_much(crash: Crash) -> bool:
    """Whether half of the weights is more than one device has: those of the next smaller type do not fit, either."""
    size, total = whole(crash), _total(crash)
    return size is not None and total is not None and size.bytes > _HALF * total


def _total(crash: Crash) -> int | None:
    return card_of(crash.root).total_bytes if isinstance(crash.root, DeviceOutOfMemory) else None


def reaching(case: Case) -> Answer:
    """What reaches the loader; None where it is another failure, or the knob has nothing of its own to say there."""
    function = _FUNCTIONS.get(case.knob)
    if function is None or _by_an_option(case):
        return None
    if from_a_checkpoint(case.crash):
        return function(case)
    if not moved_whole(case.crash) or case.crash.job.task in _TRAINING:
        return None
    if case.knob in _AFTERWARDS or (case.knob == "mixed-precision" and driven(case.crash.job.frameworks)):
        return Skip()  # nobody who starts a program has its line of code
    return _half_before_the_move() if case.knob == "mixed-precision" else None


def _by_an_option(case: Case) -> bool:
    """The job's program has an option for it, which reaches further than a call; not one that lets a library choose
    the type of each operation, nor one that starts more processes, each with all weights."""
    if case.knob == "more-gpus" or case.row is None or case.row.is_code:
        return False
    return case.knob != "mixed-precision" or not is_mixed(case.row)


def _half_before_the_move() -> Proposal:
    return Proposal(
        action=say("Convert the weights to half precision before they move to the GPU"),
        snippet="model = model.half()",
        setting="",
        assumes=(say("the weights are in float32 now"),),
    )


def _in_half_precision(case: Case) -> Answer:
    if (why := half_precision(case.crash)) is not None:
        return Refusal(why)
    kind = "bfloat16" if case.crash.job.task in _TRAINING else "float16"
    size, total = whole(case.crash), _total(case.crash)
    if size is not None and total is not None and _half_is_too_much(case.crash):
        return Refusal(
            say(
                "{formula}; half of it, {half}, is more than one GPU has ({total})",
                formula=size.formula,
                half=show(size.bytes // _HALF),
                total=show(total),
            )
        )
    return Proposal(
        action=say("Load the weights in half precision: an argument of the call that loads them"),
        snippet=_CALL.format(argument=f"torch_dtype=torch.{kind}"),
        setting="",
        derivation=None
        if size is None
        else say("{formula}; half of it {half}", formula=size.formula, half=show(size.bytes // _HALF)),
        assumes=(say("the weights are loaded in float32 now (the default before transformers 5)"),),
    )


def _in_fewer_bits(case: Case) -> Answer:
    root, size, total = case.crash.root, whole(case.crash), _total(case.crash)
    of_cuda = isinstance(root, DeviceOutOfMemory) and root.device == _BITSANDBYTES
    if size is None or total is None or not _half_is_too_much(case.crash):
        action = say(
            "Load the weights in 8 or 4 bits: an argument of the call that loads them, or a quantized checkpoint"
        )
        snippet = _CALL.format(argument=_QUANTIZED.format(bits=8)) if of_cuda else None
        return Proposal(action=action, snippet=snippet, setting="")
    quarter = size.bytes // _QUARTER
    if quarter > total:
        return Refusal(
            say(
                "{formula}; a quarter of it, {quarter}, is more than one GPU has ({total})",
                formula=size.formula,
                quarter=show(quarter),
                total=show(total),
            )
        )
    supported = () if of_cuda else (say("the library that quantizes supports this device"),)
    return Proposal(
        action=say("Load the weights in 4 bits: an argument of the call that loads them, or a quantized checkpoint"),
        snippet=_CALL.format(argument=_QUANTIZED.format(bits=4)) if of_cuda else None,
        setting="",
        derivation=say("{formula}; a quarter of it {quarter}", formula=size.formula, quarter=show(quarter)),
        assumes=(say("the weights are loaded in 16 bits now"), *supported),
    )


def _over_several(case: Case) -> Answer:
    """The layers lie on several GPUs of one process: processes of their own would each load all."""
    crash, size, total = case.crash, whole(case.crash), _total(case.crash)
    if _PIPELINES in crash.context.frameworks or crash.shows(_OWN_DEVICES):
        return None
    line = _CALL.format(argument='device_map="auto"')
    slow, alone = say("the GPUs compute one after another"), _in_one_process(crash)
    if size is None or total is None or size.bytes <= total:
        action = say("Spread the layers over several GPUs while they load")
        return Proposal(action=action, snippet=line, setting="", cost=slow, assumes=alone)
    count = math.ceil(size.bytes / total)
    return Proposal(
        action=say("Spread the layers over at least {count} GPUs while they load", count=count),
        snippet=line,
        setting="",
        cost=slow,
        assumes=alone,
        derivation=say("{formula}; / {total} per GPU = {count}", formula=size.formula, total=show(total), count=count),
    )


def _in_one_process(crash: Crash) -> tuple[str, ...]:
    """accelerate/accelerator.py, `prepare_model`: "in any distributed mode"."""
    if crash.job.task in _INFERENCE:
        return ()
    return (say("one process: accelerate refuses to train such a model with one process per GPU"),)


def _on_the_host(case: Case) -> Answer:
    """What is only merged and saved needs no GPU: peft/tuners/lora/model.py 0.17, `merge_and_unload`."""
    if not merges(case.crash):
        return None
    return Proposal(
        action=say("Merge in host RAM: load the weights there, merge, save, and load the result on the GPU"),
        snippet=_CALL.format(argument='device_map="cpu"'),
        setting="",
        cost=say("slower; the whole model in host RAM"),
    )


def _comes_too_late(case: Case) -> Answer:
    return Skip() if case.row is None or case.row.is_call else None


def _starts_processes(_: Case) -> Answer:
    """Each of them would load all weights; how one process takes several GPUs is said where the model is split."""
    return Skip()


_FUNCTIONS: Final[Mapping[str, Callable[[Case], Answer]]] = {
    "mixed-precision": _in_half_precision,
    "quantize-weights": _in_fewer_bits,
    "tensor-parallel": _over_several,
    "more-gpus": _starts_processes,
    "offload-parameters": _on_the_host,
    "shard-states": _comes_too_late,
    "lora": _comes_too_late,
}

__all__ = ["from_a_checkpoint", "in_its_order", "moved_whole", "parts_loaded", "reaching", "whole"]
