"""What to change where a library's function makes the array that did not fit: signs/made.txt says it for the function,
and what follows from its kind and size here. Such a row knows the function, and needs none of a knob's conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say, translated
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.inputs import SIZE
from oomdoctor.remedies.proposal import Case, Proposal, Skip
from oomdoctor.signs.made import FLOAT32, OF_ONE_INPUT, Made, made_of, nodes_that_fit
from oomdoctor.units import show

SLOWER: Final = mark("slower")
_LESS: Final = mark("less detail")
_COUNT: Final = "cap-primitives"
_OF_A_PIXEL: Final = 3 * FLOAT32  # bytes
_USUAL: Final = (1920, 1080)
_BLOCKS: Final = ("smaller-microbatch", "smaller-partitions")
# What changes nothing in such an array: what is computed beside it, and autocast, under which it keeps its type
_OF_PASSES: Final = frozenset(
    {"smaller-microbatch", "gradient-checkpointing", "shorter-sequences", "memory-efficient-attention"}
)
_IDLE: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys((*OF_ONE_INPUT, "gradients", "plan", "layout", "merge"), _OF_PASSES),
    **dict.fromkeys(("square", "unknowns", "pairs"), _OF_PASSES - {"smaller-microbatch"} | {"mixed-precision"}),
}
# What the change costs where it is not time
_COSTS: Final[Mapping[str, str]] = {
    "masks": mark("objects may be missed"),
    "suppression": mark("objects may be missed"),
    **dict.fromkeys(("unknowns", "plan", "layout", "merge"), ""),
}


def proposal(case: Case) -> Proposal | Skip | None:
    """The knob in the words of the function, or that it changes nothing there; None where it is no matter of it."""
    found = made_of(case.crash)
    if found is None:
        return None
    if found.row.instead and found.row.knob == case.knob:
        cost = translated(_COSTS.get(found.kind, _LESS if found.row.knob == SIZE else SLOWER))
        counted, assumed = _as_pictures(found, case.crash)
        return Proposal(
            action=translated(found.row.instead), subject=found.function, setting="", cost=cost,
            derivation=counted, assumes=assumed,
        )  # fmt: skip
    own = _of_its_kind(found, case)
    return Skip() if own is None and case.knob in _IDLE.get(found.kind, ()) else own


def _of_its_kind(found: Made, case: Case) -> Proposal | None:
    if found.kind == "square" and case.knob == SIZE:
        return _fewer_nodes(case)
    if found.kind == "unknowns" and case.knob == SIZE:
        action = say("Compute a smaller problem: half as many unknowns take a quarter")
        return Proposal(action=action, subject=found.function, setting="", cost=say("lower resolution"))
    if found.kind == "pairs" and case.knob in _BLOCKS and not found.row.instead:
        action = say("Compute them in blocks of rows, and keep only what you need of each")
        return Proposal(action=action, subject=found.function, setting="", cost=translated(SLOWER))
    if found.kind == "boxes" and case.knob == _COUNT:
        action = say("Crop the images with the most boxes into parts, or leave them out")
        cost = say("fewer crowded images to learn from")
        return Proposal(action=action, subject=found.function, setting="", cost=cost)
    if found.kind in OF_ONE_INPUT and case.knob == SIZE:
        action = say("Scale the input down before you hand it on, or cut it into parts")
        return Proposal(action=action, subject=found.function, setting="")
    return None


def _as_pictures(found: Made, crash: Crash) -> tuple[str | None, tuple[str, ...]]:
    """How many pictures of a usual size are as large as what was asked for."""
    tried = crash.root.tried_bytes if isinstance(crash.root, HostAllocation) else None
    if found.kind != "frames" or not tried or tried % _OF_A_PIXEL:
        return None, ()
    width, height = _USUAL
    pixels = tried // _OF_A_PIXEL
    counted = say(
        "{tried} bytes / {each} = {pixels} pixels, as in {count} frames of {width} x {height}",
        tried=f"{tried:,}", each=_OF_A_PIXEL, pixels=f"{pixels:,}", count=f"{pixels // (width * height):,}",
        width=width, height=height,
    )  # fmt: skip
    return counted, (say("three channels in float32"),)


def _fewer_nodes(case: Case) -> Proposal:
    room = nodes_that_fit(case.crash)
    cost = say("a part of the graph at a time")
    if room is None:
        return Proposal(action=say("Hand on a smaller graph: sample a part of its nodes"), setting="", cost=cost)
    count, free = f"{room[0]:,}", show(room[1])
    return Proposal(
        action=say("Hand on a smaller graph: sample fewer than {count} of its nodes", count=count),
        derivation=say("sqrt({free} free / {width} bytes) = {count}", free=free, width=FLOAT32, count=count),
        assumes=(say("float32, and one such matrix at a time"),),
        setting="",
        cost=cost,
    )


def ahead(remedies: list[Remedy], crash: Crash) -> list[Remedy]:
    """The remedies, before them what is known of the function itself, whatever the cause."""
    found = made_of(crash)
    if found is None or not found.row.instead:
        return remedies
    return sorted(remedies, key=lambda one: one.knob != found.row.knob)


__all__ = ["ahead", "proposal"]
