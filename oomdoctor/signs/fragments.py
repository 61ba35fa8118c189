"""Memory that an allocator holds, that no tensor uses, and that it cannot hand out in one piece."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, mark, say
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.trace import GRAPHS, STRAW, card, refusal
from oomdoctor.units import GIB, percent, show

# Less than this part of the live tensors is what every allocator keeps for the next request.
CACHE_SHARE: Final = 0.10
# What is idle of TensorFlow's pool is spread over its bins; less than this part of it is.
POOL_SHARE: Final = 0.25
PART: Final = 0.2  # of the card
FEW: Final = 3
ROUNDED: Final = 0.02  # the message rounds each of its figures to a hundredth of its unit
MOST_OF_IT: Final = 0.5  # of what is reserved: no ordinary cache is that large
HALF: Final = 0.5  # of the card
OTHERS: Final = 2  # times what lies idle: then it is they who are to go
# While an engine starts, no batch of training is on the card yet.
STARTING: Final = ("engine_init", "memory_profiling", "kv_cache_init", "cuda_graph_capture")


@sign
def idle_in_pieces(crash: Crash) -> Seen | None:
    """PyTorch's reserved but unallocated memory is at least as large as the request; it is much of the GPU, or several
    times the request."""
    return None if _is_little(crash) else _in_pieces(crash)


@sign
def some_idle_in_pieces(crash: Crash) -> Seen | None:
    """The same of a small part of the GPU that holds few such requests: in one piece it soon was full again."""
    return _in_pieces(crash) if _is_little(crash) else None


def _is_little(crash: Crash) -> bool:
    it, idle = card(crash), _idle_bytes(crash) or 0
    share = it.share(idle)
    return share is not None and share < PART and idle < FEW * (it.tried_bytes or 0)


def _in_pieces(crash: Crash) -> Seen | None:
    event, tried, idle = refusal(crash), card(crash).tried_bytes, _idle_bytes(crash)
    if event is None or tried is None or idle is None or idle < tried:
        return None
    summary = _summary(crash)
    words = say(
        "PyTorch has {idle} reserved but unallocated, more than the requested {tried}. This memory is split "
        "into blocks of other sizes, so no block is large enough.",
        idle=show(idle),
        tried=show(tried),
    )
    return Seen(words=words, evidence=(event,) if summary is None else (event, summary))


@sign
def idle_is_barely_enough(crash: Crash) -> Seen | None:
    """What lies idle is what was asked for and no more than the figures' rounding: in one piece nobody keeps it."""
    tried, idle = card(crash).tried_bytes, _idle_bytes(crash)
    if tried is None or idle is None or not tried <= idle <= tried + max(ROUNDED * tried, ROUNDED * GIB):
        return None
    words = say("what lies idle is hardly more than the {tried} that were requested", tried=show(tried))
    return Seen(words=words)


@sign
def idle_by_the_table(crash: Crash) -> Seen | None:
    """PyTorch's memory summary counts a failed allocation, and no message prints the requested size: half of the
    reserved memory was unallocated, and as much of it was inside blocks in use."""
    summary = _summary(crash)
    if summary is None or refusal(crash) is not None or not summary.ooms:
        return None
    idle, stuck, reserved = summary.idle_bytes or 0, summary.non_releasable_bytes or 0, summary.reserved_bytes or 0
    if not reserved or min(idle, stuck) < MOST_OF_IT * reserved:
        return None
    words = counted(
        summary.ooms,
        mark(
            "PyTorch's memory summary counts {count} failed allocation, while {idle} of {reserved} reserved was "
            "unallocated, {stuck} of it in segments that are partly in use."
        ),
        mark(
            "PyTorch's memory summary counts {count} failed allocations, while {idle} of {reserved} reserved was "
            "unallocated, {stuck} of it in segments that are partly in use."
        ),
        idle=show(idle),
        reserved=show(reserved),
        stuck=show(stuck),
    )
    doubt = say("the log does not show the requested size")
    return Seen(words=words, evidence=(summary,), against=(doubt,), shows_memory=True)


@sign
def idle_and_free_would_do(crash: Crash) -> Seen | None:
    """A quarter of the GPU is reserved but unallocated, and would do together with what is free: PyTorch gives whole
    segments back before it refuses, so these are in pieces."""
    it, idle = card(crash), _idle_bytes(crash)
    if idle is None or it.missing_bytes is None or (it.share(idle) or 0) < POOL_SHARE:
        return None
    words = say(
        "PyTorch has {idle} reserved but unallocated ({share} of the GPU). With the {free} that is free it would be "
        "enough for the requested {tried}, but PyTorch can give back whole segments only.",
        idle=show(idle), share=percent(it.share(idle)), free=show(it.free_bytes or 0), tried=show(it.tried_bytes or 0),
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,))


@sign
def idle_figure_missing(crash: Crash) -> Seen | None:
    """The message is cut before the reserved but unallocated memory, and no memory summary shows it."""
    if refusal(crash) is None or (card(crash).tried_bytes is not None and _idle_bytes(crash) is not None):
        return None
    return Seen(words=say("the rest of PyTorch's message: how much memory is reserved but unallocated"))


@sign
def room_beside_the_pieces(crash: Crash) -> Seen | None:
    """10 % of the GPU is free, and at least as much as was requested."""
    it, idle = card(crash), _idle_bytes(crash)
    if it.free_bytes is None or it.tried_bytes is None or it.free_bytes < it.tried_bytes or idle is None:
        return None
    if (it.share(it.free_bytes) or 0) < CACHE_SHARE:
        return None
    words = say(
        "{free} is free outside PyTorch's cache: the allocation did not need a cached block", free=show(it.free_bytes)
    )
    return Seen(words=words)


@sign
def idle_less_than_asked(crash: Crash) -> Seen | None:
    """The reserved but unallocated memory would be too small even in one piece."""
    it, idle = card(crash), _idle_bytes(crash)
    if idle is None or it.tried_bytes is None or idle >= it.tried_bytes or idle_and_free_would_do(crash) is not None:
        return None
    if not idle:
        return Seen(words=say("PyTorch has no memory that is reserved but unallocated"))
    words = say(
        "{idle} reserved but unallocated ({share} of the GPU) is less than the requested {tried}: too small "
        "even in one piece",
        idle=show(idle),
        share=percent(it.share(idle)),
        tried=show(it.tried_bytes),
    )
    return Seen(words=words)


@sign
def ordinary_cache(crash: Crash) -> Seen | None:
    """The reserved but unallocated memory is less than 10 % of the memory in use."""
    it, idle = card(crash), _idle_bytes(crash)
    if idle is None or it.tried_bytes is None or not it.allocated_bytes or idle >= CACHE_SHARE * it.allocated_bytes:
        return None
    words = say(
        "{idle} reserved but unallocated is {share} of the GPU and {used} of the memory in use: a normal cache",
        idle=show(idle),
        share=percent(it.share(idle)),
        used=percent(idle / it.allocated_bytes),
    )
    return Seen(words=words)


@sign
def expandable_segments_set(crash: Crash) -> Seen | None:
    """The allocator setting against fragmentation (expandable_segments) is on."""
    it, idle = card(crash), _idle_bytes(crash)
    setting = crash.setting("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")
    if idle is None or it.tried_bytes is None or setting is None:
        return None
    if "expandable_segments:true" not in str(setting.value).lower():
        return None
    words = say(
        "{idle} is reserved but unallocated ({share} of the GPU), but expandable segments, the cure for it, "
        "are already on",
        idle=show(idle),
        share=percent(it.share(idle)),
    )
    return Seen(words=words)


def _idle_bytes(crash: Crash) -> int | None:
    """What is reserved and in no tensor: as the message says, or the allocator's last table."""
    idle, summary = card(crash).unallocated_bytes, _summary(crash)
    return idle if idle is not None or summary is None or refusal(crash) is None else summary.idle_bytes


def _summary(crash: Crash) -> MemorySummary | None:
    """The last table of the card that refused."""
    gpu = crash.root.process.gpu
    tables = [event for event in crash.every(MemorySummary) if gpu in (None, event.process.gpu)]
    return tables[-1] if tables else None


@sign
def others_hold_more_than_lies_idle(crash: Crash) -> Seen | None:
    """Other processes hold more than twice the unallocated memory of this process: stop them first."""
    it = card(crash)
    if (it.others_bytes or 0) <= OTHERS * (it.unallocated_bytes or 0):
        return None
    words = say(
        "other processes hold {others} of GPU memory, much more than this process has reserved but unallocated",
        others=show(it.others_bytes or 0),
    )
    return Seen(words=words)


@sign
def others_hold_most_of_the_card(crash: Crash) -> Seen | None:
    """Other processes hold half of the GPU, and more than twice the unallocated memory of this process."""
    it = card(crash)
    others = it.others_bytes or (it.beyond_bytes if it.own_bytes is None else 0) or 0
    is_most = others > OTHERS * (it.unallocated_bytes or 0) and (it.share(others) or 0) >= HALF
    return Seen(words="") if is_most else None


@sign
def pools_of_graphs_counted_as_idle(crash: Crash) -> Seen | None:
    """CUDA graphs were captured by PyTorch up to 2.4, whose message does not print their private pools."""
    event = refusal(crash)
    if event is None or event.private_pools_bytes is not None or card(crash).own_bytes is None:
        return None
    if crash.stage != "cuda_graph_capture" and crash.in_trace(GRAPHS) is None:
        return None
    return Seen(words=say("CUDA graphs were captured, and PyTorch before 2.5 counts their pools as unallocated"))


@sign
def small_segment_refused(crash: Crash) -> Seen | None:
    """The request is no larger than what the allocator takes from the driver for small tensors."""
    tried = card(crash).tried_bytes
    return Seen(words="") if tried is not None and tried <= STRAW else None


@sign
def engine_starting(crash: Crash) -> Seen | None:
    """An inference engine was starting."""
    return Seen(words="") if crash.stage in STARTING else None


class _Pool(Struct, frozen=True):
    """TensorFlow's pool says what it has of the driver, and what of that is in use."""

    event: ArrayOutOfMemory
    tried_bytes: int
    region_bytes: int
    used_bytes: int

    @property
    def idle_bytes(self) -> int:
        return self.region_bytes - self.used_bytes

    @property
    def is_ordinary(self) -> bool:
        return self.idle_bytes < POOL_SHARE * self.region_bytes

    @property
    def figures(self) -> dict[str, str | None]:
        return {
            "region": show(self.region_bytes),
            "used": show(self.used_bytes),
            "idle": show(self.idle_bytes),
            "asked": self.event.array_words,
        }


def _pool(crash: Crash) -> _Pool | None:
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory):
        return None
    tried, region, used = root.array_bytes, root.region_bytes, root.in_use_bytes
    return None if tried is None or region is None or used is None else _Pool(root, tried, region, used)


@sign
def pool_in_pieces(crash: Crash) -> Seen | None:
    """At least 25 % of TensorFlow's pool is unused, and at least as much as was requested."""
    pool = _pool(crash)
    if pool is None or pool.is_ordinary or pool.idle_bytes < pool.tried_bytes:
        return None
    words = say(
        "The framework's pool has {region}, of which {used} is in use. The other {idle} is more than "
        "requested ({asked}), but not in one piece.",
        **pool.figures,
    )
    return Seen(words=words, evidence=(pool.event,))


@sign
def ordinary_rest_of_the_pool(crash: Crash) -> Seen | None:
    """Less than 25 % of TensorFlow's pool is unused, though at least as much as was requested."""
    pool = _pool(crash)
    if pool is None or not pool.is_ordinary or pool.idle_bytes < pool.tried_bytes:
        return None
    words = say("the framework's pool has {region}, of which {used} is in use: {idle} unused is normal", **pool.figures)
    return Seen(words=words)


@sign
def pool_with_less_than_asked(crash: Crash) -> Seen | None:
    """The unused part of TensorFlow's pool would be too small even in one piece."""
    pool = _pool(crash)
    if pool is None or pool.idle_bytes >= pool.tried_bytes:
        return None
    words = say(
        "the framework's pool has {region}, of which {used} is in use: {idle} unused is less than requested ({asked})",
        **pool.figures,
    )
    return Seen(words=words)


def idle(crash: Crash) -> int | None:
    """What the allocator holds and no tensor uses: PyTorch's, or TensorFlow's pool."""
    pool = _pool(crash)
    return pool.idle_bytes if pool is not None else _idle_bytes(crash)
