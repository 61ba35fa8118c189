"""Weights, gradients and optimizer states of what a job trains, per card, as its settings shard and offload them."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import among
from oomdoctor.language import say, semicolons
from oomdoctor.remedies.sizes import cards_of_trainer, size_of_trained, trained, zero_stage
from oomdoctor.units import show

OPTIMIZER: Final = ("adam_offload", "optimizer_offload", "offload_optimizer.device", "offload_optimizer")
PARAMETERS: Final = ("param_offload", "offload_param.device", "offload_params", "fsdp_offload_params")
CARDS: Final = (
    "actor_num_gpus_per_node", "actor_num_nodes", "n_gpus_per_node", "nnodes", "nproc_per_node", "world_size",
    "total_num_nodes",
)  # fmt: skip
_OFF: Final = (None, False, 0, "", "none", "None", "false")
COLOCATION: Final = ("colocate_all_models", "colocate_all")
STARTING: Final = ("launch", "engine_init", "memory_profiling", "kv_cache_init", "cuda_graph_capture", "model_load")


class States(Struct, frozen=True):
    """What the trained models keep on one card."""

    bytes: int
    formula: str
    source: str


def is_on(crash: Crash, *names: str) -> bool:
    """Whether one of these switches is on; "cpu" and "nvme" are ways of being on."""
    return any(found.value not in _OFF for name in names if (found := crash.setting(name)) is not None)


def states(crash: Crash) -> States | None:
    """None where the size of what is trained or the number of cards is not known. What is not under ZeRO is taken to be
    under FSDP, which shards all."""
    size, cards = size_of_trained(crash), cards_of_trainer(crash)
    if size is None or not cards:
        return None
    models, offloaded = trained(crash), is_on(crash, *OPTIMIZER)
    level, assumed = zero_stage(crash) or (None, ())
    if level is None:
        held = (4 if is_on(crash, *PARAMETERS) else 0) + (arithmetic.ADAM_BYTES if offloaded else 0)
        each = (arithmetic.REPLICATED_BYTES - held) * size.parameters // cards
        way = say("{bytes} bytes / {cards} GPUs (FSDP)", bytes=arithmetic.REPLICATED_BYTES - held, cards=cards)
        if "fsdp" not in crash.context.frameworks:
            assumed = (say("FSDP (not in the log)"),)
    else:
        each = arithmetic.states_on_gpu(size.parameters, cards, level, optimizer_offloaded=offloaded)
        if level == 3 and is_on(crash, *PARAMETERS):
            each -= arithmetic.weights(size.parameters, cards)
        way = (
            say("ZeRO-{level} over {cards} GPUs, optimizer offloaded", level=level, cards=cards)
            if offloaded
            else say("ZeRO-{level} over {cards} GPUs", level=level, cards=cards)
        )
    formula = say(
        "{count} x {size} under {way} = {amount} per GPU",
        count=models,
        size=size.billions,
        way=way,
        amount=show(models * each),
    )
    return States(models * each, formula, semicolons((size.source, *assumed)))


def together(crash: Crash) -> bool:
    """Whether trainer and engine are on the same cards: the log says so, or it is how the framework does it."""
    told = crash.setting(*COLOCATION)
    if told is not None:
        return is_on(crash, *COLOCATION)
    return any(each.engine == "shared cards" for each in among(crash.context.frameworks))


def still_to_come(crash: Crash) -> tuple[int, str] | None:
    """What the trainer beside an engine has yet to put on its card, where the engine is only starting."""
    found = states(crash) if together(crash) and crash.stage in STARTING else None
    return None if found is None else (found.bytes, semicolons((found.formula, found.source)))
