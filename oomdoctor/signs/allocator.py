"""Limits below the hardware: a memory fraction, a pool's own, Apple's watermark, one driver's largest allocation."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.budget import LOCKS, OF_A_QUERY, BudgetSpent, BudgetUsage
from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import some
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import ON_THE_CARDS
from oomdoctor.signs.trace import card, refusal
from oomdoctor.spellings import title
from oomdoctor.units import GIB, MIB, NO_MACHINE, percent, show

# Sizes are printed with two decimals: a sum of GiB may be off by this much.
ROUNDING: Final = GIB // 100
# "amdgpu: 15360M of VRAM memory ready", "amdgpu: VRAM: 98304M 0x..."
_DRIVERS_VRAM = late(r"\b(?:VRAM: (\d{3,9})M\b|(\d{3,9})M of VRAM memory ready)")
TIMES_VISIBLE: Final = 2  # so many times what the framework sees: no reserve of the driver's explains it
# Intel's drivers refuse a single allocation of 4 GiB and more unless they are told otherwise.
XPU_LARGEST: Final = 4 * GIB
ENDS_AT: Final = 0.95  # of its limit Dask's nanny ends a worker: distributed.worker.memory.terminate, distributed.yaml
DRIFTED: Final = 0.5  # of what a program counts as in use, in RAM
NOBODYS_RAM: Final = GIB  # less than that is nobody's RAM: the limit was set
_SETS_IT: Final = r"(?i)\b(?:memory|max)[_-](?:limit|memory)\b(?! set to)"
# OpenCL's CL_DEVICE_MAX_MEM_ALLOC_SIZE, Vulkan's maxMemoryAllocationSize and maxBufferSize, Metal's maxBufferLength
_AT_ONCE = late(
    r"(?i)\b(\d{6,15})(?: ?B| bytes)?\b[^\n\d]{1,60}\bmax(?:imum)?[ _]?"
    r"(?:(?:single|allowed|supported) )?(?:mem(?:ory)?|buffer)?[ _]?"
    r"(?:alloc(?:ation)?|buffer)?[ _]?(?:size|length)\b[^\n\d]{0,60}?(\d{6,15})\b"
)
# src/storage/standard_buffer_manager.cpp of DuckDB: beyond the limit is a disk, where it is told of one
_NO_DISK: Final = late(r"(?i)\bno temporary directory is (?:specified|set|configured)\b")
_OF_NO_DISK: Final = ("spill-to-disk", "smaller-buffers", "raise-allocator-cap")
# Whose pool may grow to all that is free on the GPU where nobody says: rmm/mr/pool_memory_resource.hpp
_RMM: Final = "RMM"
_OF_A_POOL: Final = ("raise-allocator-cap", "free-the-gpu", "smaller-partitions", "smaller-microbatch")
# Where no line sets one, the whole GPU is the maximum, and there is nothing to raise
_HAS_A_MAXIMUM: Final = r"\b(?:rmm_)?max(?:imum)?_pool_size\b"
_OF_A_FULL_POOL: Final = ("free-the-gpu", "smaller-partitions", "smaller-microbatch", "clear-references")
# What ggml asks for in one piece: its KV cache and its compute buffer, which grow with the context
_OF_GGML: Final = ("shorter-context", "raise-allocator-cap", "quantize-kv-cache", "smaller-prefill")


@sign
def beyond_the_largest_allocation(crash: Crash) -> Seen | None:
    """The driver limits the size of a single allocation: it says so, or an Intel GPU failed at 4 GiB with enough free
    memory."""
    event, it = refusal(crash), card(crash)
    if event is None or not (event.limit == "per-allocation" or _too_large_at_once(event, it)):
        return None
    words = say(
        "The driver limits the size of a single allocation; {tried} is too large, however much memory is free.",
        tried=_tried(it),
    )
    return Seen(words=words, evidence=(event,))


@sign
def beyond_the_largest_allocation_in_other_words(crash: Crash) -> Seen | None:
    """A driver or a runtime prints its largest single allocation, and more was requested."""
    sizes = at_once(crash)
    if sizes is None:
        return None
    words = say(
        "One allocation of {tried} exceeds the maximum of {limit} per allocation, however much memory is free.",
        tried=show(sizes[0]),
        limit=show(sizes[1]),
    )
    return Seen(words=words, evidence=(crash.root,), knobs=_OF_GGML if crash.job.world == "ggml" else ())


def _too_large_at_once(event: DeviceOutOfMemory, it: Card) -> bool:
    if event.device != "XPU" or it.tried_bytes is None or it.total_bytes is None:
        return False
    room = it.total_bytes - (it.reserved_bytes or 0)
    return XPU_LARGEST <= it.tried_bytes < room


def _tried(it: Card) -> str:
    return show(it.tried_bytes) if it.tried_bytes is not None else say("the requested size")


@sign
def beyond_the_memory_fraction(crash: Crash) -> Seen | None:
    """The message says that the allocation would exceed the process's memory fraction."""
    event = refusal(crash)
    if event is None or event.limit != "fraction":
        return None
    words = say("An allocation of {tried} would exceed the process's memory fraction.", tried=_tried(card(crash)))
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
            "{reserved} reserved + {tried} requested = {sum}",
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
    """Reserved + requested exceed the limit of the process, and the GPU has enough free memory."""
    claim = _claim(crash)
    if claim is None or claim.is_allowed or claim.free_bytes is None:
        return None
    allowed, free = show(claim.allowed_bytes), show(claim.free_bytes)
    words = (
        say(
            "{figures}, above the {allowed} limit of this process. The GPU has {free} free.",
            figures=claim.words,
            allowed=allowed,
            free=free,
        )
        if claim.sum_bytes > claim.allowed_bytes
        else say(
            "{figures}, which reaches the {allowed} limit of this process. The GPU has {free} free.",
            figures=claim.words,
            allowed=allowed,
            free=free,
        )
    )
    return Seen(words=words, evidence=(claim.event,))


@sign
def beyond_the_allowed_on_a_full_card(crash: Crash) -> Seen | None:
    """Reserved + requested exceed the limit of the process, and the GPU does not have enough free memory either."""
    claim = _claim(crash)
    if claim is None or claim.is_allowed or claim.free_bytes is not None:
        return None
    words = say(
        "{figures}, above the {allowed} limit of this process.",
        figures=claim.words,
        allowed=show(claim.allowed_bytes),
    )
    return Seen(words=words, evidence=(claim.event,), against=(say("the GPU itself had no room either"),))


@sign
def within_the_allowed(crash: Crash) -> Seen | None:
    """Reserved + requested are within the limit of the process."""
    claim = _claim(crash)
    if claim is None or not claim.is_allowed:
        return None
    words = say(
        "{figures}, within the {allowed} limit of this process", figures=claim.words, allowed=show(claim.allowed_bytes)
    )
    return Seen(words=words)


def vram_of_the_driver(crash: Crash) -> int:
    """What the driver reports of the GPU's own memory; 0 where it reports nothing."""
    event = refusal(crash)
    lines = (*event.around.before, *event.around.below) if event is not None else ()
    match = next((match for line in lines if (match := _DRIVERS_VRAM.search(line[:400]))), None)
    return int(match[1] or match[2]) * MIB if match else 0


@sign
def card_partly_hidden(crash: Crash) -> Seen | None:
    """The driver reports at least twice the memory that the framework sees: a carve-out, a partition, an allocator's
    limit."""
    event, it = refusal(crash), card(crash)
    if event is None or not it.total_bytes:
        return None
    there = vram_of_the_driver(crash)
    if there < TIMES_VISIBLE * it.total_bytes:
        return None
    words = say(
        "The driver reports {there} of GPU memory, but the framework sees only {total}. The allocation of "
        "{tried} failed because the rest is hidden from the framework.",
        there=show(there),
        total=show(it.total_bytes),
        tried=_tried(it),
    )
    return Seen(words=words, evidence=(event,))


@sign
def beyond_the_watermark(crash: Crash) -> Seen | None:
    """PyTorch's memory, other allocations and the request exceed its limit on a Mac. The limit is the high watermark
    (aten/src/ATen/mps/MPSAllocator.h: 1.7 times Metal's recommendedMaxWorkingSetSize by default)."""
    event, it = refusal(crash), card(crash)
    others = event.other_allocations_bytes if event is not None and event.device == "MPS" else None
    if event is None or others is None or it.allowed_bytes is None or it.allocated_bytes is None:
        return None
    words = say(
        "{allocated} in PyTorch's allocator, {others} that this process has from Metal beside it (graphs, caches) and "
        "the request of {tried} exceed {allowed}: PyTorch's own limit, by default 1.7 times what macOS recommends for "
        "the GPU. The GPU shares the machine's RAM.",
        allocated=show(it.allocated_bytes),
        others=show(others),
        tried=_tried(it),
        allowed=show(it.allowed_bytes),
    )
    return Seen(words=words, evidence=(event,))


@sign
def watermark_filled_by_its_own(crash: Crash) -> Seen | None:
    """PyTorch holds more of the memory that counts against its limit on a Mac than others do."""
    event, it = refusal(crash), card(crash)
    others = event.other_allocations_bytes if event is not None else None
    if others is None or others >= (it.allocated_bytes or 0):
        return None
    return Seen(words=say("most of the memory that counts against the limit belongs to this process"))


@sign
def pool_of_a_library_beyond_its_limit(crash: Crash) -> Seen | None:
    """Allocated + requested exceed the limit of a library's pool: CuPy prints all three."""
    return _pool_of_a_library(crash, kept=False)


# ggml parts the weights into buffers that the device allows, so that one tensor alone was too large: no context and no
# batch makes it smaller, nor a cache
_OF_ONE_PIECE: Final = {
    "weights": ("quantize-weights", "offload-parameters", "pin-version", "smaller-model"),
    "kv": ("shorter-context", "quantize-kv-cache", "fewer-sequences", "offload-parameters"),
}


@sign
def buffer_beyond_the_devices_largest(crash: Crash) -> Seen | None:
    """A buffer of ggml is larger than the largest single allocation of the GPU."""
    refused = crash.root
    if not isinstance(refused, BufferRefused) or not refused.limited:
        return None
    words = say("The buffer is larger than the largest single allocation that the GPU allows.")
    return Seen(words=words, evidence=(refused,), knobs=_OF_ONE_PIECE.get(refused.what or "", ()))


@sign
def more_than_metal_recommends(crash: Crash) -> Seen | None:
    """ggml's account of Metal shows more allocated than Metal recommends, and a computation failed."""
    refused = crash.root
    if not isinstance(refused, BufferRefused) or not refused.limit_bytes or refused.allocated_bytes is None:
        return None
    words = say(
        "{allocated} was allocated on the GPU; Metal recommends at most {limit}.",
        allocated=show(refused.allocated_bytes),
        limit=show(refused.limit_bytes),
    )
    return Seen(words=words, evidence=(refused,))


@sign
def arena_of_a_library_is_full(crash: Crash) -> Seen | None:
    """A library requested more than its arena has left under its own limit."""
    arena = crash.root
    if not isinstance(arena, LibraryOutOfMemory) or arena.left_bytes is None or arena.tried_bytes is None:
        return None
    words = say(
        "{library} requested {tried}, but its arena limit leaves {left}.",
        tried=show(arena.tried_bytes),
        library=arena.library,
        left=show(arena.left_bytes),
    )
    return Seen(words=words, evidence=(arena,))


@sign
def workspace_of_a_library_is_too_small(crash: Crash) -> Seen | None:
    """No kernel of a library fits into its workspace."""
    refused = crash.root
    if not isinstance(refused, LibraryOutOfMemory) or refused.status != "insufficient workspace":
        return None
    words = say("No {library} kernel fits into its workspace.", library=refused.library)
    return Seen(words=words, evidence=(refused,))


@sign
def pool_of_a_library_within_its_limit(crash: Crash) -> Seen | None:
    """Allocated + requested are within the limit of a library's pool."""
    return _pool_of_a_library(crash, kept=True)


@sign
def pool_of_a_library_says_so(crash: Crash) -> Seen | None:
    """RMM says that a pool or an adaptor reached its configured limit."""
    pool = crash.root
    if not isinstance(pool, LibraryOutOfMemory) or not pool.capped:
        return None
    if "pool size" in pool.at.text:  # rmm/mr/device/pool_memory_resource.hpp, try_to_expand: either ends there
        words = say(
            "{library}'s pool could not grow: it reached its maximum, or the GPU itself had no room. The message is "
            "the same.",
            library=pool.library,
        )
        knobs = _OF_A_POOL if crash.mentions(_HAS_A_MAXIMUM) is not None else _OF_A_FULL_POOL
        return Seen(words=words, evidence=(pool,), unsure=True, knobs=knobs, next_evidence=(ON_THE_CARDS,))
    words = say("{library} reports that its own pool reached its limit, not the GPU.", library=pool.library)
    return Seen(words=words, evidence=(pool,), knobs=_OF_A_POOL if pool.library == _RMM else ())


@sign
def frameworks_own_limit_is_hit(crash: Crash) -> Seen | None:
    """Paddle names the flag that limits it."""
    refused = crash.root
    if not isinstance(refused, ArrayOutOfMemory) or refused.framework != "paddle" or refused.limit_bytes is None:
        return None
    words = say("A flag of the framework limits it to {limit} of GPU memory.", limit=show(refused.limit_bytes))
    return Seen(words=words, evidence=(refused,))


@sign
def budget_of_a_program_is_spent(crash: Crash) -> Seen | None:
    """A program refuses to use more memory than its settings allow."""
    spent = crash.root
    if not isinstance(spent, BudgetSpent):
        return None
    if spent.lowered_bytes is not None:
        words = say(
            "{program} could not lower {setting} to {lowered}: more than that is in use. The old limit stays.",
            program=title(spent.program),
            setting=spent.setting or "",
            lowered=f"{spent.lowered_bytes} bytes",
        )
    elif spent.tried_bytes is not None and spent.free_bytes is not None and spent.free_bytes < spent.tried_bytes:
        words = say(
            "{program} stays within {setting}: {tried} requested, {free} left.",
            program=title(spent.program),
            setting=spent.setting or "",
            tried=show(spent.tried_bytes),
            free=show(spent.free_bytes),
        )
    elif spent.needed_bytes is not None and spent.limit_bytes is not None:
        words = _needed_in_all(spent, spent.needed_bytes, spent.limit_bytes)
    elif spent.tried_bytes is not None and spent.limit_bytes is not None:
        words = say(
            "{program} stays within {setting}: {tried} requested, {limit} allowed.",
            program=title(spent.program),
            setting=spent.setting or "",
            tried=show(spent.tried_bytes),
            limit=show(spent.limit_bytes),
        )
    elif ends_early(spent):
        words = say(
            "Dask was told to end a worker at {now} of its memory limit; it otherwise does so at {usual}.",
            now=percent(spent.fraction or 0),
            usual=percent(ENDS_AT),
        )
    elif spent.setting in LOCKS:
        words = say(
            "PostgreSQL's table of locks is full. It has a fixed number of entries for all connections together, which "
            "grows with {setting}; each lock takes one, and a dump or a query locks every table that it touches.",
            setting=spent.setting,
        )
    else:
        words = say(
            "{program} stays within {setting}, which is used up.",
            program=title(spent.program),
            setting=spent.setting or "",
        )
    return Seen(words=words, evidence=(spent,), knobs=_OF_NO_DISK if _NO_DISK.search(spent.at.text) else ())


def _needed_in_all(spent: BudgetSpent, needed: int, limit: int) -> str:
    """With what was in use, and what of it is in RAM, where the program prints that."""
    words = say(
        "{program} stays within {setting}: {needed} needed in all, {limit} allowed.",
        program=title(spent.program),
        setting=spent.setting or "",
        needed=show(needed),
        limit=show(limit),
    )
    if not counts_what_is_gone(spent):
        return words
    resident = show(spent.resident_bytes or 0)
    return joined((words, say("Only {resident} of that is in RAM: its count has probably drifted.", resident=resident)))


def counts_what_is_gone(spent: BudgetSpent) -> bool:
    """Whether less than half of what a program counts as in use is in RAM: its count has drifted."""
    return spent.resident_bytes is not None and spent.resident_bytes < DRIFTED * (spent.needed_bytes or 0)


@sign
def budget_of_the_machines_size_is_spent(crash: Crash) -> Seen | None:
    """A program has used what it allows itself, and nobody is seen to set that: by default it is the machine's RAM, or
    most of it."""
    spent = crash.root
    if not isinstance(spent, BudgetSpent) or not some([spent.program], "allows itself most of the RAM"):
        return None
    limits = (one.limit_bytes for one in crash.events if isinstance(one, BudgetSpent | BudgetUsage))
    is_set = crash.shows(_SETS_IT) or any(limit and limit < NOBODYS_RAM for limit in limits)
    is_set = is_set or spent.setting in OF_A_QUERY or ends_early(spent) or counts_what_is_gone(spent)
    return None if is_set else budget_of_a_program_is_spent(crash)


def ends_early(spent: BudgetSpent) -> bool:
    """Whether Dask was told to end workers below the share of their limit at which it otherwise does."""
    whole = some([spent.program], "allows itself most of the RAM")
    return whole and spent.fraction is not None and spent.fraction < ENDS_AT


def _pool_of_a_library(crash: Crash, *, kept: bool) -> Seen | None:
    pool = crash.root
    if not isinstance(pool, LibraryOutOfMemory) or (kept and pool.capped):
        return None
    allocated, tried, limit = pool.allocated_bytes, pool.tried_bytes, pool.limit_bytes
    if allocated is None or tried is None or limit is None or (allocated + tried <= limit) is not kept:
        return None
    figures = say(
        "{allocated} allocated + {tried} requested = {sum}",
        allocated=show(allocated),
        tried=show(tried),
        sum=show(allocated + tried),
    )
    words = (
        say("{figures}, within the limit of {limit}", figures=figures, limit=show(limit))
        if kept
        else say(
            "{figures}, above the {limit} limit of {library}'s pool.",
            figures=figures,
            limit=show(limit),
            library=pool.library,
        )
    )
    return Seen(words=words, evidence=(pool,))


def at_once(crash: Crash) -> tuple[int, int] | None:
    """What was asked for at once, and the less that the device gives, as its driver or runtime prints them: a size that
    machines have."""
    line = crash.mentions(_AT_ONCE.pattern) if isinstance(crash.root, Shortage) else None
    figures = _AT_ONCE.search(line) if line is not None else None
    if figures is None:
        return None
    tried, most = int(figures[1]), int(figures[2])
    return (tried, most) if most < tried < NO_MACHINE else None


def drivers_bytes(crash: Crash) -> int | None:
    """What the driver says that the card has."""
    event = refusal(crash)
    lines = (*event.around.before, *event.around.below) if event is not None else ()
    match = next((match for line in lines if (match := _DRIVERS_VRAM.search(line[:400]))), None)
    return int(match[1] or match[2]) * MIB if match else None
