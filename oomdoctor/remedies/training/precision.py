"""Weights and passes in 16 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import driven
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.remedies import own_options
from oomdoctor.remedies.in_force import half_precision
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.own_options import own_option
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.remedies.settings import Spelling
from oomdoctor.remedies.training.batches import WITHOUT_TRAINING
from oomdoctor.signs.arrays import told_by_a_compiler
from oomdoctor.signs.node import wide_reward_model
from oomdoctor.signs.offload import refused_for_parameters_on_the_host
from oomdoctor.units import show

_AUTOCAST: Final = "autocast"
_TO_32_BITS: Final = late(r"\.float\(\)|\.(?:to|type)\((?:dtype=)?torch\.float(?:32)?\)")
_OF_A_REWARD_MODEL: Final = "reward-model-ram-hog"  # a cause
_TOO_LARGE: Final = "model-does-not-fit"
_OF_WEIGHTS: Final = (_TOO_LARGE, "optimizer-states")  # causes
_WITH_WEIGHTS: Final = ("model_load", "optimizer_step")  # stages
_MIXED: Final = frozenset({"bf16", "fp16", "amp", "use_amp", "mixed_precision"})
# accelerate/accelerator.py, prepare_model: outputs are converted where passes run in 16 bits, and only there
_RUNS_MIXED: Final = (
    r"grad_scaler|GradScaler|autocast_mode|\bscaler\.(?:scale|step)\(|with (?:torch\.)?(?:cuda\.amp\.)?autocast"
    r"|\b_convert_to_fp32\b|\bconvert_outputs_to_fp32\b"
)
# model.to: torch/nn/modules/module.py; tree_map: jax/_src/tree_util.py
_TO_16_BITS: Final[Mapping[str, str]] = {
    "torch": "model = model.to(torch.bfloat16)",
    "jax": "params = jax.tree_util.tree_map(lambda p: p.astype(jax.numpy.bfloat16), params)",
}
_FULL_PRECISION: Final = ("float32", "float", "fp32")


def lower_precision(case: Case) -> Answer:
    """Of a reward model by its own setting, else as the job's framework has it."""
    return _half_the_reward_model(case.crash) if case.cause == _OF_A_REWARD_MODEL else _lower(case)


def _lower(case: Case) -> Answer:
    """Where nothing is trained, the weights alone; an engine has an option for it, and no code. On the CPU autocast
    keeps the weights as they are."""
    crash, row = case.crash, case.row
    in_code = row is None or row.is_call
    if refused_for_parameters_on_the_host(crash) is not None:
        return _half_while_they_load(crash)
    if crash.job.in_engine and in_code:
        stated = crash.setting("dtype")
        if stated is None or stated.value not in _FULL_PRECISION:
            return Skip()
        return Proposal(suggested="bfloat16", setting="--dtype", current=stated.value, snippet="--dtype bfloat16")
    on_the_host = crash.pool in RAM and crash.job.world == "torch"
    if case.cause in _OF_WEIGHTS or crash.stage in _WITH_WEIGHTS or on_the_host:
        weights = _half_the_weights(case)
        if weights is not None:
            return weights
    elif (on := _mixed_already(crash)) is not None:
        return Refusal(say("mixed precision is on already ({place})", place=on))
    elif row is not None and row.is_call and _AUTOCAST in row.write:
        if _asks_for_32_bits(crash):
            return Skip()  # what is written out is done under autocast, too
        return Proposal(action=say("Compute in bf16 where that is safe (autocast; the weights stay as they are)"))
    if crash.job.task not in WITHOUT_TRAINING or row is not None:
        return None
    return Proposal(action=say("Load the weights in bf16 instead of fp32"))


def _half_the_reward_model(crash: Crash) -> Answer:
    """By its own setting, and not the trainer's, which is of other models."""
    stated = wide_reward_model(crash)
    if stated is None:
        return Skip()
    return Proposal(
        action=say("Load the reward model in 16 bits: {name} {now} -> bfloat16", name=stated.name, now=stated.value),
        current=stated.value,
        suggested="bfloat16",
        setting=stated.name,
        derivation=say("2 bytes of each weight instead of 4"),
        cost=say("lower precision; slow on CPUs without bf16 instructions"),
    )


def _asks_for_32_bits(crash: Crash) -> bool:
    """The innermost line itself makes a copy in float32."""
    return crash.root.around.trace[-1:] != () and _TO_32_BITS.search(crash.root.around.trace[-1].code or "") is not None


def _half_while_they_load(crash: Crash) -> Proposal:
    """All parameters in one piece: a copy in 16 bits is half of it."""
    root = crash.root
    tried = root.tried_bytes if isinstance(root, HostAllocation) else None
    return Proposal(
        action=say("Load the weights in bf16 instead of fp32"),
        snippet="from_pretrained(..., torch_dtype=torch.bfloat16)",
        setting="",
        derivation=say("{tried} / 2 = {half}", tried=show(tried), half=show(tried // 2)) if tried else None,
        assumes=(say("the weights are in float32 now"),),
    )


def _half_the_weights(case: Case) -> Answer:
    """Mixed precision keeps the weights and the optimizer's states in 32 bits: they have to be converted themselves."""
    crash, row = case.crash, case.row
    if (why := half_precision(crash)) is not None:
        return Refusal(why)
    if own_option(case.knob, crash) is not None:
        own = own_options.proposal(case.knob, KNOBS[case.knob].action, crash)
        slow = say("lower precision; slow on CPUs without bf16 instructions")
        return replace(own, cost=slow) if own is not None and crash.pool in RAM else own
    if row is not None and not row.is_call and not is_mixed(row):
        return None
    line = _TO_16_BITS.get(crash.job.world)
    if line is None or driven(crash.job.frameworks) or told_by_a_compiler(crash):
        of_any_library = row is None and case.cause == _TOO_LARGE
        return _load_in_16_bits(None) if of_any_library else Skip()
    of_states = case.cause != _TOO_LARGE and crash.job.task not in WITHOUT_TRAINING and crash.job.world == "torch"
    if row is not None and of_states:
        action = say(
            "Convert the weights to bf16 before the optimizer is created: autocast leaves them and Adam in fp32"
        )
        return Proposal(action=action, snippet=line, setting="")
    return _load_in_16_bits(line)


def _load_in_16_bits(line: str | None) -> Proposal:
    """In which type they are now, hardly a log prints."""
    assumed = (say("the weights are in float32 now"),)
    return Proposal(
        action=say("Load the weights in bf16 instead of fp32"),
        snippet=line,
        setting="" if line else None,
        assumes=assumed,
    )


def is_mixed(row: Spelling) -> bool:
    """Whether the option lets the library choose the type of each operation, and not that of the weights."""
    return "mixed" in row.shown or row.key.rsplit(".", 1)[-1].lower() in _MIXED or ".AMP." in row.write


def _mixed_already(crash: Crash) -> str | None:
    """Where the traceback shows that the passes run in 16 bits."""
    frame = crash.in_trace(_RUNS_MIXED)
    return f"{frame.file.rpartition('/')[2]}:{frame.line}" if frame is not None else None
