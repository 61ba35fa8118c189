"""Page-locked host memory: who was refused it, and what shows that it was not the card's."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import Event, Frame
from oomdoctor.families.forge import MovePlan
from oomdoctor.families.host_alloc import HUGE_PAGES, LOCKING, CutPinning, PinnedAllocation
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.process_limits import ProcessLimits
from oomdoctor.families.vllm_figures import KvCacheSize
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import (
    FREE,
    HUGE_PAGES_FREE,
    LOCKED_LIMIT,
    OF_A_REGISTRATION,
    ONE_CALL_AT_A_TIME,
    WHOLE_LOG,
)
from oomdoctor.signs.kills import HALF_FULL, part_in_use
from oomdoctor.units import percent, show

# What pins host memory. The driver's refusal then says "CUDA error: out of memory", as for the card.
_PINS: Final = r"pin_memory|pinned|pin_shared_memory|cudaHost(?:Alloc|Register)|cudaMallocHost|page-?lock"
# What a quoted call was asked for: "cudaMalloc(p, size) == cudaSuccess"
_OF_A_CARD: Final = late(
    r"\b(?:cuda|hip)Malloc(?:Async|Managed|Pitch)?\(|\bcuMemAlloc(?:_v2|Async)?\("
    r"|(?i:\bdevice (?:memory |buffer )?pool (?:is |was )?(?:exhausted|full)\b)"  # the message's own word for it
)
# cudaErrorInvalidValue. What the driver answers, where it is not "out of memory"
_ANSWER: Final = r"(?:CUDA|HIP) error: (?:out of memory|invalid argument)"
_INVALID: Final = "invalid argument"
# src/uct/ib/base/ib_md.c of UCX 1.5 to 1.18: behind it stands "Please set max locked memory (ulimit -l)" for any limit
_WITHOUT_A_LIMIT: Final = late(
    r"\bUCX\s{1,4}ERROR\s{1,4}ibv_(?:exp_)?reg_mr\w{0,20}\([^)\n]{1,160}\) failed: Cannot allocate memory\s{0,4}$"
)
_ADAPTER: Final = "adapter"
_BY_A_LIMIT: Final = frozenset(LOCKING) - {_ADAPTER}
_PINNED_STATES: Final = r"_cpu_memory\b|offload_(?:optimizer|param)|cpu_offload|create_swap_buffers|swap_tensor"
_BEFORE_GRAPHS: Final = ("engine_init", "kv_cache_init", "unknown")  # stages
_WINDOWS_UNDER_LINUX: Final = r"\bWSL2?\b|/mnt/(?:wsl|[a-z])/|microsoft-standard"


@sign
def locking_was_refused(crash: Crash) -> Seen | None:
    """RDMA or mlock failed with errno 12: the limit on locked memory."""
    refusal = _refusal(crash)
    if not isinstance(refusal, PinnedAllocation) or refusal.allocator not in _BY_A_LIMIT or _names_no_limit(refusal):
        return None
    words = say(
        "Registering memory for RDMA or locking memory failed with errno 12: the limit on locked memory "
        "(ulimit -l) was hit, not the amount of RAM."
    )
    limits = next((one for one in reversed(crash.every(ProcessLimits)) if one.locked_bytes is not None), None)
    if limits is None:
        return Seen(words=words, evidence=(refusal,), pool="pinned", next_evidence=(LOCKED_LIMIT,))
    limit = say("The limit is {limit}.", limit=show(limits.locked_bytes or 0))
    return Seen(words=joined((words, limit)), evidence=(refusal, limits), pool="pinned")


@sign
def registering_was_refused_without_a_limit(crash: Crash) -> Seen | None:
    """UCX could not register memory, and does not name the limit on locked memory, as it does wherever there is one."""
    refusal = _refusal(crash)
    if not isinstance(refusal, PinnedAllocation) or not _names_no_limit(refusal):
        return None
    words = say(
        "UCX could not register memory for RDMA (errno 12), and names no limit on locked memory, as it does from 1.5 "
        "on unless that is unlimited: too many memory maps (vm.max_map_count), full tables of the network adapter or "
        "full RAM are left."
    )
    return _for_one_of_several_reasons(refusal, words)


@sign
def registering_was_refused_by_an_adapter(crash: Crash) -> Seen | None:
    """A library could not register memory with a network adapter, and only says that there was no memory for it."""
    refusal = _refusal(crash)
    if not isinstance(refusal, PinnedAllocation) or refusal.allocator != _ADAPTER:
        return None
    words = say(
        "Registering memory with the network adapter failed with errno 12. Registering pins the memory: the limit on "
        "locked memory (ulimit -l), the adapter's own tables, full RAM, or for GPU memory its BAR1 window are left."
    )
    return _for_one_of_several_reasons(refusal, words)


def _for_one_of_several_reasons(refusal: PinnedAllocation, words: str) -> Seen:
    return Seen(
        words=words,
        evidence=(refusal,),
        against=(say("the message does not say which of them it was"),),
        pool="pinned",
        unsure=True,
        next_evidence=(OF_A_REGISTRATION,),
    )


@sign
def huge_pages_were_refused(crash: Crash) -> Seen | None:
    """A pool of huge pages has none left: the system sets it aside, and never swaps what lies in it."""
    refusal = _refusal(crash)
    if not isinstance(refusal, PinnedAllocation) or refusal.allocator != HUGE_PAGES:
        return None
    words = say(
        "Allocating huge pages failed: they come from a pool of their own (vm.nr_hugepages), which does not grow "
        "however much RAM is free, and what lies in it is never swapped."
    )
    return Seen(words=words, evidence=(refusal,), pool="pinned", next_evidence=(HUGE_PAGES_FREE,))


def _names_no_limit(refusal: PinnedAllocation) -> bool:
    return _WITHOUT_A_LIMIT.search(refusal.at.text) is not None


@sign
def tensorflow_pins_what_it_copies(crash: Crash) -> Seen | None:
    """TensorFlow's own allocator for what crosses to the GPU was refused pinned memory."""
    return Seen(words="") if crash.job.world == "tensorflow" else None


@sign
def the_buffer_for_copying_was_refused(crash: Crash) -> Seen | None:
    """llama.cpp could not allocate a buffer although no layer was put on the GPU: the buffer for copying weights."""
    refusal = _refusal(crash)
    if not isinstance(refusal, BufferRefused):
        return None
    words = say(
        "No layer was put on the GPU, so the allocation that failed is the pinned host buffer for copying "
        "weights. The driver uses the same message for it."
    )
    unclear = say("the message does not say which memory it was")
    return Seen(words=joined((words, _platform(crash))), evidence=(refusal,), against=(unclear,), pool="pinned")


@sign
def the_traceback_ends_in_pinning(crash: Crash) -> Seen | None:
    """A traceback ends in a call that pins host memory, and the message is not in the log."""
    if not isinstance(crash.root, CutPinning):
        return None
    printed = part_in_use(crash)
    mostly_free = printed is not None and printed < HALF_FULL
    return Seen(
        words=say("A traceback ends in a call that pins host memory; the message itself is not in the log."),
        evidence=(crash.root,),
        against=(_little_in_use(printed),) if mostly_free else (),
        pool="pinned",
        next_evidence=() if mostly_free else (WHOLE_LOG, FREE),
    )


def _little_in_use(part: float | None) -> str:
    return say("only {share} of the node's memory was in use at the last report", share=percent(part))


@sign
def page_locked_bytes_were_refused(crash: Crash) -> Seen | None:
    """A pinned host allocation failed, and its size is printed."""
    refusal = _refusal(crash)
    size = refusal.figures("usage").get("tried_bytes") if refusal is not None else None
    if refusal is None or not size:
        return None
    return _page_locked(crash, refusal, say("Allocating {size} of pinned host memory failed.", size=show(size)))


@sign
def pinning_was_an_invalid_argument(crash: Crash) -> Seen | None:
    """A pinned host allocation failed with an error that a wrong size, or the failure of an earlier call, gives too."""
    refusal = _refusal(crash)
    if refusal is None or _INVALID not in (crash.mentions(_ANSWER) or ""):
        return None
    what = say(
        'Allocating pinned host memory failed with "invalid argument", which the driver also says when it cannot pin '
        "that much."
    )
    otherwise = say("a wrong size, or the failure of an earlier call on the GPU, gives the same message")
    return Seen(
        words=joined((what, _platform(crash))),
        evidence=(refusal,),
        against=(otherwise,),
        unsure=True,
        pool="pinned",
        next_evidence=(FREE, ONE_CALL_AT_A_TIME),
    )


@sign
def page_locked_memory_was_refused(crash: Crash) -> Seen | None:
    """A pinned host allocation failed, by a message or a call that means nothing else."""
    refusal = _refusal(crash)
    return None if refusal is None else _page_locked(crash, refusal, say("Allocating pinned host memory failed."))


def _page_locked(crash: Crash, refusal: Event, what: str) -> Seen:
    why = say(
        'The driver says "out of memory" for host memory and for GPU memory; here the traceback or the message '
        "shows host memory."
    )
    words = joined((what, why, _platform(crash)))
    return Seen(words=words, evidence=(refusal,), pool="pinned", shows_memory=True)


def _refusal(crash: Crash) -> Event | None:
    return next((event for event in crash.events if event.pool == "pinned" and event.strength >= 1), None)


@sign
def refused_in_code_that_pins(crash: Crash) -> Seen | None:
    """An allocation failed without GPU figures, in code that pins host memory or keeps states there."""
    return _bare(crash) if _is_bare(crash) and _frame(crash) is not None else None


@sign
def refused_with_room_on_the_card(crash: Crash) -> Seen | None:
    """An allocation failed without GPU figures; part of the model was to go to pinned memory, and the part for the GPU
    had room there. A line near the failure mentions pinned memory."""
    beside = crash.mentions(_PINS) is not None or crash.mentions(_WINDOWS_UNDER_LINUX) is not None
    return _bare(crash) if _is_bare(crash) and beside and _swapped(crash) else None


@sign
def refused_behind_its_swap_blocks(crash: Crash) -> Seen | None:
    """vLLM V0 had counted its blocks in host memory, which it pins next, and the driver refused without figures:
    PyTorch's allocator prints them of a tensor on the GPU (vllm/worker/cache_engine.py 0.1.0 to 0.8)."""
    root = crash.root
    if not _is_bare(crash) or not isinstance(root, DeviceRefusal) or crash.stage not in _BEFORE_GRAPHS:
        return None
    counted = (one for one in crash.every(KvCacheSize) if one.at.file == root.at.file and one.at.line < root.at.line)
    blocks = next((one for one in counted if one.cpu_blocks), None)
    if blocks is None:
        return None
    words = say(
        "vLLM had counted {count} blocks for the CPU, which it allocates as pinned host memory next (swap_space). The "
        "message has no GPU figures, as a failure to pin host memory has none.",
        count=blocks.cpu_blocks,
    )
    unsure = say("nothing in the log proves that it was host memory")
    return Seen(
        words=joined((words, _platform(crash))),
        evidence=(root, blocks),
        against=(unsure,),
        pool="pinned",
        stage="kv_cache_init",
    )


@sign
def refused_beside_a_line_on_pinning(crash: Crash) -> Seen | None:
    """An allocation failed without GPU figures, and a line near the failure mentions pinned memory."""
    return _bare(crash) if _is_bare(crash) and crash.mentions(_PINS) is not None else None


@sign
def refused_under_wsl(crash: Crash) -> Seen | None:
    """An allocation failed without GPU figures, under WSL, where less memory can be pinned."""
    return _bare(crash) if _is_bare(crash) and crash.mentions(_WINDOWS_UNDER_LINUX) is not None else None


@sign
def the_card_was_full_by_its_figures(crash: Crash) -> Seen | None:
    """A line mentions pinned memory or WSL, but no frame pins memory and GPU figures stand beside the failure."""
    if not _is_bare(crash) or _frame(crash) is not None:
        return None
    if refused_beside_a_line_on_pinning(crash) is None and refused_under_wsl(crash) is None:
        return None
    cards = (event for event in crash.events if event.pool == "gpu" and event.role != "context")
    if all(event.figures("usage").get("free_bytes") is None for event in cards):
        return None
    return Seen(words=say("the GPU was full by its own figures"))


def _is_bare(crash: Crash) -> bool:
    """Whether the driver refused something and nothing printed says of which memory."""
    root = crash.root
    if _refusal(crash) is not None or root.pool != "gpu" or root.figures("usage"):
        return False
    if _OF_A_CARD.search(root.at.text) is not None:
        return False
    return not (isinstance(root, DeviceRefusal) and root.layer == "nvml")


def _bare(crash: Crash) -> Seen:
    unsure = say("nothing in the log proves that it was host memory")
    return Seen(
        words=joined((_where(crash), _swapped(crash), _platform(crash))),
        evidence=(crash.root,),
        against=(unsure,),
        pool="pinned",
    )


def _where(crash: Crash) -> str:
    if _frame(crash) is not None:
        return say(
            "An allocation failed without GPU figures, in code that pins host memory. A failure to pin host "
            "memory gives the same message."
        )
    if crash.mentions(_PINS) is not None:
        return say(
            "An allocation failed without GPU figures, and the log mentions pinned host memory. A failure to "
            "pin host memory gives the same message."
        )
    return say("An allocation failed without GPU figures. A failure to pin host memory gives the same message.")


def _frame(crash: Crash) -> Frame | None:
    return crash.in_trace(_PINS) or crash.in_trace(_PINNED_STATES)


def _swapped(crash: Crash) -> str:
    """A program that moves a part of the model to page-locked memory, with room on the card for the rest."""
    plans = [plan for plan in crash.every(MovePlan) if plan.swap == "shared" and plan.swapped_bytes]
    if not plans:
        return ""
    swapped, on_card, free = plans[-1].swapped_bytes or 0, plans[-1].on_card_bytes, plans[-1].free_bytes or 0
    if on_card is None or free < on_card:
        return ""
    return say(
        "{swapped} of the model went there; {free} was free for the {on_card} that went to the GPU.",
        swapped=show(swapped),
        on_card=show(on_card),
        free=show(free),
    )


def _platform(crash: Crash) -> str:
    if crash.mentions(_WINDOWS_UNDER_LINUX) is None:
        return ""
    return say("Under WSL only part of the machine's memory can be pinned.")
