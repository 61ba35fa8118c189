"""Slots about host memory that was requested and not given: RAM, address space, page-locked memory."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.budget import DataSpent, MapsSpent
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
from oomdoctor.report.headline.figures import beside, brief, briefly, shown
from oomdoctor.report.headline.slot import about, first, root, where
from oomdoctor.signs import address_space, databases, heaps, set_limits
from oomdoctor.signs.host_growth import small_array_refused_after_many_steps
from oomdoctor.signs.optimizer import paged_states_were_refused
from oomdoctor.signs.pinned import (
    huge_pages_were_refused,
    locking_was_refused,
    registering_was_refused_by_an_adapter,
    registering_was_refused_without_a_limit,
    the_traceback_ends_in_pinning,
)
from oomdoctor.units import show

_REQUESTS: Final = (HostAllocation, ArrayOutOfMemory, BufferRefused, Short, Shortage)
_OF_THE_HOST: Final = ("host_ram", "cgroup", "none")
_ERRORS: Final = ("std::bad_alloc", "ArrowMemoryError", "MemoryError", "DefaultCPUAllocator", "OutOfMemoryError")
_RUNTIMES: Final = {"jvm": "Java"}
_PINS: Final = late(r"pin_memory|pinned|pin_shared_memory|cudaHost(?:Alloc|Register)|cudaMallocHost")
_SAVES: Final = late(
    r"(?:(?:^|\s)\[?(\d{1,10})(?::[MCSX]|\]) .{0,80})?\bCan't (?:save|rewrite append only file) in background: fork: "
)
_NO_GIGABYTE: Final = late(r"\byou tried to (?:re)?allocate 0GB\b")
_LOCKS: Final = {"rdma": "RDMA", "mlock": "mlock", "bpf": "eBPF"}


def _request(crash: Crash) -> HostAllocation | ArrayOutOfMemory | BufferRefused | Short | Shortage | None:
    """The refusal of host memory that is told: one with a size before one without."""
    events = (crash.root, *crash.every(HostAllocation), *crash.every(ArrayOutOfMemory), *crash.every(BufferRefused))
    asked = [event for event in events if isinstance(event, _REQUESTS) and event.pool in _OF_THE_HOST]
    return next((event for event in asked if event.tried_bytes), next(iter(asked), None))


def _asked(event: HostAllocation | ArrayOutOfMemory | BufferRefused | Short | Shortage) -> int | None:
    """As the message prints it; ggml prints what the buffer's owner asked for."""
    return event.tried_bytes or (event.buffer_bytes if isinstance(event, BufferRefused) else None)


def ram_requested(crash: Crash) -> str | None:
    """The allocation of RAM that failed: the failure's own, else the first that is printed."""
    event = _request(crash)
    return briefly(_asked(event)) if event is not None else None


@where(small_array_refused_after_many_steps)
def steps_before_a_small_refusal(crash: Crash) -> str | None:
    """How many steps had their memory before a small allocation of RAM failed."""
    progress = crash.context.progress
    return str(progress.get("step", progress.get("done")))


@about(total_bytes)
def ram_total(size: int) -> str | None:
    """The machine's RAM, where it is printed."""
    return briefly(size)


@where(address_space.refused_with_more_free)
@about(address_space.unused_ram)
def ram_free(size: int) -> str | None:
    """The RAM that was unused, where it is more than the allocation that failed."""
    return brief(size)


@about(databases.set_aside)
def database(of: tuple[str, str]) -> str | None:
    """The database that was refused memory when it started."""
    return of[0]


@about(databases.set_aside)
def set_aside_by_it(of: tuple[str, str]) -> str | None:
    """What it sets aside then."""
    return of[1]


@about(databases.requested)
def database_requested(size: int) -> str | None:
    """How much that is."""
    return briefly(size)


@about(heaps.refused_heap)
def heap_of(refused: HostAllocation) -> str | None:
    """The runtime that was refused memory for its heap."""
    return _RUNTIMES.get(refused.allocator)


@where(databases.query_was_refused)
def query_requested(crash: Crash) -> str | None:
    """What PostgreSQL was refused for a query; None where it was for an autovacuum."""
    return None if databases.of_a_vacuum(crash) else ram_requested(crash)


def array(crash: Crash) -> str | None:
    """The array that this allocation was for: its shape and type as printed."""
    event = _request(crash)
    if not isinstance(event, HostAllocation | ArrayOutOfMemory) or not event.shape:
        return None
    return say("{shape} of {dtype}", shape=event.shape, dtype=event.dtype) if event.dtype else event.shape


@about(set_limits.host_refusal)
def ram_error(refusal: HostAllocation) -> str | None:
    """How the refusal is called: "errno 12", "std::bad_alloc"."""
    if _on_windows(refusal):
        return None
    if refusal.errno:
        return f"errno {refusal.errno}"
    return next((word for word in _ERRORS if word in refusal.at.text), None)


@where(address_space.a_fork_was_refused)
def fork_error(crash: Crash) -> str | None:
    """How the refusal of a fork is called."""
    return ram_error(crash)


@where(address_space.a_fork_was_refused)
def saver(crash: Crash) -> str | None:
    """The Redis or Valkey that could not fork to write its data: rdb.c, aof.c and server.c, whose lines begin with the
    process and its role."""
    refusal = set_limits.host_refusal(crash)
    written = _SAVES.search(refusal.at.text) if refusal is not None else None
    if written is None:
        return None
    return say("Redis (PID {pid})", pid=written[1]) if written[1] else "Redis"


@where(address_space.a_thread_was_refused)
def thread_limit(crash: Crash) -> str | None:
    """Why there is no room for the stack of another thread."""
    limit = set_limits.address_limit(crash)
    if limit is None:
        return say("no memory for its stack")
    return say("address space is limited to {limit}", limit=show(limit))


@about(first(MapsSpent))
def maps_spent(_: MapsSpent) -> str | None:
    """The kernel's setting, where a process may have no more maps of memory."""
    return "vm.max_map_count"


@where(address_space.a_file_was_not_mapped)
def a_file(_: Crash) -> str | None:
    """What was to be mapped, whose name the message leaves out."""
    return say("a file")


@where(address_space.a_shared_tensor_was_not_mapped)
def shared_tensor(crash: Crash) -> str | None:
    """The size of the tensor that could not be shared between processes."""
    return ram_requested(crash)


@about(first(DataSpent))
def data_process(spent: DataSpent) -> str | None:
    """The process that has no more private memory."""
    return say("{process} (PID {pid})", process=spent.process.name, pid=spent.process.pid)


@about(first(DataSpent))
def data_limit(spent: DataSpent) -> str | None:
    """Its limit on that."""
    return briefly(spent.limit_bytes)


@about(set_limits.host_refusal)
def windows_error(refusal: HostAllocation) -> str | None:
    """Windows' error number of it: "error 1455"."""
    if not _on_windows(refusal):
        return None
    return say("error {number}", number=refusal.errno or address_space.WINDOWS_COMMIT)


@about(set_limits.host_refusal)
def less_than_a_gigabyte(refusal: HostAllocation) -> str | None:
    """What PyTorch's first allocator prints as 0GB: TH/THGeneral.cpp divides by a gigabyte and drops the rest."""
    return say("less than 1 GiB") if _NO_GIGABYTE.search(refusal.at.text) else None


@about(set_limits.host_refusal)
def windows_words(refusal: HostAllocation) -> str | None:
    """Windows, where PyTorch's allocator has the words that it has there."""
    return "Windows" if address_space.ON_WINDOWS.search(refusal.at.text) else None


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


def _on_windows(refusal: HostAllocation) -> bool:
    errors = (address_space.WINDOWS_COMMIT, *address_space.WINDOWS_RESOURCES)
    return refusal.allocator == "windows" or refusal.errno in errors


@about(address_space.kill_at_a_virtual_limit)
def virtual_job(kill: LimitKill) -> str:
    """Whom the scheduler ended for it: an executor of Spark's, by its number, or the job."""
    name = kill.process.name
    return say("Spark's {executor}", executor=name) if name else say("The job")


@about(address_space.kill_at_a_virtual_limit)
def virtual_used(kill: LimitKill) -> str | None:
    """The address space that a scheduler ended the job for."""
    return shown(kill.used_bytes)


@about(address_space.kill_at_a_virtual_limit)
def virtual_limit(kill: LimitKill) -> str | None:
    """The scheduler's limit on address space."""
    return shown(kill.limit_bytes)


@about(root(Short))
def load_needed(short: Short) -> str | None:
    """What the part of the model in RAM needs, by Ollama's own sum."""
    return briefly(short.needed_bytes)


@about(root(Short))
def load_free(short: Short) -> str | None:
    """What was available for it; None where that would have been enough."""
    if short.free_bytes is None or short.free_bytes >= (short.needed_bytes or 0):
        return None
    return brief(short.free_bytes)


def pinned_requested(crash: Crash) -> str | None:
    """The page-locked memory that was requested."""
    sizes = (event.figures("usage").get("tried_bytes") for event in crash.events if event.pool == "pinned")
    return briefly(next((size for size in sizes if isinstance(size, int) and size), None))


def pinned_in_use(crash: Crash) -> str | None:
    """What of the page-locked pool was in use: "31.9 of 32 GiB"."""
    pools = (each for each in crash.every(ArrayOutOfMemory) if each.allocator == "cuda_host_bfc")
    return next((beside(pool.in_use_bytes, pool.limit_bytes) for pool in pools), None)


def pinning(crash: Crash) -> str | None:
    """The call that pins host memory, as the traceback or the message has it."""
    frame = crash.in_trace(_PINS.pattern)
    text = f"{frame.file} {frame.function} {frame.code}" if frame is not None else crash.root.at.text
    found = _PINS.search(text)
    return found[0] if found is not None else None


@where(the_traceback_ends_in_pinning)
def pinning_last(crash: Crash) -> str | None:
    """The same, where the traceback ends there and the message is not in the log."""
    return pinning(crash)


def pinned_share(crash: Crash) -> str | None:
    """How much of the model a program put into page-locked memory."""
    sizes = [plan.swapped_bytes for plan in crash.every(MovePlan) if plan.swap == "shared" and plan.swapped_bytes]
    return briefly(sizes[-1]) if sizes else None


def pinning_library(crash: Crash) -> str | None:
    """The library that page-locked memory was refused to."""
    return next((event.library for event in crash.every(LibraryOutOfMemory) if event.pool == "pinned"), None)


def managed_library(crash: Crash) -> str | None:
    """The library that was refused managed memory."""
    refused = crash.root
    if isinstance(refused, LibraryOutOfMemory) and paged_states_were_refused(crash) is not None:
        return refused.library
    return None


@where(locking_was_refused)
def memlock(crash: Crash) -> str | None:
    """Who was refused locked memory: RDMA, or mlock."""
    refusals = crash.every(PinnedAllocation)
    return next((_LOCKS[event.allocator] for event in refusals if event.allocator in _LOCKS), None)


@where(registering_was_refused_without_a_limit)
def registering(_: Crash) -> str | None:
    """Who could not register memory, where that is no matter of a limit."""
    return "UCX"


@where(registering_was_refused_by_an_adapter)
def adapter(_: Crash) -> str | None:
    """With what memory could not be registered."""
    return say("the network adapter")


@where(huge_pages_were_refused)
def huge_pages(_: Crash) -> str | None:
    """What was refused by a pool of its own."""
    return say("Huge pages (vm.nr_hugepages)")


def buffer_pinned(crash: Crash) -> str | None:
    """llama.cpp, where it was refused the buffer that weights are copied through."""
    return "llama.cpp" if any(event.pool == "pinned" for event in crash.every(BufferRefused)) else None
