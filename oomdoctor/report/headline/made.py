"""Slots about the array that a library's function makes in one piece."""

from __future__ import annotations

from oomdoctor.incident.model import Crash
from oomdoctor.language import say, translated
from oomdoctor.report.headline.slot import about, where
from oomdoctor.signs.made import (
    Made,
    made_of,
    nodes_of,
    of_a_layout,
    of_a_plan,
    of_all_gradients,
    of_all_pairs_in_ram,
    of_two_models,
)
from oomdoctor.signs.own_arrays import a_buffer_is_made_at_once, an_array_is_made_at_once
from oomdoctor.signs.passes import compiled_buffer
from oomdoctor.signs.replays import a_replay_memory_is_large, replay_of


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


def made_in_ram(crash: Crash) -> str | None:
    """What a line makes in host memory, whose size no message prints."""
    replay = replay_of(crash) if a_replay_memory_is_large(crash) is not None else None
    if replay is not None:
        return say("a replay memory of {count:,} observations", count=replay.capacity)
    if a_buffer_is_made_at_once(crash) is not None:
        return say("a buffer, all of which is laid out at once")
    if of_all_pairs_in_ram(crash) is not None:
        return translated(found.row.what) if (found := made_of(crash)) is not None else None
    return say("an array") if an_array_is_made_at_once(crash) is not None else None


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
