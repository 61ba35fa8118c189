"""A kill whose victim is the job itself: what the log shows it doing says more than that it was the largest process."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.kernel import KernelKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import held_in_words
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.checkpoints import while_a_checkpoint_was_written_or_read
from oomdoctor.signs.evaluation import killed_during_an_evaluation
from oomdoctor.signs.first_step import adams_states_come_next, killed_at_a_limit_while_computing
from oomdoctor.signs.held_data import the_prints_say_what_was_filled
from oomdoctor.signs.host_caches import prompts_filled_the_limit
from oomdoctor.signs.host_data import data_is_kept_by_a_setting
from oomdoctor.signs.host_loading import the_kernel_killed_while_loading_weights
from oomdoctor.signs.node_groups import several_alike_have_it
from oomdoctor.signs.optimizer import lbfgs_fills_a_limit

_WORK: Final = (
    while_a_checkpoint_was_written_or_read,
    killed_during_an_evaluation,
    data_is_kept_by_a_setting,
    the_prints_say_what_was_filled,
    the_kernel_killed_while_loading_weights,
    killed_at_a_limit_while_computing,
    adams_states_come_next,
    lbfgs_fills_a_limit,
)
_FULL_PRECISION: Final = ("float32", "fp32", "torch.float32", "float", 32)
_LOADING: Final = ("model_load", "checkpoint_load")
# The names of an interpreter and of PyTorch's main thread; the kernel cuts them to 15 characters.
_INTERPRETER: Final = late(r"python(?:\d(?:\.\d{1,2})?)?|pt_main_thread")


@sign
def the_job_itself_did_what_the_log_shows(crash: Crash) -> Seen | None:
    """The kernel killed a Python process, and the log shows what the job did then: saving, loading, evaluating,
    keeping its data in memory, collecting it, or in a pass of its training. A server's name says who it is."""
    if prompts_filled_the_limit(crash) is not None:
        return Seen(words="")
    if _killed_python(crash) is None:
        return None
    return Seen(words="") if any(work(crash) is not None for work in _WORK) else None


@sign
def each_process_loads_the_weights(crash: Crash) -> Seen | None:
    """Three Python processes or more held the memory while weights were loaded: each loads a copy of its own."""
    kill = _killed_python(crash)
    if kill is None or crash.stage not in _LOADING or crash.context.progress or several_alike_have_it(crash) is None:
        return None
    count = sum(1 for task in kill.tasks if task.name == kill.process.name)
    words = say(
        "{count} processes loaded the weights at once, and each held a full copy of its own: the killed one {held}.",
        count=count,
        held=held_in_words(kill),
    )
    return Seen(words=words, evidence=(kill,), stage="model_load")


@sign
def weights_in_full_precision(crash: Crash) -> Seen | None:
    """A setting has the weights loaded in 32 bits."""
    stated = crash.setting("dtype", "torch_dtype", "precision")
    return Seen(words="") if stated is not None and stated.value in _FULL_PRECISION else None


def _killed_python(crash: Crash) -> KernelKill | None:
    kill = crash.root
    return kill if isinstance(kill, KernelKill) and _INTERPRETER.fullmatch(kill.process.name or "") else None
