"""Slots about a GPU, the allocation that failed on it, and who else is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.event import SIDES, Event
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import framework
from oomdoctor.job.model import Trajectory
from oomdoctor.job.own_line import own_lines
from oomdoctor.language import counted, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import fragments, library, neighbours, placement
from oomdoctor.signs.series import per
from oomdoctor.signs.trace import refusal
from oomdoctor.units import show

HOST: Final = "host"  # the side of the pools that are no GPU's
_SOURCE: Final = late(r"[\w.-]{1,60}:\d{1,6}")
SHORT: Final = 40  # characters: a status that is longer is a sentence
_WORK: Final[Mapping[str, str]] = {
    "forward": mark("The forward pass"),
    "backward": mark("The backward pass"),
    "logprob": mark("The log-probability pass"),
    "reward": mark("The reward computation"),
    "eval": mark("The evaluation"),
    "optimizer_step": mark("The optimizer step"),
}
# Packages that are no framework, or whose file is named after a part of them
_PACKAGES: Final[Mapping[str, str]] = {"liger-kernel": "Liger Kernel", "transformers": "Transformers"}
_WORLDS: Final[Mapping[str, str]] = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}


def told(crash: Crash) -> Event:
    """The event whose figures count: the root where it says what was requested, else the first that confirms it."""
    return crash.root if asked_bytes(crash.root) else refusal(crash) or crash.root


def asked_bytes(event: Event) -> int | None:
    """What an event says was requested; None of a size that has overflowed."""
    size = event.array_bytes if isinstance(event, ArrayOutOfMemory) else getattr(event, "tried_bytes", None)
    return size if isinstance(size, int) and size > 0 else None


def figures(crash: Crash) -> Card:
    """The figures of that event, of one GPU."""
    event = told(crash)
    if isinstance(event, DeviceOutOfMemory):
        return card_of(event)
    return Card(
        tried_bytes=asked_bytes(event),
        free_bytes=getattr(event, "free_bytes", None),
        total_bytes=getattr(event, "total_bytes", None),
    )


def start(crash: Crash) -> NotEnoughFree | None:
    """vLLM's refusal to start, of the rank with the least room."""
    known = [event for event in crash.every(NotEnoughFree) if event.free_bytes is not None and event.total_bytes]
    return min(known, key=lambda event: event.free_bytes or 0, default=None)


def title(package: str) -> str:
    """What a package or framework calls itself."""
    known = framework(package)
    return _PACKAGES.get(package) or (known.title if known is not None else package)


def on_host(crash: Crash) -> bool:
    """Whether it was the host's memory."""
    return SIDES.get(crash.pool) == HOST


def gpu(crash: Crash) -> str | None:
    """Which GPU of which node, as far as the log says; None where it was the host's memory."""
    if on_host(crash):
        return None
    process = (start(crash) or told(crash)).process
    if process.gpu is None:
        return say("the GPU")
    if process.node:
        return say("GPU {number} of {node}", number=process.gpu, node=process.node)
    return say("GPU {number}", number=process.gpu)


def gpu_head(crash: Crash) -> str | None:
    """The same at the head of a sentence."""
    named = gpu(crash)
    return say("The GPU") if named == say("the GPU") else named


def ram(crash: Crash) -> str | None:
    """Host memory, where that ran out."""
    return say("host memory") if on_host(crash) else None


def requested(crash: Crash) -> str | None:
    """The allocation that failed."""
    size = figures(crash).tried_bytes
    return show(size) if size and size > 0 else None


def free(crash: Crash) -> str | None:
    """What was free of the GPU; None where that would have been enough, or looks as if it were."""
    it = figures(crash)
    if it.free_bytes is None or it.tried_bytes is None or it.free_bytes >= it.tried_bytes:
        return None
    return show(it.free_bytes) if show(it.free_bytes) != show(it.tried_bytes) else None


def plenty(crash: Crash) -> str | None:
    """What was free of the GPU; None where that was not enough."""
    it = figures(crash)
    enough = it.free_bytes is not None and it.tried_bytes is not None and it.free_bytes >= it.tried_bytes
    return show(it.free_bytes or 0) if enough else None


def total(crash: Crash) -> str | None:
    """The memory of the GPU."""
    begun = start(crash)
    size = begun.total_bytes if begun is not None else figures(crash).total_bytes
    return show(size) if size else None


def too_small(crash: Crash) -> str | None:
    """The memory of the GPU, where the allocation that failed is larger than all of it."""
    it = figures(crash)
    larger = it.tried_bytes is not None and it.total_bytes and it.tried_bytes > it.total_bytes
    return show(it.total_bytes or 0) if larger else None


def own_held(crash: Crash) -> str | None:
    """What this process held, where that is at least half of the GPU."""
    it = figures(crash)
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share = it.share(mine)
    return show(mine or 0) if share is not None and 0.5 <= share <= 1 else None


def work(crash: Crash) -> str | None:
    """What ran out, at the head of a sentence: "The backward pass". Which one is a guess for an array."""
    if isinstance(crash.root, ArrayOutOfMemory) and crash.doing.stage not in _WORK:
        return say("The program")
    return translated(_WORK.get(crash.stage, "")) or None


def place(crash: Crash) -> str | None:
    """The line of the job's own code, or of its framework's: "train.py:118"."""
    event = told(crash)
    lines = own_lines(event.around.trace, cut=event.around.cut)
    return next((f"{line.file}:{line.line}" for line in lines if line.file), None) or _source(event)


def _source(event: Event) -> str | None:
    """The C++ line that a message names."""
    file = (event.source or "").replace("\\", "/").rpartition("/")[2] if isinstance(event, DeviceRefusal) else ""
    return file if _SOURCE.fullmatch(file) else None


def allocator(crash: Crash) -> str | None:
    """Who asked for the memory: a library, a framework."""
    root = crash.root
    if isinstance(root, LibraryOutOfMemory | LibraryTrouble):
        return root.library
    if isinstance(root, ArrayOutOfMemory):
        return title(root.framework)
    return title(crash.job.frameworks[0]) if crash.job.frameworks else _WORLDS.get(crash.job.world)


def asker(crash: Crash) -> str | None:
    """The line that asked for the memory, or else who did."""
    return place(crash) or allocator(crash)


def library_name(crash: Crash) -> str | None:
    """The library that found no memory."""
    seen = crash.root if isinstance(crash.root, LibraryOutOfMemory) else crash.first(LibraryTrouble)
    return seen.library if seen is not None else None


def library_out(crash: Crash) -> str | None:
    """The library that says that it found no memory."""
    return crash.root.library if isinstance(crash.root, LibraryOutOfMemory) else None


def library_status(crash: Crash) -> str | None:
    """The status of a library that failed and does not speak of memory."""
    trouble = crash.first(LibraryTrouble)
    return trouble.status if trouble is not None and len(trouble.status) <= SHORT else None


def outside(crash: Crash) -> str | None:
    """What this process holds outside PyTorch, where that is much."""
    size = figures(crash).non_torch_bytes
    return show(size) if size is not None and size >= library.SUSPICIOUS else None


# others on the GPU


def gpu_others(crash: Crash) -> str | None:
    """What other processes hold of the GPU; None where it is none or more than there is."""
    it = figures(crash)
    size = neighbours.held_by_others(it)
    return show(size) if size and size <= (it.total_bytes or 0) else None


def neighbour(crash: Crash) -> str | None:
    """The only other process that the message lists, where it holds all that is not this one's."""
    it = figures(crash)
    one = it.others[0] if len(it.others) == 1 else None
    if one is None or one.pid == told(crash).process.pid or one.bytes != neighbours.held_by_others(it):
        return None
    return say("PID {pid}", pid=one.pid)


def taken_at_start(crash: Crash) -> str | None:
    """What was in use of the GPU when vLLM started."""
    begun = start(crash)
    return show((begun.total_bytes or 0) - (begun.free_bytes or 0)) if begun is not None else None


def free_at_start(crash: Crash) -> str | None:
    """What was free of the GPU when vLLM started."""
    begun = start(crash)
    return show(begun.free_bytes or 0) if begun is not None else None


def least_free(crash: Crash) -> str | None:
    """What is free of the fullest GPU of SGLang's group."""
    root = crash.root
    return show(root.least_bytes) if isinstance(root, UnbalancedCards) and root.least_bytes is not None else None


def most_free(crash: Crash) -> str | None:
    """What is free of another GPU of that group."""
    root = crash.root
    return show(root.own_bytes) if isinstance(root, UnbalancedCards) and root.own_bytes is not None else None


def unequal(crash: Crash) -> str | None:
    """SGLang, where it says that the GPUs of its group differ in what is free."""
    return "SGLang" if isinstance(crash.root, UnbalancedCards) else None


def tensorflow_limit(crash: Crash) -> str | None:
    """What TensorFlow found free at its start, where that is hardly any."""
    root = crash.root
    found = neighbours.tensorflow_found_nearly_nothing_free(crash)
    return show(root.limit_bytes or 0) if found is not None and isinstance(root, ArrayOutOfMemory) else None


def counted_as_free(crash: Crash) -> str | None:
    """What TensorFlow had counted as free and did not get."""
    root = crash.root
    return show(root.tried_bytes) if isinstance(root, AllocationProbe) and root.tried_bytes else None


def program_needs(crash: Crash) -> str | None:
    """What a whole compiled program needs."""
    root = crash.root
    size = root.used_bytes or root.needed_bytes if isinstance(root, ArrayOutOfMemory) else None
    return show(size) if size else None


def program_beyond(crash: Crash) -> str | None:
    """What a compiled program needs, where that is more than the GPU has."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or not root.used_bytes or not root.total_bytes:
        return None
    return show(root.used_bytes) if root.used_bytes > root.total_bytes else None


def arguments(crash: Crash) -> str | None:
    """Weights and states of a compiled program, where they alone are more than the GPU has."""
    root = crash.root
    if not isinstance(root, ArrayOutOfMemory) or not root.arguments_bytes or not root.total_bytes:
        return None
    return show(root.arguments_bytes) if root.arguments_bytes > root.total_bytes else None


def table_pids(crash: Crash) -> str | None:
    """Processes that nvidia-smi lists behind an allocation that failed without figures."""
    if neighbours.a_table_lists_others_without_figures(crash) is None:
        return None
    own = {pid for pids in crash.context.processes.values() for pid in pids} | {crash.root.process.pid}
    pids = (p.pid for table in crash.every(GpuTable) for p in table.processes if p.pid not in own)
    return listed(str(pid) for pid in list(dict.fromkeys(pids))[:3]) or None


def listed_neighbour(crash: Crash) -> str | None:
    """The process of others that a table lists, where the message has no figures."""
    one = neighbours.listed_neighbour(crash)
    return say("Process {pid}", pid=one.pid) if one is not None else None


def listed_held(crash: Crash) -> str | None:
    """What it holds."""
    one = neighbours.listed_neighbour(crash)
    return show(one.used_bytes or 0) if one is not None else None


def table_tool(crash: Crash) -> str | None:
    """The tool whose table is told of."""
    table = crash.first(GpuTable)
    return neighbours.told_by(table) if table is not None else None


def in_table(crash: Crash) -> str | None:
    """What nvidia-smi shows in use of a full GPU."""
    if neighbours.the_card_is_full_afterwards(crash) is None:
        return None
    cards = [card for table in crash.every(GpuTable) for card in table.cards if card.used_bytes and card.total_bytes]
    fullest = max(cards, key=lambda card: (card.used_bytes or 0) / (card.total_bytes or 1), default=None)
    if fullest is None:
        return None
    return say("{used} of {total}", used=show(fullest.used_bytes or 0), total=show(fullest.total_bytes or 0))


def sharing(crash: Crash) -> str | None:
    """The processes of this job that are on the GPU, counted, with the one that failed."""
    found = placement.own_processes(crash)
    if not found:
        return None
    return counted(len(found) + 1, mark("{count} process of this job"), mark("{count} processes of this job"))


def sharing_holds(crash: Crash) -> str | None:
    """What the others of them hold."""
    return _together(placement.own_processes(crash))


def ranks(crash: Crash) -> str | None:
    """Other processes on the GPU that one launcher started."""
    found = placement.ranks(crash)
    return counted(len(found), mark("{count} other process"), mark("{count} other processes")) if found else None


def ranks_hold(crash: Crash) -> str | None:
    """What these hold."""
    return _together(placement.ranks(crash))


def _together(processes: Sequence[OtherProcess]) -> str | None:
    return show(sum(one.bytes or 0 for one in processes)) if processes else None


def restored(crash: Crash) -> str | None:
    """The GPU on which torch.load puts tensors."""
    return gpu(crash) if placement.restored(crash) is not None else None


def on_several(crash: Crash) -> str | None:
    """A process that nvidia-smi lists on several GPUs."""
    if placement.process_on_several_cards(crash) is None:
        return None
    for table in crash.every(GpuTable):
        numbers = Counter(process.pid for process in table.processes if process.used_bytes)
        pid, most = max(numbers.items(), key=lambda pair: pair[1], default=(0, 0))
        if most > 1:
            return say("PID {pid} holds memory on {count} GPUs", pid=pid, count=most)
    return None


# what an allocator keeps, and what grows


def gpu_idle(crash: Crash) -> str | None:
    """What the allocator holds and no tensor uses, where that is as much as was requested."""
    size, tried = fragments.idle(crash), figures(crash).tried_bytes
    return show(size) if size and tried and size >= tried else None


def summary_idle(crash: Crash) -> str | None:
    """What no tensor uses, by PyTorch's memory summary."""
    it = crash.first(MemorySummary)
    return show(it.idle_bytes) if it is not None and it.idle_bytes else None


def summary_reserved(crash: Crash) -> str | None:
    """What PyTorch had reserved, by its memory summary."""
    it = crash.first(MemorySummary)
    return show(it.reserved_bytes) if it is not None and it.reserved_bytes else None


def failed_allocations(crash: Crash) -> str | None:
    """How many allocations failed, by PyTorch's memory summary."""
    it = crash.root
    if not isinstance(it, MemorySummary) or not it.ooms:
        return None
    return counted(it.ooms, mark("{count} allocation"), mark("{count} allocations"))


def gpu_growth(crash: Crash) -> str | None:
    """By how much the GPU memory in use grows: "256 MiB per step"."""
    figure = _growing(crash)
    return _rate(figure) if figure is not None and not figure.of_rest else None


def gpu_fall(crash: Crash) -> str | None:
    """By how much the free GPU memory falls: "256 MiB per step"."""
    figure = _growing(crash)
    return _rate(figure) if figure is not None and figure.of_rest else None


def growth_from(crash: Crash) -> str | None:
    """The first print of that figure."""
    figure = _growing(crash)
    return show(figure.points[0].bytes) if figure is not None else None


def growth_to(crash: Crash) -> str | None:
    """The last print of that figure."""
    figure = _growing(crash)
    return show(figure.points[-1].bytes) if figure is not None else None


def _growing(crash: Crash) -> Trajectory | None:
    figure = crash.trajectory
    return figure if figure is not None and figure.pool == "gpu" and figure.growth_bytes and figure.points else None


def _rate(figure: Trajectory) -> str:
    return say("{size} per {step}", size=show(abs(figure.growth_bytes or 0)), step=per(figure))


# JAX and TensorFlow


def taker(crash: Crash) -> str | None:
    """JAX or TensorFlow, which reserve a GPU in advance."""
    found = next((name for name in library.TAKERS if name in crash.context.frameworks), None)
    return _WORLDS[found] if found is not None else None


def probed_free(crash: Crash) -> str | None:
    """What was left of the GPU when a library asked for its own memory."""
    probe = _probe(crash)
    return show(probe.free_bytes or 0) if probe is not None else None


def probed_total(crash: Crash) -> str | None:
    """The memory of that GPU."""
    probe = _probe(crash)
    return show(probe.total_bytes or 0) if probe is not None else None


def not_torch(crash: Crash) -> str | None:
    """What of the GPU is not PyTorch's in a job that also runs JAX or TensorFlow."""
    if library.jax_or_tensorflow_beside_pytorch(crash) is None:
        return None
    it = figures(crash)
    size = it.non_torch_bytes or it.others_bytes or it.beyond_bytes
    return show(size) if size else None


def _probe(crash: Crash) -> AllocationProbe | None:
    known = (probe for probe in crash.every(AllocationProbe) if probe.free_bytes is not None and probe.total_bytes)
    return next(known, None)


def platform(crash: Crash) -> str | None:
    """A platform that is known to fail allocations while memory is free."""
    if library.a_platform_that_refuses_what_is_free(crash) is None:
        return None
    return "WSL" if crash.mentions(r"\bWSL2?\b") else say("an embedded GPU (Jetson)")


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        allocator, arguments, asker, counted_as_free, failed_allocations, free, free_at_start, gpu, gpu_fall,
        gpu_growth, gpu_head, gpu_idle, gpu_others, growth_from, growth_to, in_table, least_free, library_name,
        listed_held, listed_neighbour, library_out, library_status, most_free, neighbour, not_torch, on_several,
        outside, own_held, place, platform, plenty, probed_free, probed_total, program_beyond,
        program_needs, ram, ranks, ranks_hold, requested, restored, sharing, sharing_holds, summary_idle, summary_reserved, table_pids, table_tool,
        taken_at_start, taker, tensorflow_limit, too_small, total, unequal, work,
    )
}  # fmt: skip
