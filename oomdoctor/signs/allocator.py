"""Limits below the hardware: a memory fraction, a pool's own, Apple's watermark, one driver's largest allocation."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.budget import BudgetSpent
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import card, refusal
from oomdoctor.units import GIB, MIB, show

# Sizes are printed with two decimals: a sum of GiB may be off by this much.
ROUNDING: Final = GIB // 100
# "amdgpu: 15360M of VRAM memory ready", "amdgpu: VRAM: 98304M 0x..."
_DRIVERS_VRAM = late(r"\b(?:VRAM: (\d{3,9})M\b|(\d{3,9})M of VRAM memory ready)")
TIMES_VISIBLE: Final = 2  # so many times what the framework sees: no reserve of the driver's explains it
# Intel's drivers refuse a single allocation of 4 GiB and more unless they are told otherwise.
XPU_LARGEST: Final = 4 * GIB
# OpenCL's CL_DEVICE_MAX_MEM_ALLOC_SIZE, Vulkan's maxMemoryAllocationSize and maxBufferSize, Metal's maxBufferLength
_AT_ONCE = late(
    r"(?i)\b(\d{6,15})(?: ?B| bytes)?\b[^\n\d]{1,60}\bmax(?:imum)?[ _]?(?:single )?(?:mem(?:ory)?|buffer)?[ _]?"
    r"(?:alloc(?:ation)?|buffer)?[ _]?(?:size|length)\b[^\n\d]{0,60}?(\d{6,15})\b"
)


@sign
def beyond_the_largest_allocation(crash: Crash) -> Seen | None:
    """The driver limits the size of each allocation: it says so, or Intel's refused 4 GiB and had room."""
    event, it = refusal(crash), card(crash)
    if event is None or not (event.limit == "per-allocation" or _too_large_at_once(event, it)):
        return None
    words = say(
        "The driver refuses one allocation of {tried} whatever is free: it limits the size of each.", tried=_tried(it)
    )
    return Seen(words=words, evidence=(event,))


@sign
def beyond_the_largest_allocation_in_other_words(crash: Crash) -> Seen | None:
    """A driver or a runtime prints how much it gives at once, and more was asked for."""
    line = crash.mentions(_AT_ONCE.pattern) if isinstance(crash.root, Shortage) else None
    figures = _AT_ONCE.search(line) if line is not None else None
    if figures is None or int(figures[1]) <= int(figures[2]):
        return None
    words = say(
        "{tried} were asked for at once, and the device gives {limit} at once at most, whatever is free.",
        tried=show(int(figures[1])),
        limit=show(int(figures[2])),
    )
    return Seen(words=words, evidence=(crash.root,))


def _too_large_at_once(event: DeviceOutOfMemory, it: Card) -> bool:
    if event.device != "XPU" or it.tried_bytes is None or it.total_bytes is None:
        return False
    room = it.total_bytes - (it.reserved_bytes or 0)
    return XPU_LARGEST <= it.tried_bytes < room


def _tried(it: Card) -> str:
    return show(it.tried_bytes) if it.tried_bytes is not None else say("the size asked for")


@sign
def beyond_the_memory_fraction(crash: Crash) -> Seen | None:
    """The message says that the process's memory fraction would have been passed."""
    event = refusal(crash)
    if event is None or event.limit != "fraction":
        return None
    words = say("{tried} would have passed the process's memory fraction.", tried=_tried(card(crash)))
    return Seen(words=words, evidence=(event,))


class _Claim(Struct, frozen=True, kw_only=True):
    """What PyTorch has reserved and asked for, and what the process is allowed of the card."""

    event: DeviceOutOfMemory
    reserved_bytes: int
    tried_bytes: int
    allowed_bytes: int
    free_bytes: int | None  # where it has room for the request

    @property
    def sum_bytes(self) -> int:
        return self.reserved_bytes + self.tried_bytes

    @property
    def is_allowed(self) -> bool:
        return self.sum_bytes + (ROUNDING if self.free_bytes is not None else 0) <= self.allowed_bytes

    @property
    def words(self) -> str:
        return say(
            "{reserved} reserved + {tried} asked for = {sum}",
            reserved=show(self.reserved_bytes),
            tried=show(self.tried_bytes),
            sum=show(self.sum_bytes),
        )


def _claim(crash: Crash) -> _Claim | None:
    """None where the message prints no such limit. Apple's counts what others hold, too."""
    event, it = refusal(crash), card(crash)
    if event is None or event.limit is not None or event.device == "MPS" or _too_large_at_once(event, it):
        return None
    if it.allowed_bytes is None or it.reserved_bytes is None or it.tried_bytes is None:
        return None
    return _Claim(
        event=event,
        reserved_bytes=it.reserved_bytes,
        tried_bytes=it.tried_bytes,
        allowed_bytes=it.allowed_bytes,
        free_bytes=it.free_bytes if (it.free_bytes or 0) >= it.tried_bytes else None,
    )


@sign
def beyond_the_allowed_beside_room(crash: Crash) -> Seen | None:
    """Reserved + asked for pass what the process is allowed, and the card has room for the request."""
    claim = _claim(crash)
    if claim is None or claim.is_allowed or claim.free_bytes is None:
        return None
    allowed, free = show(claim.allowed_bytes), show(claim.free_bytes)
    words = (
        say(
            "{figures}, over the {allowed} that this process is allowed, while {free} of the card are free.",
            figures=claim.words,
            allowed=allowed,
            free=free,
        )
        if claim.sum_bytes > claim.allowed_bytes
        else say(
            "{figures}, up to the {allowed} that this process is allowed, while {free} of the card are free.",
            figures=claim.words,
            allowed=allowed,
            free=free,
        )
    )
    return Seen(words=words, evidence=(claim.event,))


@sign
def beyond_the_allowed_on_a_full_card(crash: Crash) -> Seen | None:
    """Reserved + asked for pass what the process is allowed, and the card has no room for the request either."""
    claim = _claim(crash)
    if claim is None or claim.is_allowed or claim.free_bytes is not None:
        return None
    words = say(
        "{figures}, over the {allowed} that this process is allowed.",
        figures=claim.words,
        allowed=show(claim.allowed_bytes),
    )
    return Seen(words=words, evidence=(claim.event,), against=(say("the card itself had no room either"),))


@sign
def within_the_allowed(crash: Crash) -> Seen | None:
    """Reserved + asked for are within what the process is allowed."""
    claim = _claim(crash)
    if claim is None or not claim.is_allowed:
        return None
    words = say("{figures}, within the {allowed} allowed", figures=claim.words, allowed=show(claim.allowed_bytes))
    return Seen(words=words)


@sign
def card_partly_hidden(crash: Crash) -> Seen | None:
    """The driver tells of twice the memory that the framework sees: a carve-out, a partition, an allocator's limit."""
    event, it = refusal(crash), card(crash)
    if event is None or not it.total_bytes:
        return None
    lines = (*event.around.before, *event.around.below)
    match = next((match for line in lines if (match := _DRIVERS_VRAM.search(line[:400]))), None)
    there = int(match[1] or match[2]) * MIB if match else 0
    if there < TIMES_VISIBLE * it.total_bytes:
        return None
    words = say(
        "The driver tells of {there} of device memory, and the framework sees {total} of it: "
        "{tried} were refused by what hides the rest from it.",
        there=show(there),
        total=show(it.total_bytes),
        tried=_tried(it),
    )
    return Seen(words=words, evidence=(event,))


@sign
def beyond_the_watermark(crash: Crash) -> Seen | None:
    """What PyTorch and others hold, and what was asked for, pass Apple's limit."""
    event, it = refusal(crash), card(crash)
    others = event.other_allocations_bytes if event is not None and event.device == "MPS" else None
    if event is None or others is None or it.allowed_bytes is None or it.allocated_bytes is None:
        return None
    words = say(
        "PyTorch's {allocated}, other {others} and the {tried} asked for pass the {allowed} "
        "that macOS recommends as the most for the GPU; the memory is the machine's own.",
        allocated=show(it.allocated_bytes),
        others=show(others),
        tried=_tried(it),
        allowed=show(it.allowed_bytes),
    )
    return Seen(words=words, evidence=(event,))


@sign
def watermark_filled_by_its_own(crash: Crash) -> Seen | None:
    """PyTorch holds more of what counts against Apple's limit than others do."""
    event, it = refusal(crash), card(crash)
    others = event.other_allocations_bytes if event is not None else None
    if others is None or others >= (it.allocated_bytes or 0):
        return None
    return Seen(words=say("most of what counts against the limit is this process's own"))


@sign
def pool_of_a_library_beyond_its_limit(crash: Crash) -> Seen | None:
    """Allocated + asked for pass the limit that a library's pool was given: CuPy prints all three."""
    return _pool_of_a_library(crash, kept=False)


@sign
def buffer_beyond_the_devices_largest(crash: Crash) -> Seen | None:
    """A buffer of ggml is larger than the device gives in one piece."""
    refused = crash.root
    if not isinstance(refused, BufferRefused) or not refused.limited:
        return None
    return Seen(words=say("The buffer is larger than what the device gives in one piece."), evidence=(refused,))


@sign
def arena_of_a_library_is_full(crash: Crash) -> Seen | None:
    """More was asked for than a library's arena has left under its own limit."""
    arena = crash.root
    if not isinstance(arena, LibraryOutOfMemory) or arena.left_bytes is None or arena.tried_bytes is None:
        return None
    words = say(
        "{tried} were asked for, and the limit of {library} for its arena leaves {left}.",
        tried=show(arena.tried_bytes),
        library=arena.library,
        left=show(arena.left_bytes),
    )
    return Seen(words=words, evidence=(arena,))


@sign
def workspace_of_a_library_is_too_small(crash: Crash) -> Seen | None:
    """No kernel fits into the workspace that a library was given."""
    refused = crash.root
    if not isinstance(refused, LibraryOutOfMemory) or refused.status != "insufficient workspace":
        return None
    words = say("No kernel of {library} fits into the workspace that it was given.", library=refused.library)
    return Seen(words=words, evidence=(refused,))


@sign
def pool_of_a_library_within_its_limit(crash: Crash) -> Seen | None:
    """Allocated + asked for are within the limit that a library's pool was given."""
    return _pool_of_a_library(crash, kept=True)


@sign
def pool_of_a_library_says_so(crash: Crash) -> Seen | None:
    """RMM says that a pool or an adaptor has come to the limit that somebody has set."""
    pool = crash.root
    if not isinstance(pool, LibraryOutOfMemory) or not pool.capped:
        return None
    words = say("{library} says that the limit of its own pool was hit, not the card's.", library=pool.library)
    return Seen(words=words, evidence=(pool,))


@sign
def frameworks_own_limit_is_hit(crash: Crash) -> Seen | None:
    """Paddle names the flag that limits it."""
    refused = crash.root
    if not isinstance(refused, ArrayOutOfMemory) or refused.framework != "paddle" or refused.limit_bytes is None:
        return None
    words = say(
        "The framework is limited to {limit} of the card by a flag of its own.", limit=show(refused.limit_bytes)
    )
    return Seen(words=words, evidence=(refused,))


@sign
def budget_of_a_program_is_spent(crash: Crash) -> Seen | None:
    """A program refuses what goes beyond the memory that its settings give it."""
    spent = crash.root
    if not isinstance(spent, BudgetSpent):
        return None
    if spent.tried_bytes is not None and spent.limit_bytes is not None:
        words = say(
            "{program} keeps within {setting}: {tried} were asked for, and {limit} are allowed.",
            program=spent.program,
            setting=spent.setting or "",
            tried=show(spent.tried_bytes),
            limit=show(spent.limit_bytes),
        )
    else:
        words = say(
            "{program} keeps within {setting}, which is used up.", program=spent.program, setting=spent.setting or ""
        )
    return Seen(words=words, evidence=(spent,))


def _pool_of_a_library(crash: Crash, *, kept: bool) -> Seen | None:
    pool = crash.root
    if not isinstance(pool, LibraryOutOfMemory):
        return None
    allocated, tried, limit = pool.allocated_bytes, pool.tried_bytes, pool.limit_bytes
    if allocated is None or tried is None or limit is None or (allocated + tried <= limit) is not kept:
        return None
    figures = say(
        "{allocated} allocated + {tried} asked for = {sum}",
        allocated=show(allocated),
        tried=show(tried),
        sum=show(allocated + tried),
    )
    words = (
        say("{figures}, within the limit of {limit}", figures=figures, limit=show(limit))
        if kept
        else say(
            "{figures}, over the {limit} that {library}'s pool is allowed.",
            figures=figures,
            limit=show(limit),
            library=pool.library,
        )
    )
    return Seen(words=words, evidence=(pool,))


def at_once(crash: Crash) -> tuple[int, int] | None:
    """What was asked for at once, and the less that the device gives, as its driver or runtime prints them."""
    line = crash.mentions(_AT_ONCE.pattern) if isinstance(crash.root, Shortage) else None
    figures = _AT_ONCE.search(line) if line is not None else None
    return (int(figures[1]), int(figures[2])) if figures and int(figures[1]) > int(figures[2]) else None


def drivers_bytes(crash: Crash) -> int | None:
    """What the driver says that the card has."""
    event = refusal(crash)
    lines = (*event.around.before, *event.around.below) if event is not None else ()
    match = next((match for line in lines if (match := _DRIVERS_VRAM.search(line[:400]))), None)
    return int(match[1] or match[2]) * MIB if match else None
