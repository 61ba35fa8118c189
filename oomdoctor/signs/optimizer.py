"""The optimizer's step, and the states that it makes there."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.first_step import states_of_the_first_step_on_the_cpu
from oomdoctor.signs.snapshot import optimizer_states_hold_most
from oomdoctor.signs.trace import asked, card, innermost, phase, refusal, where

_FIRST_STEP = r"_init_group|zeros_like\(|\[[\"']exp_avg|initialize_optimizer_states|init_state|get_state_buffer"
# The loop over whole lists of tensors, PyTorch's default since 2.0, makes temporary copies as large as the parameters:
# torch/optim/adamw.py, "foreach"
COPIES: Final = (
    r"(?:_multi_tensor_adamw?\b|\bexp_avg)[^\n]{0,400}\b_foreach_|\b_foreach_[^\n]{0,200}\bexp_avg"  # Adam's
)
_ON_THE_CPU: Final = ("torch", "c++")
OTHERS: Final = ("forward", "backward", "logprob", "eval", "serving")


@sign
def host_memory_of_no_refusal(crash: Crash) -> Seen | None:
    """Host memory ran out, and it was not PyTorch on the CPU that was refused it, or was killed in training on it:
    states that are offloaded, and other kills, have causes of their own."""
    root = crash.root
    on_the_cpu = isinstance(root, HostAllocation) and root.allocator in _ON_THE_CPU
    if crash.pool not in RAM or on_the_cpu or states_of_the_first_step_on_the_cpu(crash) is not None:
        return None
    return Seen(words="")


@sign
def in_the_optimizer(crash: Crash) -> Seen | None:
    """The traceback shows the optimizer, and perhaps that it creates its states."""
    if phase(crash) != "optimizer":
        return None
    refused = asked(card(crash))
    failed = (
        say("In the optimizer step, {asked}.", asked=refused)
        if crash.in_trace(_FIRST_STEP) is None
        else say("While the optimizer created its states, in its first step, {asked}.", asked=refused)
    )
    stay = (
        say("Adam keeps two more values per parameter for the rest of the run.")
        if copies_of_whole_lists(crash) is None
        else say("It updates all parameters at once (foreach), with temporary copies as large as they are.")
    )
    return Seen(
        words=joined((failed, stay)),
        evidence=(refusal(crash) or crash.root,),
        stage="optimizer_step" if crash.stage == "unknown" else None,
    )


@sign
def copies_of_whole_lists(crash: Crash) -> Seen | None:
    """The optimizer was making a temporary copy of all its tensors, and no state."""
    return Seen(words="") if innermost(crash, COPIES, depth=1) else None


@sign
def stage_of_the_optimizer(crash: Crash) -> Seen | None:
    """The stage is the optimizer step, though no stack frame shows it."""
    if crash.stage != "optimizer_step":
        return None
    words = say("In the optimizer step, {asked}.", asked=asked(card(crash)))
    return Seen(words=words, evidence=(refusal(crash) or crash.root,))


@sign
def another_stage_than_the_optimizers(crash: Crash) -> Seen | None:
    """The stage is a pass, or serving, and no stack frame shows the optimizer."""
    if crash.stage not in OTHERS or phase(crash) == "optimizer" or optimizer_states_hold_most(crash):
        return None
    return Seen(words=say("the job failed {where}, not in the optimizer step", where=where(crash)))
