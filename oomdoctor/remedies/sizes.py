"""How many parameters the job's model has: from its name, from what loading it took, or from the size in its name.

And over how many machines and cards it is spread.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.arithmetic import training as arithmetic
from oomdoctor.families.vllm_figures import WeightsLoaded
from oomdoctor.incident.engine_facts import loading
from oomdoctor.incident.model import Crash
from oomdoctor.job.checkpoint_names import billions, has_few_bits
from oomdoctor.job.frameworks import among, some
from oomdoctor.language import say
from oomdoctor.remedies import models
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.signs.model_size import trains_adapters
from oomdoctor.units import show

ZERO_STAGE: Final = ("zero_stage", "zero_optimization_stage", "zero_optimization.stage")
_NODES: Final = ("actor_num_nodes", "actor.num_nodes", "trainer.nnodes", "nnodes")


class Size(Struct, frozen=True):
    parameters: int
    source: str  # how it is known, as an assumption to print

    @property
    def billions(self) -> str:
        return say("{billions} B parameters", billions=f"{self.parameters / 1e9:.2f}")


def size_of_model(crash: Crash) -> Size | None:
    """The parameters of the model that the job trains or serves; None where its weights have four bits: two bytes each,
    as all formulas count them, are not theirs."""
    if any(map(has_few_bits, crash.context.models)):
        return None
    model = models.known(crash.context.models)
    if model is not None:
        told = say("{model}: {billions} B parameters", model=model.name, billions=f"{model.parameters / 1e9:.2f}")
        return Size(model.parameters, told)
    loaded = _loaded(crash)
    if loaded:
        ranks = tensor_parallel(crash)
        parameters = loaded * ranks // arithmetic.WEIGHT_BYTES
        weights, count = show(loaded), f"{parameters / 1e9:.2f}"
        told = (
            say(
                "{weights} of weights x {cards} GPUs / 2 bytes = {billions} B parameters",
                weights=weights, cards=ranks, billions=count,
            )
            if ranks > 1
            else say(
                "{weights} of weights / 2 bytes = {billions} B parameters", weights=weights, billions=count
            )
        )  # fmt: skip
        return Size(parameters, told)
    return _named(crash)


def size_of_trained(crash: Crash) -> Size | None:
    """The parameters that get gradients and optimizer states; None where these are adapters, whose size no log says."""
    return None if trains_adapters(crash) else size_of_model(crash)


def zero_stage(crash: Crash) -> tuple[int, tuple[str, ...]] | None:
    """ZeRO's stage, and what was assumed for it; None where nothing in the log shards that way."""
    stated = crash.setting(*ZERO_STAGE)
    if stated is not None and stated.whole is not None:
        return stated.whole, ()
    usual = next((each.zero_stage for each in among(crash.context.frameworks) if each.zero_stage is not None), None)
    return None if usual is None else (usual, (say("ZeRO-{level} (not in the log)", level=usual),))


def _loaded(crash: Crash) -> int | None:
    """What an engine says that loading the weights took of a card."""
    printed, around = crash.first(WeightsLoaded), loading(crash)
    if printed is not None and printed.weights_bytes:
        return printed.weights_bytes
    return around.weights_bytes if around is not None else None


def _named(crash: Crash) -> Size | None:
    count = billions(crash.context.models)
    if count is None:
        return None
    return Size(round(count * 1e9), say("{billions} B parameters (from the model's name)", billions=f"{count:g}"))


def tensor_parallel(crash: Crash) -> int:
    """Over how many cards one copy of the model is split."""
    stated = crash.setting(*KNOBS["tensor-parallel"].settings)
    return stated.value if stated is not None and isinstance(stated.value, int) and stated.value > 0 else 1


def trained(crash: Crash) -> int:
    """How many models: the actor, and the critic where there is one."""
    critic = crash.setting("critic_pretrain", "critic.model.path", "critic_num_nodes")
    return 2 if (critic is not None and critic.value) or crash.mentions(r"CriticRayActor|CriticModel") else 1


def nodes(crash: Crash) -> int:
    """Over how many machines the trained model is spread; one, where nothing says otherwise."""
    return 1 if some(crash.context.frameworks, "counts cards as nodes") else _nodes_stated(crash)


def _nodes_stated(crash: Crash) -> int:
    stated = crash.setting(*_NODES)
    return stated.value if stated is not None and isinstance(stated.value, int) and stated.value > 0 else 1


def cards_of_trainer(crash: Crash) -> int | None:
    for names in (("actor_num_gpus_per_node", "actor.num_gpus_per_node"), ("n_gpus_per_node",), ("nproc_per_node",)):
        per_node = crash.setting(*names)
        if per_node is not None and isinstance(per_node.value, int) and per_node.value > 0:
            return per_node.value * _nodes_stated(crash)
    for name in ("total_num_nodes", "actor_num_nodes", "num_gpus", "world_size"):  # ORZ's nodes are one-card bundles
        stated = crash.setting(name)
        if stated is not None and isinstance(stated.value, int) and stated.value > 0:
            return stated.value
    count = crash.context.hardware.get("gpu_count")
    return count if isinstance(count, int) and count > 0 else None
