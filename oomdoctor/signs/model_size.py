"""How large the model is that the job trains, by its name, and whether adapters are all that gets gradients."""

from __future__ import annotations

from typing import Final

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.incident.model import Crash
from oomdoctor.job.checkpoint_names import billions
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import card
from oomdoctor.units import show

_ADAPTERS: Final = (
    "lora_rank", "lora_r", "peft_config", "use_peft", "lora.rank", "use_lora", "lora_cfg.enabled", "finetuning_type",
    "adapter", "tuner_type", "train_type", "sft_type", "peft_scheme",
)  # fmt: skip
# "train_dreambooth_lora_flux.py"
_SCRIPT_OF_ADAPTERS: Final = r"(?i)(?:^|[\s/])(?:\w{1,60}_)?q?lora(?:_\w{1,60})?\.py\b"
_PARAMETERS: Final = "parameters"  # a particular
_TYPE: Final = "model_type"  # ms-swift's name of a model: "qwen2-vl-7b-instruct"
_OF_ADAPTERS: Final = 1.1  # times the weights: what adapters of a high rank and their states add (a rule of thumb)
_SEVERAL: Final = ("rl",)  # tasks that have more models on a GPU than are named


def trains_adapters(crash: Crash) -> bool:
    stated = [found.value for name in _ADAPTERS if (found := crash.setting(name)) is not None]
    told = any("lora" in value.lower() if isinstance(value, str) else bool(value) for value in stated)
    return told or crash.in_trace(r"(?:^|/)peft/") is not None or crash.shows(_SCRIPT_OF_ADAPTERS)


def parameters_printed(crash: Crash) -> int | None:
    """The most that a line counts; of several models of a job none is the one, and adapters are not all weights."""
    if crash.job.task in _SEVERAL or trains_adapters(crash):
        return None
    counts = crash.context.particulars.get(_PARAMETERS, ())
    return max((one for one in counts if isinstance(one, int)), default=None)


@sign
def its_states_are_little_of_the_tensors(crash: Crash) -> Seen | None:
    """All that training keeps per parameter of the named model is less than half of PyTorch's tensors."""
    live, named = card(crash).live_bytes, _named(crash)
    if live is None or not named or crash.job.task in _SEVERAL or crash.stage == "model_load":
        return None
    sizes = [billions((each,)) for each in named]
    parameters = round(sum(each or 0 for each in sizes) * 1e9)
    only_adapters = trains_adapters(crash)
    each = arithmetic.FULL_PRECISION_BYTES * _OF_ADAPTERS if only_adapters else arithmetic.STATES_BYTES
    if None in sizes or 2 * each * parameters >= live:
        return None
    return Seen(
        words=say(
            "{count:g} B parameters x {bytes:g} bytes = {states}, less than half of the {live} of PyTorch tensors",
            count=parameters / 1e9, bytes=each, states=show(each * parameters), live=show(live),
        )
    )  # fmt: skip


def _named(crash: Crash) -> tuple[str, ...]:
    stated = crash.setting(_TYPE)
    return crash.context.models or ((str(stated.value),) if stated is not None else ())
