"""The states of training: sharded, offloaded, smaller, or over more GPUs."""

from __future__ import annotations

import math
from typing import Final

from oomdoctor.arithmetic import host as ram
from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.incident.engine_facts import phase
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among, draws
from oomdoctor.job.model import Value
from oomdoctor.language import mark, say, translated
from oomdoctor.remedies.engine.known import card_total
from oomdoctor.remedies.layers import fewer_layers
from oomdoctor.remedies.own_line import task_of
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip, already
from oomdoctor.remedies.settings import Spelling, done, of_knob
from oomdoctor.remedies.sizes import cards_of_trainer, size_of_model, size_of_trained, zero_stage
from oomdoctor.remedies.training.batches import WITHOUT_TRAINING
from oomdoctor.remedies.whatif.states import OPTIMIZER, is_on
from oomdoctor.signs.arrays import array_copied_to_one_core
from oomdoctor.signs.ggml import vision_encoder_warming_up
from oomdoctor.signs.optimizer import copies_of_whole_lists
from oomdoctor.units import show

# transformers/training_args.py, OptimizerNames: bitsandbytes has 8-bit optimizers for accelerators only
_OF_A_CARD: Final = "adamw_bnb_8bit"
_ON_THE_HOST: Final = "adafactor"
# By whose optimizers: keras/src/optimizers/sgd.py 3.15.1 keeps nothing without momentum, its Adafactor one value per
# parameter; optax/_src/factorized.py keeps rows and columns
_SMALLER_STATES: Final = {
    "tensorflow": ("keras", "optimizer = keras.optimizers.SGD(learning_rate)"),
    "jax": ("optax", "optimizer = optax.adafactor(learning_rate)"),
}
TRAINER_SLEEPS: Final = mark("Offload the trainer and empty its cache before the engine wakes up")
_SLEEP: Final = "enable_sleep"  # of the trainer's options: deepspeed_enable_sleep, ds.enable_sleep
_TRAINERS_FSDP: Final = "--fsdp {}"
_OFFLOAD: Final = "offload"
_STATES: Final = "optimizer-states"  # a cause
_BY_LISTS: Final = "foreach"
# In a frame, an option or a line, by whichever library: ColossalAI's, FairScale's or PyTorch's own
_SHARED_OUT: Final = r"(?i)\bzero[-_]?[123]?\b|zero[123]|zeroredundancy|\bfsdp\b|shard"
_UNITS: Final = "auto_wrap_policy"
_IN_32_BITS: Final = "fp32_cpu_offload"


def more_gpus(case: Case) -> Answer:
    """As many as the model's states need, in a job that may train it."""
    crash = case.crash
    if draws(crash.job.frameworks) or _has_all_on_each_card(case):
        return Skip()
    if crash.job.task in WITHOUT_TRAINING:
        return None
    size, total = size_of_model(crash), card_total(crash)
    cards = cards_of_trainer(crash)
    if size is None or total is None:
        return None
    needed = math.ceil(arithmetic.STATES_BYTES * size.parameters / (0.8 * total))
    if cards is not None and needed <= cards:
        return None  # the states fit; what else is missing cannot be computed
    return Proposal(
        action=say("Train on at least {count} GPUs", count=needed),
        current=cards,
        suggested=needed,
        derivation=say(
            "ceil(18 bytes x {size} / 80 % of {total}) = {count}", size=size.billions, total=show(total), count=needed
        ),
        assumes=(size.source, say("all states are sharded"), say("20 % of the GPU for activations")),
    )


def _has_all_on_each_card(case: Case) -> bool:
    """States of a program that trains on several GPUs by data parallelism alone: each of them has all of them
    (torch/nn/parallel/distributed.py), however many they are."""
    around = [each for each in among(case.crash.job.frameworks) if each.layer in ("program", "states")]
    sharded = any(any(of_knob("shard-states", each.name)) for each in around) or case.crash.shows(_SHARED_OUT)
    return case.cause == _STATES and not sharded and any(each.layer == "program" for each in around)


def low_memory_optimizer(case: Case) -> Answer:
    """bitsandbytes' 8-bit states are a card's; PyTorch has Adafactor for both. Some options keep 16 bits, and no 8."""
    if (case.row is None or case.row.is_call) and copies_of_whole_lists(case.crash) is not None:
        return Proposal(
            action=say("Let the optimizer update the parameters in place (fused), without copies of its states"),
            snippet="optimizer = torch.optim.AdamW(model.parameters(), fused=True)",
            assumes=(say("PyTorch >= 2.0 (not printed)"),),
            cost=say("none"),
        )
    if (one_by_one := _one_by_one(case)) is not None:
        return one_by_one
    if case.row is None and case.crash.job.world in _SMALLER_STATES:
        states, snippet = _SMALLER_STATES[case.crash.job.world]
        named = states in case.crash.context.frameworks
        action = say("Use an optimizer with smaller states (Adafactor, SGD)")
        return Proposal(action=action, snippet=snippet if named else None)
    line = case.row.shown if case.row is not None else ""
    if "bf16" in line and "8bit" not in line:
        return Proposal(action=say("Keep the optimizer states in bf16"), suggested=_as_spelled(case))
    if case.crash.pool in RAM and case.row is not None and case.row.value == _OF_A_CARD:
        return Proposal(
            action=say("Use an optimizer with smaller states (Adafactor)"),
            current=case.now.value if case.now is not None else None,
            suggested=_ON_THE_HOST,
        )
    if case.crash.pool not in RAM or case.crash.job.world != "torch" or (case.row is not None and not case.row.is_call):
        return None
    return Proposal(
        action=say("Use an optimizer with smaller states (Adafactor)"),
        snippet="optimizer = torch.optim.Adafactor(model.parameters())",
        assumes=(say("PyTorch >= 2.5 (not printed)"),),
    )


def _one_by_one(case: Case) -> Proposal | None:
    """A program's way to an argument of the optimizer (torch/optim/adamw.py, `foreach`), whose states stay."""
    row = case.row
    if row is None or row.is_call or copies_of_whole_lists(case.crash) is None:
        return None
    own = next((each for each in of_knob(case.knob, row.framework) if _BY_LISTS in each.write), None)
    if own is None:
        return None
    smaller = say("or smaller states, if that is not enough: {option}", option=row.snippet(row.value))
    return Proposal(
        action=say("Let the optimizer update one parameter after the other, without copies of all at once (foreach)"),
        setting=own.setting,
        suggested=f"{_BY_LISTS}=False",
        snippet=f"{own.snippet(own.value)}   # {smaller}",
        derivation="",
        cost=say("slower optimizer step"),
    )


def _as_spelled(case: Case) -> Value:
    return None if case.row is None else True if case.row.is_switch else case.row.value


def shard_states(case: Case) -> Answer:
    crash = case.crash
    if array_copied_to_one_core(crash) is not None:
        return _over_the_cores()
    if isinstance(crash.root, LibraryOutOfMemory) and task_of(crash) == "unknown":
        return Skip()  # nobody is seen to train
    if case.row is not None and case.row.key == _UNITS:
        return _in_smaller_units(crash)
    now = case.number()
    if case.now is not None and now is not None and now >= 3 and case.now.name.endswith("stage"):
        return Refusal(
            say("{name} is already {value} ({place})", name=case.name, value=f"{now:g}", place=case.now.place)
        )
    zero, model, cards = zero_stage(crash), size_of_trained(crash), cards_of_trainer(crash)
    if zero is None or model is None or cards is None or done(case.knob, crash.context) is not None:
        return _to_an_unseen_stage(case)
    stage, assumed = zero
    offloaded = is_on(crash, *OPTIMIZER)
    before, after = (
        arithmetic.states_on_gpu(model.parameters, cards, level, optimizer_offloaded=offloaded) for level in (stage, 3)
    )
    if after >= before:
        return None
    return Proposal(
        suggested=case.row.value if case.row is not None else None,
        derivation=say(
            "{bytes} bytes x {size} / {cards} GPUs = {then} per GPU instead of {now} (ZeRO-{stage})",
            bytes=arithmetic.WEIGHT_BYTES if offloaded else arithmetic.STATES_BYTES,
            size=model.billions,
            cards=cards,
            then=show(after),
            now=show(before),
            stage=stage,
        ),
        assumes=(model.source, *assumed),
    )


def _in_smaller_units(crash: Crash) -> Proposal:
    """States that are sharded already are put together by units: FlatParamHandle of torch/distributed/fsdp."""
    tried = crash.root.figures("usage").get("tried_bytes")
    asked = say("{amount} requested: the parameters of one unit", amount=show(tried)) if tried else None
    return Proposal(derivation=asked)


def _to_an_unseen_stage(case: Case) -> Proposal | None:
    """DeepSpeed's users set a stage nearly always; where the log does not show it, it may be 3 already."""
    if case.row is None or case.now is not None or "zero_optimization" not in case.row.write:
        return None
    unseen = say("the ZeRO stage is below 3 (not in the log); if it is 3 already, go to the next remedy")
    return Proposal(suggested=case.row.value, assumes=(unseen,))


def _over_the_cores() -> Proposal:
    """docs/notebooks/Distributed_arrays_and_automatic_parallelization of JAX: Mesh, NamedSharding (since 0.4.1)."""
    return Proposal(
        action=say("Split the array over the TPU's cores (sharding): one core was to hold it whole"),
        snippet="import numpy as np; from jax.sharding import Mesh, NamedSharding, PartitionSpec\n"
        'x = jax.device_put(x, NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x")))',
        assumes=(say("several cores; the first axis is divisible by their number"),),
        cost="",
    )


_WITH_A_PROJECTOR: Final = "llama.cpp"
_OF_THE_PROJECTOR: Final = "--no-mmproj-offload"  # common/arg.cpp of llama.cpp as stored in 2026


def offload_parameters(case: Case) -> Answer:
    if case.row is not None and _IN_32_BITS in case.row.write:
        return Proposal(cost=say("slower steps; 4 bytes of host RAM per parameter that lies there"))
    if vision_encoder_warming_up(case.crash) is not None and case.crash.job.frameworks[:1] == (_WITH_A_PROJECTOR,):
        return Proposal(
            action=say("Run the vision encoder on the CPU"),
            setting=_OF_THE_PROJECTOR,
            snippet=_OF_THE_PROJECTOR,
            cost=say("slower images"),
        )
    return _by_a_word_more(case) if _is_a_list_of_words(case) else fewer_layers(case)


def _is_a_list_of_words(case: Case) -> bool:
    """An option that lists how the model is sharded: transformers/training_args.py, FSDPOption."""
    return case.row is not None and case.row.write == _TRAINERS_FSDP


def _by_a_word_more(case: Case) -> Answer:
    if case.now is None:
        return None
    stated = str(case.now.value).split()
    if _OFFLOAD in stated:
        return already(case.now, case.now.value)
    then = " ".join((*stated, _OFFLOAD))
    return Proposal(current=case.now.value, suggested=then)


def offload_optimizer(case: Case) -> Answer:
    if _is_a_list_of_words(case):
        return _by_a_word_more(case)
    if set_already(case):
        return None
    model = size_of_trained(case.crash)
    if phase(case.crash) == "waking" and puts_the_trainer_to_sleep(case.row):
        return Proposal(action=translated(TRAINER_SLEEPS), suggested=True)
    if model is None:
        return None
    freed = ram.ADAM_OFFLOAD_BYTES * model.parameters
    return Proposal(
        suggested=_as_spelled(case),
        derivation=say("12 bytes x {size} = {amount} moved to host RAM", size=model.billions, amount=show(freed)),
        assumes=(model.source,),
    )


def puts_the_trainer_to_sleep(row: Spelling | None) -> bool:
    """Whether the option moves the states away only while the engine works: openrlhf/trainer/ray/launcher.py."""
    return row is not None and row.key.endswith(_SLEEP)


def set_already(case: Case) -> bool:
    return case.now is not None and case.now.value not in (False, None, "none", "None")
