"""How many of a model's layers are on the card, in programs that keep the others in host memory (llama.cpp, Ollama,
mistral.rs)."""

from __future__ import annotations

from oomdoctor.families.llama_cpp import PLAN, BufferRefused, LoadPlan
from oomdoctor.families.ollama import OffloadPlan
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal

LEAST = 1
OF_LAYERS = frozenset({"ggml", "engine"})  # the worlds whose option for it counts them
AUTO = "auto"  # since the loader looks whether the model fits: llama.cpp of December 2025

# What builds print that choose by themselves: llama_params_fit since #16653, and the loader with --direct-io, whose
# layers are those of "auto"
_CHOOSES = r"\b(?:llama|common)_(?:params_fit|memory_breakdown_print)|\(mmap = \w{4,5}, direct_io = \w{4,5}\)"


def fewer_layers(case: Case) -> Answer:
    """Half of the layers that are on the card."""
    row = case.row
    if case.crash.job.world not in OF_LAYERS or row is None or row.type != "int":
        return None
    now, root, cost = _on_the_card(case), case.crash.root, say("slower steps; the other layers are in host RAM")
    is_planned = isinstance(root, BufferRefused) and root.what == PLAN
    if is_planned or (now is None and case.crash.mentions(_CHOOSES) is not None):
        return Proposal(
            action=say(
                "Let the loader choose how many layers fit on the GPU: {name} {auto}", name=row.setting, auto=AUTO
            ),
            current=now,
            suggested=AUTO,
            cost=cost,
        )
    if now is None or now <= LEAST:
        return Proposal(
            action=say("Put fewer layers on the GPU: lower {name} (value not in the log)", name=row.setting), cost=cost
        )
    then = now // 2
    return Proposal(
        action=say("Put {then} layers on the GPU instead of {now}: {name}", name=row.setting, then=then, now=now),
        current=now,
        suggested=then,
        derivation=f"{now} / 2 = {then}",
        cost=cost,
    )


def _on_the_card(case: Case) -> int | None:
    """What the loader says, else what the option is; more than there are, or -1, means all."""
    layers, there = _printed(case.crash)
    if there:
        return there
    asked = case.number()
    if asked is None:
        return None
    return layers if layers and not 0 <= asked <= layers else int(asked)


def _printed(crash: Crash) -> tuple[int | None, int | None]:
    """How many the model has, and how many of them are on the card."""
    plans: tuple[LoadPlan | OffloadPlan, ...] = (*crash.every(LoadPlan), *crash.every(OffloadPlan))
    layers = next((plan.layers for plan in plans if plan.layers), None)
    return layers, next((plan.offloaded_layers for plan in reversed(plans) if plan.offloaded_layers), None)


__all__ = ["fewer_layers"]
