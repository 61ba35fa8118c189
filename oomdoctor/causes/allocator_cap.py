"""A limit below the hardware was hit: a memory fraction, Apple's watermark, one driver's largest allocation."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.causes.gpu import card, refusal
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
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
            why=f"The driver refuses one allocation of {_tried(it)} whatever is free: it limits the size of each.",
            evidence=(event,),
            knobs=("raise-allocator-cap", "smaller-microbatch", "shorter-sequences", "memory-efficient-attention"),
        )
    if event.limit == "fraction":
        return Finding(
            weight=0.9, why=f"{_tried(it)} would have passed the process's memory fraction.", evidence=(event,)
        )
    if event.device == "MPS":
        return _watermark(event, it)
    return _fraction(event, it) or _part_of_the_card(event, it)


def _limit_of_a_library(event: LibraryOutOfMemory) -> Judgement | None:
    """CuPy prints the limit that its pool was given."""
    if event.limit_bytes is None or event.allocated_bytes is None or event.tried_bytes is None:
        return None
    sum_ = event.allocated_bytes + event.tried_bytes
    figures = f"{show(event.allocated_bytes)} allocated + {show(event.tried_bytes)} asked for = {show(sum_)}"
    if sum_ <= event.limit_bytes:
        return RuledOut(f"{figures}, within the limit of {show(event.limit_bytes)}")
    why = f"{figures}, over the {show(event.limit_bytes)} that {event.library}'s pool is allowed."
    return Finding(weight=0.9, why=why, evidence=(event,))


def _fraction(event: DeviceOutOfMemory, it: Card) -> Judgement | None:
    if it.allowed_bytes is None or it.reserved_bytes is None or it.tried_bytes is None:
        return None
    sum_ = it.reserved_bytes + it.tried_bytes
    figures = f"{show(it.reserved_bytes)} reserved + {show(it.tried_bytes)} asked for = {show(sum_)}"
    beside = it.free_bytes is not None and it.free_bytes >= it.tried_bytes
    if sum_ + (ROUNDING if beside else 0) <= it.allowed_bytes:
        return RuledOut(f"{figures}, within the {show(it.allowed_bytes)} allowed")
    return Finding(
        weight=0.94 if beside else 0.6,
        why=f"{figures}, {'over' if sum_ > it.allowed_bytes else 'up to'} the {show(it.allowed_bytes)} that this "
        "process is allowed"
        + (f", while {show(it.free_bytes)} of the card are free." if beside and it.free_bytes is not None else "."),
        evidence=(event,),
        against=() if beside else ("the card itself had no room either",),
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
        why=f"The driver tells of {show(there)} of device memory, and the framework sees {show(it.total_bytes)} of it: "
        f"{_tried(it)} were refused by what hides the rest from it.",
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
        why=(
            f"PyTorch's {show(it.allocated_bytes)}, other {show(others)} and the {_tried(it)} asked for pass the "
            f"{show(it.allowed_bytes)} that macOS recommends as the most for the GPU; the memory is the machine's own."
        ),
        evidence=(event,),
        knobs=("raise-allocator-cap", "smaller-microbatch", "smaller-model", "shorter-sequences"),
        against=() if foreign else ("most of what counts against the limit is this process's own",),
    )


def _too_large_at_once(event: DeviceOutOfMemory, it: Card) -> bool:
    if event.device != "XPU" or it.tried_bytes is None or it.total_bytes is None:
        return False
    room = it.total_bytes - (it.reserved_bytes or 0)
    return it.tried_bytes >= XPU_LARGEST and it.tried_bytes < room


def _tried(it: Card) -> str:
    return show(it.tried_bytes) if it.tried_bytes is not None else "the size asked for"


CAUSE = Cause(
    id="allocator-cap",
    title="A limit below the hardware was hit",
    pools=("gpu",),
    knobs=("raise-allocator-cap", "smaller-microbatch", "shorter-sequences"),
    judge=judge,
)
