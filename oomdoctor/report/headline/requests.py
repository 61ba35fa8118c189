"""Slots about host memory that was requested and not given: RAM, address space, page-locked memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.budget import MapsSpent
from oomdoctor.families.container import LimitKill
from oomdoctor.families.forge import MovePlan
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation, PinnedAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.families.ollama import Short
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.signs import set_limits
from oomdoctor.units import show

_REQUESTS: Final = (HostAllocation, ArrayOutOfMemory, BufferRefused, Short, Shortage)
_OF_THE_HOST: Final = ("host_ram", "cgroup", "none")
_ERRORS: Final = ("std::bad_alloc", "ArrowMemoryError", "MemoryError", "DefaultCPUAllocator", "OutOfMemoryError")
_PINS: Final = late(r"pin_memory|pinned|pin_shared_memory|cudaHost(?:Alloc|Register)|cudaMallocHost")


def ram_requested(crash: Crash) -> str | None:
    """The allocation of RAM that failed: the failure's own, else the first that is printed."""
    event = _request(crash)
    return brief(event.tried_bytes) if event is not None and event.tried_bytes else None


def ram_total(crash: Crash) -> str | None:
    """The machine's RAM, where it is printed."""
    total = total_bytes(crash)
    return brief(total) if total else None


def ram_free(crash: Crash) -> str | None:
    """The RAM that was unused, where it is more than the allocation that failed."""
    total, used = (crash.context.hardware.get(name) for name in ("ram_bytes", "ram_used_bytes"))
    refused = _refused(crash)
    tried = refused.tried_bytes if refused is not None else None
    free = total - used if isinstance(total, int) and isinstance(used, int) else None
    return brief(free) if free is not None and tried is not None and free > tried else None


def array(crash: Crash) -> str | None:
    """The array that this allocation was for: its shape and type as printed."""
    event = _request(crash)
    if not isinstance(event, HostAllocation | ArrayOutOfMemory) or not event.shape:
        return None
    return say("{shape} of {dtype}", shape=event.shape, dtype=event.dtype) if event.dtype else event.shape


def ram_error(crash: Crash) -> str | None:
    """How the refusal is called: "errno 12", "std::bad_alloc"."""
    refused = _refused(crash)
    if refused is None or _on_windows(refused):
        return None
    if refused.errno:
        return f"errno {refused.errno}"
    return next((word for word in _ERRORS if word in refused.at.text), None)


def maps_spent(crash: Crash) -> str | None:
    """The kernel's setting, where a process may have no more maps of memory."""
    return "vm.max_map_count" if crash.first(MapsSpent) is not None else None


def windows_error(crash: Crash) -> str | None:
    """Windows' error number of it: "error 1455"."""
    refused = _refused(crash)
    if refused is None or not _on_windows(refused):
        return None
    return say("error {number}", number=refused.errno) if refused.errno else say("error 1455")


def windows_words(crash: Crash) -> str | None:
    """Windows, where PyTorch's allocator has the words that it has there."""
    refused = _refused(crash)
    told = refused is not None and "not enough memory: you tried to allocate" in refused.at.text
    return "Windows" if told else None


def address_limit(crash: Crash) -> str | None:
    """The limit on address space that stopped an allocation."""
    limited = set_limits.request_beyond_the_address_limit(crash) or set_limits.address_space_is_limited(crash)
    return show(set_limits.address_limit(crash) or 0) if limited is not None else None


def commit_limit(crash: Crash) -> str | None:
    """The kernel's limit on what it commits, where it is what stopped an allocation."""
    if set_limits.commit_limit_and_free_memory(crash) is None and set_limits.overcommit_is_off(crash) is None:
        return None
    limit = next((one.commit_limit_bytes for one in crash.every(MachineMemory) if one.commit_limit_bytes), None)
    return show(limit) if limit is not None else None


def virtual_used(crash: Crash) -> str | None:
    """The address space that a scheduler ended the job for."""
    kill = _virtual(crash)
    return show(kill.used_bytes) if kill is not None and kill.used_bytes else None


def virtual_limit(crash: Crash) -> str | None:
    """The scheduler's limit on address space."""
    kill = _virtual(crash)
    return show(kill.limit_bytes) if kill is not None and kill.limit_bytes else None


def load_needed(crash: Crash) -> str | None:
    """What the part of the model in RAM needs, by Ollama's own sum."""
    short = crash.root
    return brief(short.needed_bytes) if isinstance(short, Short) and short.needed_bytes else None


def load_free(crash: Crash) -> str | None:
    """What was available for it; None where that would have been enough."""
    short = crash.root
    if not isinstance(short, Short) or short.free_bytes is None or short.free_bytes >= (short.needed_bytes or 0):
        return None
    return brief(short.free_bytes)


def pinned_requested(crash: Crash) -> str | None:
    """The page-locked memory that was requested."""
    for event in crash.events:
        size = event.figures("usage").get("tried_bytes") if event.pool == "pinned" else None
        if isinstance(size, int) and size:
            return brief(size)
    return None


def pinned_in_use(crash: Crash) -> str | None:
    """What of the page-locked pool was in use: "31.9 of 32 GiB"."""
    pool = next((each for each in crash.every(ArrayOutOfMemory) if each.allocator == "cuda_host_bfc"), None)
    if pool is None or not pool.in_use_bytes or not pool.limit_bytes or pool.in_use_bytes > pool.limit_bytes:
        return None
    return beside(pool.in_use_bytes, pool.limit_bytes)


def pinning(crash: Crash) -> str | None:
    """The call that pins host memory, as the traceback or the message has it."""
    frame = crash.in_trace(_PINS.pattern)
    text = f"{frame.file} {frame.function} {frame.code}" if frame is not None else crash.root.at.text
    found = _PINS.search(text)
    return found[0] if found is not None else None


def pinned_share(crash: Crash) -> str | None:
    """How much of the model a program put into page-locked memory."""
    plan = next(
        (each for each in reversed(crash.every(MovePlan)) if each.swap == "shared" and each.swapped_bytes), None
    )
    return brief(plan.swapped_bytes) if plan is not None and plan.swapped_bytes else None


def pinning_library(crash: Crash) -> str | None:
    """The library that page-locked memory was refused to."""
    refused = next((each for each in crash.every(LibraryOutOfMemory) if each.pool == "pinned"), None)
    return refused.library if refused is not None else None


def memlock(crash: Crash) -> str | None:
    """Who was refused locked memory: RDMA, or mlock."""
    refusal = next((each for each in crash.every(PinnedAllocation) if each.allocator in ("rdma", "mlock")), None)
    return {"rdma": "RDMA", "mlock": "mlock"}[refusal.allocator] if refusal is not None else None


def buffer_pinned(crash: Crash) -> str | None:
    """llama.cpp, where it was refused the buffer that weights are copied through."""
    refused = next((each for each in crash.every(BufferRefused) if each.pool == "pinned"), None)
    return "llama.cpp" if refused is not None else None


def _request(crash: Crash) -> HostAllocation | ArrayOutOfMemory | BufferRefused | Short | Shortage | None:
    """The refusal of host memory that is told: one with a size before one without."""
    events = (crash.root, *crash.every(HostAllocation), *crash.every(ArrayOutOfMemory), *crash.every(BufferRefused))
    asked = [event for event in events if isinstance(event, _REQUESTS) and event.pool in _OF_THE_HOST]
    return next((event for event in asked if event.tried_bytes), next(iter(asked), None))


def _refused(crash: Crash) -> HostAllocation | None:
    return next((event for event in crash.every(HostAllocation) if event.pool == "host_ram"), None)


def _on_windows(refused: HostAllocation) -> bool:
    return refused.allocator == "windows" or refused.errno in (8, 14, 1450, 1455)


def _virtual(crash: Crash) -> LimitKill | None:
    return next((kill for kill in crash.every(LimitKill) if kill.virtual), None)


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        address_limit, commit_limit, ram_requested, ram_total, ram_free, array, ram_error, maps_spent, windows_error,
        windows_words, virtual_used, virtual_limit, load_needed, load_free, pinned_requested, pinned_in_use, pinning,
        pinned_share, pinning_library, memlock, buffer_pinned,
    )
}  # fmt: skip
