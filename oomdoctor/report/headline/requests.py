"""Slots about host memory that was requested and not given: RAM, page-locked memory, and what it was for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import CompilerKill, HostAllocation, PinnedAllocation
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.llama_cpp import BufferRefused
from oomdoctor.families.ollama import Short
from oomdoctor.families.sglang import HostCacheTooLarge
from oomdoctor.families.vllm_error import SwapSpaceTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.report.headline.gpu import gpu
from oomdoctor.signs.builds import COMPILER
from oomdoctor.signs.checkpoints import RESUMING, SAVING
from oomdoctor.signs.host_data import cached_bytes
from oomdoctor.signs.offload import names_of_switches
from oomdoctor.units import show

_OF_THE_HOST: Final = ("host_ram", "cgroup", "none")
_PINS: Final = r"pin_memory|pinned|pin_shared_memory|cudaHost(?:Alloc|Register)|cudaMallocHost"
_JOBS: Final = late(
    r"\bMAX_JOBS\W{1,3}(\d{1,4})\b|\b(?:make|ninja|cmake --build|cargo build)\b[^\n]{0,80} -j ?(\d{1,4})\b"
)


def ram_requested(crash: Crash) -> str | None:
    """The allocation of RAM that failed: the failure's own, else the first that is printed."""
    first = (crash.first(HostAllocation), crash.first(ArrayOutOfMemory), crash.first(BufferRefused))
    for event in (crash.root, *first):
        size = event.figures("usage").get("tried_bytes") if event is not None and event.pool in _OF_THE_HOST else None
        if isinstance(size, int) and size > 0:
            return brief(size)
    return None


def ram(crash: Crash) -> str | None:
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
    """The array that RAM was requested for: its shape and type as printed."""
    event = next((each for each in (*crash.every(HostAllocation), *crash.every(ArrayOutOfMemory)) if each.shape), None)
    if event is None or event.pool not in _OF_THE_HOST:
        return None
    return say("{shape} of {dtype}", shape=event.shape, dtype=event.dtype) if event.dtype else event.shape


def ram_errno(crash: Crash) -> str | None:
    """The error number of the refused allocation: "errno 12"."""
    refused = _refused(crash)
    return f"errno {refused.errno}" if refused is not None and refused.errno and not _on_windows(refused) else None


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


def virtual_used(crash: Crash) -> str | None:
    """The address space that a scheduler ended the job for."""
    kill = _virtual(crash)
    return show(kill.used_bytes) if kill is not None and kill.used_bytes else None


def virtual_limit(crash: Crash) -> str | None:
    """The scheduler's limit on address space."""
    kill = _virtual(crash)
    return show(kill.limit_bytes) if kill is not None and kill.limit_bytes else None


def compiler(crash: Crash) -> str | None:
    """The compiler that was killed, or found no memory."""
    reported = next((each.program for each in crash.every(CompilerKill) if each.program), None)
    kill = _compiler_kill(crash)
    return reported or (kill.process.name if kill is not None else None)


def compiler_held(crash: Crash) -> str | None:
    """What the kernel says that this compiler held."""
    kill = _compiler_kill(crash)
    if kill is None or kill.process.name != compiler(crash):
        return None
    return brief(kill.anon_rss_bytes) if kill.anon_rss_bytes else None


def compiler_requested(crash: Crash) -> str | None:
    """What the compiler requested and did not get."""
    size = next((each.tried_bytes for each in crash.every(CompilerKill) if each.tried_bytes), None)
    return brief(size) if size else None


def build_jobs(crash: Crash) -> str | None:
    """How many compile jobs the build runs at once, where a line near the failure says so."""
    line = crash.mentions(_JOBS.pattern)
    found = _JOBS.search(line) if line is not None else None
    return (found[1] or found[2]) if found is not None else None


def checkpointing(crash: Crash) -> str | None:
    """Saving or loading a checkpoint, with the function where the traceback names it."""
    saving, loading = crash.in_trace(SAVING), crash.in_trace(RESUMING)
    if crash.stage == "checkpoint_load":
        frame = loading
        words = say("Loading a checkpoint")
    elif crash.stage == "checkpoint_save":
        frame = saving
        words = say("Saving a checkpoint")
    else:
        return None
    return say("{what} ({function})", what=words, function=frame.function) if frame is not None else words


def checkpoint_gpu(crash: Crash) -> str | None:
    """The GPU that a checkpoint did not fit on; None where it was the host's memory."""
    return gpu(crash) if crash.pool == "gpu" else None


def swap_space(crash: Crash) -> str | None:
    """The engine's swap space that is too large for the node."""
    refusal = crash.first(SwapSpaceTooLarge)
    return brief(refusal.swap_bytes) if refusal is not None and refusal.swap_bytes else None


def swap_ram(crash: Crash) -> str | None:
    """The node's RAM, as the engine's refusal of its swap space has it."""
    refusal = crash.first(SwapSpaceTooLarge)
    return brief(refusal.host_total_bytes) if refusal is not None and refusal.host_total_bytes else None


def host_cache(crash: Crash) -> str | None:
    """The KV cache in RAM that SGLang requests."""
    refusal = crash.first(HostCacheTooLarge)
    return brief(refusal.tried_bytes) if refusal is not None and refusal.tried_bytes else None


def host_cache_free(crash: Crash) -> str | None:
    """The RAM that was free for it; None where that would have been enough."""
    refusal = crash.first(HostCacheTooLarge)
    if refusal is None or refusal.free_bytes is None or refusal.free_bytes >= (refusal.tried_bytes or 0):
        return None
    return brief(refusal.free_bytes)


def offloads(crash: Crash) -> str | None:
    """The settings that keep states in RAM."""
    return names_of_switches(crash) or None


def cached(crash: Crash) -> str | None:
    """How much data a line near the failure says is cached in RAM."""
    size = cached_bytes(crash)
    return brief(size) if size else None


def data_in_one_piece(crash: Crash) -> str | None:
    """The allocation on the GPU that all data was to go to."""
    tried = crash.root.figures("usage").get("tried_bytes")
    return brief(tried) if crash.pool == "gpu" and crash.stage == "data_load" and isinstance(tried, int) else None


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
    """The function of the traceback that pins host memory."""
    frame = crash.in_trace(_PINS)
    return frame.function if frame is not None and not frame.function.startswith("<") else None


def memlock(crash: Crash) -> str | None:
    """Who was refused locked memory: RDMA, or mlock."""
    refusal = next((each for each in crash.every(PinnedAllocation) if each.allocator in ("rdma", "mlock")), None)
    return {"rdma": "RDMA", "mlock": "mlock"}[refusal.allocator] if refusal is not None else None


def buffer_pinned(crash: Crash) -> str | None:
    """llama.cpp, where it was refused the buffer that weights are copied through."""
    refused = next((each for each in crash.every(BufferRefused) if each.pool == "pinned"), None)
    return "llama.cpp" if refused is not None else None


def _refused(crash: Crash) -> HostAllocation | None:
    return next((event for event in crash.every(HostAllocation) if event.pool == "host_ram"), None)


def _on_windows(refused: HostAllocation) -> bool:
    return refused.allocator == "windows" or refused.errno in (8, 14, 1450, 1455)


def _virtual(crash: Crash) -> LimitKill | None:
    return next((kill for kill in crash.every(LimitKill) if kill.virtual), None)


def _compiler_kill(crash: Crash) -> KernelKill | None:
    return next((kill for kill in crash.every(KernelKill) if COMPILER.match(kill.process.name or "")), None)


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        ram_requested, ram, ram_free, array, ram_errno, windows_error, windows_words, virtual_used, virtual_limit,
        compiler, compiler_held, compiler_requested, build_jobs, checkpointing, checkpoint_gpu, swap_space, swap_ram,
        host_cache, host_cache_free, offloads, cached, data_in_one_piece, load_needed, load_free, pinned_requested,
        pinned_in_use, pinning, memlock, buffer_pinned,
    )
}  # fmt: skip
