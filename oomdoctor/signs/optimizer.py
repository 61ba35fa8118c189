"""The optimizer's step, and the states that it makes there."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic.training import FULL_PRECISION_BYTES
from oomdoctor.families.container import LimitKill
from oomdoctor.families.event import RAM
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import own_lines
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import FREE
from oomdoctor.signs.first_step import (
    adams_states_come_next,
    memory_in_all,
    parameters_of,
    states_of_the_first_step_on_the_cpu,
    states_weigh_most,
)
from oomdoctor.signs.snapshot import optimizer_states_hold_most
from oomdoctor.signs.trace import asked, card, checked, innermost, phase, refusal, where
from oomdoctor.units import GIB, show

_FIRST_STEP = r"_init_group|zeros_like\(|\[[\"']exp_avg|initialize_optimizer_states|init_state|get_state_buffer"
# The loop over whole lists of tensors, PyTorch's default since 2.0, makes temporary copies as large as the parameters:
# torch/optim/adamw.py, "foreach"
COPIES: Final = (
    r"(?:_multi_tensor_adamw?\b|\bexp_avg)[^\n]{0,400}\b_foreach_|\b_foreach_[^\n]{0,200}\bexp_avg"  # Adam's
)
_ZERO_BEGINS: Final = r"\b_configure_zero_optimizer\b|\bDeepSpeedZeroOptimizer\("
_LBFGS: Final = late(r"(?i)(?<![a-z])l-?bfgs(?![a-z])")
_VECTORS: Final = 2  # torch/optim/lbfgs.py: old_dirs and old_stps
_MUCH: Final = GIB // 2
_DOUBLE: Final = ("float64", "torch.float64", "double", "fp64", "64")
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
    if adams_states_come_next(crash) is not None:
        return None
    if states_weigh_most(crash) is not None or lbfgs_keeps_its_history(crash) is not None:
        return None
    return Seen(words="")


@sign
def in_the_optimizer(crash: Crash) -> Seen | None:
    """The traceback shows the optimizer, and perhaps that it creates its states."""
    if phase(crash) != "optimizer" or checked(crash):
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
def zero_sets_up_its_optimizer(crash: Crash) -> Seen | None:
    """A frame shows DeepSpeed making ZeRO's optimizer: the stages 1 and 2 hold the weights already, and keep a
    copy in fp32 and the states, each of a rank's part (deepspeed/runtime/zero/stage_1_and_2.py, `__init__`)."""
    if crash.pool != "gpu" or crash.stage != "engine_init" or not crash.shows(_ZERO_BEGINS):
        return None
    words = say(
        "While DeepSpeed set up ZeRO's optimizer, {asked}. There each rank makes the fp32 copy and the optimizer "
        "states of its part of the parameters, before the first batch.",
        asked=asked(card(crash)),
    )
    return Seen(words=words, evidence=(refusal(crash) or crash.root,), stage=crash.stage)


@sign
def paged_states_were_refused(crash: Crash) -> Seen | None:
    """bitsandbytes keeps the states of its paged optimizers in memory that the GPU and the host share: of its file
    csrc/pythonInterface.c (0.38 to 0.43, later .cpp) `cget_managed_ptr` and `cprefetch` alone check what CUDA says."""
    refused = crash.root
    if not isinstance(refused, LibraryOutOfMemory) or not (refused.source or "").startswith("pythonInterface"):
        return None
    words = say(
        "This file of bitsandbytes allocates and prefetches managed memory, which the GPU and the host share, for the "
        "states of a paged optimizer. The message does not say which of the two was full."
    )
    return Seen(words=words, evidence=(refused,), next_evidence=(FREE,))


@sign
def lbfgs_keeps_its_history(crash: Crash) -> Seen | None:
    """Host memory ran out, or a SIGKILL has no printed reason; the job works with L-BFGS, and a whole history of the
    printed length for the printed number of parameters takes 512 MiB or more."""
    if crash.pool not in RAM or not isinstance(crash.root, KernelKill | LimitKill | Kill):
        return None
    size = _history(crash)
    if size is None or size < _MUCH:
        return None
    unseen = say("no line shows what the memory was for")
    words = say(
        "L-BFGS keeps two vectors as long as all parameters for each iteration of its history: {formula} when it is "
        "full.",
        formula=size_of_history(crash, _pairs(crash) or 0),
    )
    return Seen(words=words, evidence=(crash.root,), against=(unseen,), unsure=True, stage="optimizer_step")


@sign
def lbfgs_fills_a_limit(crash: Crash) -> Seen | None:
    """The same, and the whole history takes more than the limit that the job was killed at."""
    limit = memory_in_all(crash) if isinstance(crash.root, KernelKill | LimitKill) else None
    return lbfgs_keeps_its_history(crash) if limit and (_history(crash) or 0) > limit else None


def size_of_history(crash: Crash, pairs: int) -> str:
    """The formula of what so many iterations of L-BFGS keep."""
    parameters, width = parameters_of(crash), _width(crash)
    size = show(_VECTORS * pairs * parameters * width)
    return say(
        "2 x {pairs} x {parameters:,} parameters x {width} bytes = {size}",
        pairs=pairs,
        parameters=parameters,
        width=width,
        size=size,
    )


def _history(crash: Crash) -> int | None:
    stated = (str(one.value) for one in crash.context.settings.values())
    if not any(_LBFGS.search(text) for text in (*stated, *own_lines(crash))):
        return None
    pairs = _pairs(crash)
    return _VECTORS * pairs * parameters_of(crash) * _width(crash) if pairs else None


def _width(crash: Crash) -> int:
    """Of a number, in bytes."""
    stated = crash.setting("dtype", "precision", "torch_dtype")
    return 2 * FULL_PRECISION_BYTES if stated is not None and str(stated.value) in _DOUBLE else FULL_PRECISION_BYTES


def _pairs(crash: Crash) -> int | None:
    stated = crash.setting("history_size")
    return stated.whole if stated is not None else None


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
    if adams_states_come_next(crash) is not None:
        return None
    return Seen(words=say("the job failed {where}, not in the optimizer step", where=where(crash)))
