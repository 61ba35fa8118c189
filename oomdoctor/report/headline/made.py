"""Slots about the array that a library's function makes in one piece."""

from __future__ import annotations

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.report.headline.slot import about, where
from oomdoctor.signs.made import Made, made_of, nodes_of, of_a_layout, of_a_plan, of_all_gradients, of_two_models
from oomdoctor.signs.passes import compiled_buffer


def made(crash: Crash) -> str | None:
    """The array, and its size where that follows from its bytes or stands in a compiled program's line."""
    found, nodes = made_of(crash), nodes_of(crash)
    if found is None:
        return compiled_buffer(crash)
    if nodes is None:
        return found.what
    return say("{what} of about {count} x {count}", what=found.what, count=f"{nodes:,}")


def made_by(crash: Crash) -> str | None:
    """The function that makes it, or what compiled the program that does."""
    found = made_of(crash)
    return found.function if found is not None else "torch.compile"


@where(of_all_gradients)
@about(made_of)
def made_gradients(found: Made) -> str | None:
    """The gradients of a whole model, by whose they are."""
    return found.what


@where(of_two_models)
@about(made_of)
def merged(found: Made) -> str | None:
    """The weight that two checkpoints were merged to, at the head of a sentence."""
    what = found.what[:1].upper() + found.what[1:]
    return say("{what} ({function})", what=what, function=found.function)


@where(of_a_plan)
@about(made_of)
def plan_made(found: Made) -> str | None:
    """What a plan of a library works in."""
    return found.what


@where(of_a_layout)
@about(made_of)
def laid_out(found: Made) -> str | None:
    """What a simulation lays out before its first step."""
    return found.what
