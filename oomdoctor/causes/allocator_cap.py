"""A limit below the hardware was hit: a memory fraction, Apple's watermark, one driver's largest allocation."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import card, refusal
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import mark, say
from oomdoctor.patterns import late
from oomdoctor.units import GIB, MIB, show

# Sizes are printed with two decimals: a sum of GiB may be off by this much.
ROUNDING = GIB // 100
# "amdgpu: 15360M of VRAM memory ready", "amdgpu: VRAM: 98304M 0x..."
_DRIVERS_VRAM = late(r"\b(?:VRAM: (\d{3,9})M\b|(\d{3,9})M of VRAM memory ready)")
TIMES_VISIBLE = 2  # so many times what the framework sees: no reserve of the driver's explains it

# Intel's drivers refuse a single allocation of 4 GiB and more unless they are told otherwise.
XPU_LARGEST = 4 * GIB


def judge(crash: Crash) -> Judgement | None:
    if isinstance(crash.root, LibraryOutOfMemory):
        return _limit_of_a_library(crash.root)
    event = refusal(crash)
    if event is None:
        return None
    it = card(crash)
    if event.limit == "per-allocation" or _too_large_at_once(event, it):
        return Finding(
            weight=0.88,
            why=say(
                "The driver refuses one allocation of {tried} whatever is free: it limits the size of each.",
                tried=_tried(it),
            ),
            evidence=(event,),
            knobs=("raise-allocator-cap", "smaller-microbatch", "shorter-sequences", "memory-efficient-attention"),
        )
    if event.limit == "fraction":
        return Finding(
            weight=0.9,
            why=say("{tried} would have passed the process's memory fraction.", tried=_tried(it)),
            evidence=(event,),
        )
    if event.device == "MPS":
        return _watermark(event, it)
    return _fraction(event, it) or _part_of_the_card(event, it)


def _limit_of_a_library(event: LibraryOutOfMemory) -> Judgement | None:
    """CuPy prints the limit that its pool was given."""
    if event.limit_bytes is None or event.allocated_bytes is None or event.tried_bytes is None:
        return None
    sum_ = event.allocated_bytes + event.tried_bytes
    figures = say(
        "{allocated} allocated + {tried} asked for = {sum}",
        allocated=show(event.allocated_bytes),
        tried=show(event.tried_bytes),
        sum=show(sum_),
    )
    if sum_ <= event.limit_bytes:
        return RuledOut(say("{figures}, within the limit of {limit}", figures=figures, limit=show(event.limit_bytes)))
    why = say(
        "{figures}, over the {limit} that {library}'s pool is allowed.",
        figures=figures,
        limit=show(event.limit_bytes),
        library=event.library,
    )
    return Finding(weight=0.9, why=why, evidence=(event,))


def _fraction(event: DeviceOutOfMemory, it: Card) -> Judgement | None:
    if it.allowed_bytes is None or it.reserved_bytes is None or it.tried_bytes is None:
        return None
    sum_ = it.reserved_bytes + it.tried_bytes
    figures = say(
        "{reserved} reserved + {tried} asked for = {sum}",
        reserved=show(it.reserved_bytes),
        tried=show(it.tried_bytes),
        sum=show(sum_),
    )
    beside = it.free_bytes is not None and it.free_bytes >= it.tried_bytes
    if sum_ + (ROUNDING if beside else 0) <= it.allowed_bytes:
        return RuledOut(say("{figures}, within the {allowed} allowed", figures=figures, allowed=show(it.allowed_bytes)))
    return Finding(
        weight=0.94 if beside else 0.6,
        why=_against_the_allowed(figures, sum_, it.allowed_bytes, it.free_bytes if beside else None),
        evidence=(event,),
        against=() if beside else (say("the card itself had no room either"),),
    )


def _against_the_allowed(figures: str, sum_: int, allowed: int, free: int | None) -> str:
    if free is None:
        return say(
            "{figures}, over the {allowed} that this process is allowed.", figures=figures, allowed=show(allowed)
        )
    if sum_ > allowed:
        return say(
            "{figures}, over the {allowed} that this process is allowed, while {free} of the card are free.",
            figures=figures,
            allowed=show(allowed),
            free=show(free),
        )
    return say(
        "{figures}, up to the {allowed} that this process is allowed, while {free} of the card are free.",
        figures=figures,
        allowed=show(allowed),
        free=show(free),
    )


def _part_of_the_card(event: DeviceOutOfMemory, it: Card) -> Finding | None:
    """The driver tells of far more memory than the framework sees: a carve-out, a partition or an allocator's limit."""
    around = event.around
    told = next((m for line in (*around.before, *around.below) if (m := _DRIVERS_VRAM.search(line[:400]))), None)
    if told is None or not it.total_bytes:
        return None
    there = int(told[1] or told[2]) * MIB
    if there < TIMES_VISIBLE * it.total_bytes:
        return None
    return Finding(
        weight=0.8,
        why=say(
            "The driver tells of {there} of device memory, and the framework sees {total} of it: "
            "{tried} were refused by what hides the rest from it.",
            there=show(there),
            total=show(it.total_bytes),
            tried=_tried(it),
        ),
        evidence=(event,),
        knobs=("fix-environment", "raise-allocator-cap", "pin-version"),
    )


def _watermark(event: DeviceOutOfMemory, it: Card) -> Judgement | None:
    others = event.other_allocations_bytes
    if it.allowed_bytes is None or it.allocated_bytes is None or others is None:
        return None
    foreign = others >= it.allocated_bytes
    return Finding(
        weight=0.82 if foreign else 0.5,
        why=say(
            "PyTorch's {allocated}, other {others} and the {tried} asked for pass the {allowed} "
            "that macOS recommends as the most for the GPU; the memory is the machine's own.",
            allocated=show(it.allocated_bytes),
            others=show(others),
            tried=_tried(it),
            allowed=show(it.allowed_bytes),
        ),
        evidence=(event,),
        knobs=("raise-allocator-cap", "smaller-microbatch", "smaller-model", "shorter-sequences"),
        against=() if foreign else (say("most of what counts against the limit is this process's own"),),
    )


def _too_large_at_once(event: DeviceOutOfMemory, it: Card) -> bool:
    if event.device != "XPU" or it.tried_bytes is None or it.total_bytes is None:
        return False
    room = it.total_bytes - (it.reserved_bytes or 0)
    return it.tried_bytes >= XPU_LARGEST and it.tried_bytes < room


def _tried(it: Card) -> str:
    return show(it.tried_bytes) if it.tried_bytes is not None else say("the size asked for")


CAUSE = Cause(
    id="allocator-cap",
    title=mark("A limit below the hardware was hit"),
    pools=("gpu",),
    knobs=("raise-allocator-cap", "smaller-microbatch", "shorter-sequences"),
    rule=judge,
)
