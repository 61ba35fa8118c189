"""Slots about a GPU, the allocation that failed on it, and who else is there."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from oomdoctor.families import gpu_table
from oomdoctor.families.cuda import OtherProcess
from oomdoctor.families.cuda_error import DeviceRefusal
from oomdoctor.families.cuda_warning import AllocatorPressure
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_library import LibraryOutOfMemory, LibraryTrouble
from oomdoctor.families.gpu_table import GpuTable
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.memory_summary import MemorySummary
from oomdoctor.families.sglang import UnbalancedCards
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Trajectory
from oomdoctor.job.own_line import own_place
from oomdoctor.language import counted, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.report.headline.beside import largest_piece, source_beside
from oomdoctor.report.headline.card import figures, on_host, start, teller
from oomdoctor.report.headline.figures import beside, shown
from oomdoctor.report.headline.names import title, with_pid
from oomdoctor.report.headline.slot import about, first, root, where
from oomdoctor.signs import fragments, library, loading, neighbours, passes, placement
from oomdoctor.signs.arrays import most_padded, padded_beyond_the_device
from oomdoctor.signs.card import unified_request
from oomdoctor.signs.loading import SET_ASIDE
from oomdoctor.signs.series import is_uneven, per
from oomdoctor.signs.trace import in_a_whole_step
from oomdoctor.units import show

# Unsloth's banner: "GPU: Tesla T4. Max memory: 14.741 GB."
_ITS_MEMORY: Final = late(r"Max memory: (\d{1,4}(?:\.\d{1,3})? GB)")
_SOURCE: Final = late(r"[\w.-]{1,60}:\d{1,6}")
_CURRENT: Final = late(r"^\s{0,8}current device: (\d{1,3})\b")
_ORDINAL: Final = late(r"(?P<said>Failed to allocate request for .{1,80} on device ordinal) (?P<ordinal>\d{1,4})\b")
UNFILLED: Final = 0.1  # of the GPU: with more of it free nobody would say that it is filled
SHORT: Final = 40  # characters: a status that is longer is a sentence
_WORK: Final[Mapping[str, str]] = {
    "forward": mark("The forward pass"),
    "backward": mark("The backward pass"),
    "logprob": mark("The log-probability pass"),
    "reward": mark("The reward computation"),
    "eval": mark("The evaluation"),
    "optimizer_step": mark("The optimizer step"),
}
_WORLDS: Final[Mapping[str, str]] = {"torch": "PyTorch", "jax": "JAX", "tensorflow": "TensorFlow"}


def gpu(crash: Crash) -> str | None:
    """Which GPU of which node, as far as the log says; None where it was the host's memory."""
    if on_host(crash):
        return None
    process = (start(crash) or teller(crash)).process
    if process.gpu is None:
        return _told_below(crash) or say("the GPU")
    if len(ordinals := _ordinals(crash)) > 1:
        return say("GPUs {numbers}", numbers=listed(map(str, ordinals)))
    if process.node:
        return say("GPU {number} of {node}", number=process.gpu, node=process.node)
    return say("GPU {number}", number=process.gpu)


def _told_below(crash: Crash) -> str | None:
    """ggml says in the next line which device it was: ggml_cuda_error of ggml-cuda.cu, since llama.cpp b2500."""
    event = crash.root
    told = (_CURRENT.search(line) for line in (event.at.text, *event.around.after[:2]))
    found = next((one for one in told if one is not None), None)
    return say("GPU {number}", number=found[1]) if found is not None else None


def _ordinals(crash: Crash) -> list[int]:
    """The devices on which XLA's program failed in the same words, or a library for the same ranks."""
    root = crash.root
    if isinstance(root, LibraryOutOfMemory):
        alike = (one for one in crash.every(LibraryOutOfMemory) if one.library == root.library)
        return sorted({one.process.gpu for one in alike if one.process.gpu is not None})
    lines = (root.at.text, *root.around.after) if isinstance(root, ArrayOutOfMemory) else ()
    first = _ORDINAL.search(root.at.text)
    if first is None:
        return []
    same = (one for line in lines if (one := _ORDINAL.search(line)) is not None and one["said"] == first["said"])
    return sorted({int(one["ordinal"]) for one in same})


def gpu_head(crash: Crash) -> str | None:
    """The same at the head of a sentence."""
    named = gpu(crash)
    return say("The GPU") if named == say("the GPU") else named


def ram(crash: Crash) -> str | None:
    """Host memory, where that ran out."""
    return say("host memory") if on_host(crash) else None


@about(figures)
def requested(it: Card) -> str | None:
    """The allocation that failed."""
    return shown(it.tried_bytes)


def guessed(crash: Crash) -> str | None:
    """The allocation that failed, where nothing but a job's usual course says what for."""
    if passes.tensor_of_a_running_job(crash) is None or passes.in_its_own_computation(crash) is not None:
        return None
    return shown(figures(crash).tried_bytes)


@about(figures)
def free(it: Card) -> str | None:
    """What was free of the GPU; None where that would have been enough, or looks as if it were."""
    if it.free_bytes is None or it.tried_bytes is None or it.free_bytes >= it.tried_bytes:
        return None
    return show(it.free_bytes) if show(it.free_bytes) != show(it.tried_bytes) else None


def plenty(crash: Crash) -> str | None:
    """What was free of the GPU, and in which pieces; None where that was not enough."""
    it = figures(crash)
    if it.free_bytes is None or it.tried_bytes is None or it.free_bytes < it.tried_bytes:
        return None
    piece = largest_piece(teller(crash))
    if piece is None:
        return show(it.free_bytes)
    return say("{free} (at most {piece} in one piece)", free=show(it.free_bytes), piece=piece)


def total(crash: Crash) -> str | None:
    """The memory of the GPU."""
    return shown((start(crash) or figures(crash)).total_bytes)


@about(figures)
def too_small(it: Card) -> str | None:
    """The memory of the GPU, where the allocation that failed is larger than all of it."""
    return shown(it.total_bytes) if (it.tried_bytes or 0) > (it.total_bytes or 0) else None


@about(figures)
def own_held(it: Card) -> str | None:
    """What this process held, where that is at least half of a GPU that holds models, and little of it is free."""
    mine = it.own_bytes or it.reserved_bytes or it.allocated_bytes
    share, free_share = it.share(mine), it.share(it.free_bytes) or 0
    if share is None or not 0.5 <= share <= 1 or free_share > UNFILLED or (it.total_bytes or 0) < SET_ASIDE:
        return None
    return shown(mine)


def gpu_model(crash: Crash) -> str | None:
    """The only GPU that the log names, with its memory where the same line prints it: "T4 with 14.7 GB"."""
    name = crash.context.hardware.get("gpu_name")
    if not isinstance(name, str):
        return None
    memory = _ITS_MEMORY.search(crash.mentions(rf"{re.escape(name)}.{{0,40}}Max memory: ") or "")
    return say("{model} with {size}", model=name, size=memory[1]) if memory is not None else name


def unified(crash: Crash) -> str | None:
    """What of unified memory could not be allocated before the GPU's own failure."""
    return shown(unified_request(crash))


@where(loading.live_tensors_before_any_step)
@about(figures)
def tensors_before_steps(it: Card) -> str | None:
    """What PyTorch's tensors hold of a GPU that they fill where the log shows no step of the job."""
    return beside(it.live_bytes, it.total_bytes)


def work(crash: Crash) -> str | None:
    """What ran out, at the head of a sentence: "The backward pass". Which one is a guess for an array."""
    if isinstance(crash.root, ArrayOutOfMemory) and crash.doing.stage not in _WORK:
        return say("The program")
    if in_a_whole_step(crash):
        return say("A training step")
    return translated(_WORK.get(crash.stage, "")) or None


@about(teller)
def place(event: Event) -> str | None:
    """The line of the job's own code, or of its framework's: "train.py:118"; else the C++ line of the message."""
    own = own_place(event.around.trace, cut=event.around.cut)
    source = event.source or "" if isinstance(event, DeviceRefusal) else ""
    file = source.replace("\\", "/").rpartition("/")[2]
    if own is not None or _SOURCE.fullmatch(file):
        return own or file
    return source_beside(event) if isinstance(event, DeviceRefusal | Shortage) and not event.around.trace else None


def allocator(crash: Crash) -> str | None:
    """Who asked for the memory: a library, a framework."""
    event = crash.root
    if isinstance(event, LibraryOutOfMemory | LibraryTrouble):
        return event.library
    if isinstance(event, ArrayOutOfMemory):
        return title(event.framework)
    return title(crash.job.frameworks[0]) if crash.job.frameworks else _WORLDS.get(crash.job.world)


def asker(crash: Crash) -> str | None:
    """The line that asked for the memory, or else who did."""
    return place(crash) or allocator(crash)


def library_name(crash: Crash) -> str | None:
    """The library that found no memory."""
    trouble = crash.first(LibraryTrouble)
    return library_out(crash) or (trouble.library if trouble is not None else None)


@about(root(LibraryOutOfMemory))
def library_out(event: LibraryOutOfMemory) -> str | None:
    """The library that says that it found no memory."""
    return event.library


@about(first(LibraryTrouble))
def library_status(trouble: LibraryTrouble) -> str | None:
    """The status of a library that failed and does not speak of memory."""
    return trouble.status if len(trouble.status) <= SHORT else None


@about(figures)
def outside(it: Card) -> str | None:
    """What this process holds outside PyTorch, where that is much."""
    return shown(it.non_torch_bytes) if (it.non_torch_bytes or 0) >= library.SUSPICIOUS else None


# others on the GPU


@about(figures)
def gpu_others(it: Card) -> str | None:
    """What other processes hold of the GPU; None where it is none or more than there is."""
    size = neighbours.held_by_others(it)
    if size is None or size > (it.total_bytes or 0):
        return None
    return say("about {size}", size=neighbours.about(size)) if neighbours.is_assumed(it) else shown(size)


@about(figures)
def gpu_unlisted(it: Card) -> str | None:
    """What of the GPU is in use, and by nobody that the message names."""
    return shown(neighbours.held_by_nobody_listed(it))


def neighbour(crash: Crash) -> str | None:
    """The only other process that the message lists, where it holds all that is not this one's."""
    it = figures(crash)
    one = it.others[0] if len(it.others) == 1 else None
    if one is None or one.bytes != neighbours.held_by_others(it):
        return None
    return say("PID {pid}", pid=one.pid) if placement.parent(crash) is None else None


def its_parent(crash: Crash) -> str | None:
    """The process that started the one that failed, where it is the only other one that the message lists."""
    it, process = figures(crash), teller(crash).process
    if placement.parent(crash) is None or len(it.others) > 1 or process.name is None or process.pid is None:
        return None
    return with_pid(process.name, process.pid)


@about(start)
def taken_at_start(event: NotEnoughFree) -> str | None:
    """What was in use of the GPU when vLLM started."""
    return show((event.total_bytes or 0) - (event.free_bytes or 0))


@about(start)
def free_at_start(event: NotEnoughFree) -> str | None:
    """What was free of the GPU when vLLM started."""
    return show(event.free_bytes or 0)


@about(root(UnbalancedCards))
def least_free(cards: UnbalancedCards) -> str | None:
    """What is free of the fullest GPU of SGLang's group."""
    return show(cards.least_bytes) if cards.least_bytes is not None else None


@about(root(UnbalancedCards))
def most_free(cards: UnbalancedCards) -> str | None:
    """What is free of another GPU of that group."""
    return show(cards.own_bytes) if cards.own_bytes is not None else None


@about(root(UnbalancedCards))
def unequal(_: UnbalancedCards) -> str | None:
    """SGLang, where it says that the GPUs of its group differ in what is free."""
    return "SGLang"


@where(neighbours.tensorflow_found_nearly_nothing_free)
@about(root(ArrayOutOfMemory))
def tensorflow_limit(event: ArrayOutOfMemory) -> str | None:
    """What TensorFlow found free at its start, where that is hardly any."""
    return show(event.limit_bytes or 0)


@about(root(AllocationProbe))
def counted_as_free(probe: AllocationProbe) -> str | None:
    """What TensorFlow had counted as free and did not get."""
    return shown(probe.tried_bytes)


@about(root(ArrayOutOfMemory))
def program_needs(event: ArrayOutOfMemory) -> str | None:
    """What a whole compiled program needs."""
    return shown(event.used_bytes or event.needed_bytes)


@about(root(ArrayOutOfMemory))
def program_beyond(event: ArrayOutOfMemory) -> str | None:
    """What a compiled program needs, where that is more than the GPU has."""
    return _beyond(event.used_bytes, event)


def padding(crash: Crash) -> str | None:
    """What of that fills the largest array up to the tiles of its layout, where that is what does not fit."""
    padded = most_padded(crash) if padded_beyond_the_device(crash) is not None else None
    return shown(padded.padding_bytes) if padded is not None else None


@about(root(ArrayOutOfMemory))
def arguments(event: ArrayOutOfMemory) -> str | None:
    """Weights and states of a compiled program, where they alone are more than the GPU has."""
    return _beyond(event.arguments_bytes, event)


def kept_arguments(crash: Crash) -> str:
    """What a compiled program is given and keeps: only who trains has states beside the weights."""
    return say("The weights") if crash.job.task in ("inference", "serving") else say("Weights and states")


def _beyond(size: int | None, event: ArrayOutOfMemory) -> str | None:
    return shown(size) if event.total_bytes and (size or 0) > event.total_bytes else None


@about(neighbours.strangers)
def table_pids(found: tuple[GpuTable, Sequence[int]]) -> str | None:
    """Processes that nvidia-smi lists beside an allocation that failed without figures."""
    return listed(str(pid) for pid in list(dict.fromkeys(found[1]))[:3])


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
    found = neighbours.strangers(crash) or neighbours.full_card(crash)
    return neighbours.told_by(found[0]) if found is not None else None


@about(neighbours.full_card)
def in_table(found: tuple[GpuTable, gpu_table.Card]) -> str | None:
    """What nvidia-smi shows in use of a full GPU."""
    _, full = found
    return say("{used} of {total}", used=show(full.used_bytes or 0), total=show(full.total_bytes or 0))


def sharing(crash: Crash) -> str | None:
    """The processes of this job that are on the GPU, counted, with the one that failed."""
    found = placement.own_processes(crash)
    if not found:
        return None
    return counted(len(found) + 1, mark("{count} process of this job"), mark("{count} processes of this job"))


@about(placement.own_processes)
def sharing_holds(others: Sequence[OtherProcess]) -> str | None:
    """What the others of them hold."""
    return _together(others)


def ranks(crash: Crash) -> str | None:
    """Other processes on the GPU that one launcher started."""
    found = placement.ranks(crash)
    return counted(len(found), mark("{count} other process"), mark("{count} other processes")) if found else None


def ranks_on_one(crash: Crash) -> str | None:
    """The ranks of MPI that are on the one GPU that there is."""
    if placement.several_ranks_and_one_card(crash) is None:
        return None
    return ", ".join(str(rank) for rank in placement.aborted_ranks(crash)[: placement.MOST_RANKS])


@about(placement.ranks)
def ranks_hold(others: Sequence[OtherProcess]) -> str | None:
    """What these hold."""
    return _together(others)


def _together(processes: Sequence[OtherProcess]) -> str | None:
    return show(sum(one.bytes or 0 for one in processes)) if processes else None


@where(placement.restored)
def restored(crash: Crash) -> str | None:
    """The GPU on which torch.load puts tensors."""
    return gpu(crash)


@about(placement.intruder)
def on_several(found: tuple[GpuTable, int, int]) -> str | None:
    """A process that nvidia-smi lists on several GPUs."""
    _, pid, count = found
    return say("PID {pid} holds memory on {count} GPUs", pid=pid, count=count)


# what an allocator keeps, and what grows


def gpu_idle(crash: Crash) -> str | None:
    """What the allocator holds and no tensor uses, where that is as much as was requested."""
    size, tried = fragments.idle(crash), figures(crash).tried_bytes
    return shown(size) if size and tried and size >= tried else None


def gpu_pieces(crash: Crash) -> str | None:
    """What the allocator holds and no tensor uses, where it takes that and what is free to be enough."""
    return shown(fragments.idle(crash)) if fragments.idle_and_free_would_do(crash) is not None else None


@about(first(MemorySummary))
def summary_idle(summary: MemorySummary) -> str | None:
    """What no tensor uses, by PyTorch's memory summary."""
    return shown(summary.idle_bytes)


@about(first(MemorySummary))
def summary_reserved(summary: MemorySummary) -> str | None:
    """What PyTorch had reserved, by its memory summary."""
    return shown(summary.reserved_bytes)


@about(root(MemorySummary))
def failed_allocations(summary: MemorySummary) -> str | None:
    """How many allocations failed, by PyTorch's memory summary."""
    return counted(summary.ooms, mark("{count} allocation"), mark("{count} allocations")) if summary.ooms else None


def _growing(crash: Crash) -> Trajectory | None:
    figure = crash.trajectory
    return figure if figure is not None and figure.pool == "gpu" and figure.growth_bytes and figure.points else None


@about(_growing)
def gpu_growth(figure: Trajectory) -> str | None:
    """By how much the GPU memory in use grows: "256 MiB per step"."""
    return _rate(figure) if not figure.of_rest else None


@about(_growing)
def gpu_fall(figure: Trajectory) -> str | None:
    """By how much the free GPU memory falls: "256 MiB per step"."""
    return _rate(figure) if figure.of_rest and not is_uneven(figure) else None


@about(_growing)
def gpu_fell(figure: Trajectory) -> str | None:
    """Where what is left falls by a rate that tells nothing: how often it was printed."""
    uneven = figure.of_rest and is_uneven(figure)
    return counted(figure.prints, mark("{count} print"), mark("{count} prints")) if uneven else None


@about(_growing)
def growth_from(figure: Trajectory) -> str | None:
    """The first print of that figure."""
    return show(figure.points[0].bytes)


@about(_growing)
def growth_to(figure: Trajectory) -> str | None:
    """The last print of that figure."""
    return show(figure.points[-1].bytes)


def _rate(figure: Trajectory) -> str:
    return say("{size} per {step}", size=show(abs(figure.growth_bytes or 0)), step=per(figure))


# JAX and TensorFlow


def taker(crash: Crash) -> str | None:
    """JAX or TensorFlow, which reserve a GPU in advance."""
    return next((_WORLDS[name] for name in library.TAKERS if name in crash.context.frameworks), None)


def warps_taker(crash: Crash) -> str | None:
    """JAX, where Warp was refused beside it."""
    return taker(crash) if library.warp_was_refused_in_jax(crash) is not None else None


def _probe(crash: Crash) -> AllocationProbe | None:
    known = (probe for probe in crash.every(AllocationProbe) if probe.free_bytes is not None and probe.total_bytes)
    return next(known, None)


@about(_probe)
def probed_free(probe: AllocationProbe) -> str | None:
    """What was left of the GPU when a library asked for its own memory."""
    return show(probe.free_bytes or 0)


@about(_probe)
def probed_total(probe: AllocationProbe) -> str | None:
    """The memory of that GPU."""
    return show(probe.total_bytes or 0)


@where(library.jax_or_tensorflow_beside_pytorch)
@about(figures)
def not_torch(it: Card) -> str | None:
    """What of the GPU is not PyTorch's in a job that also runs JAX or TensorFlow."""
    return shown(it.non_torch_bytes or it.others_bytes or it.beyond_bytes)


@where(library.the_driver_of_an_embedded_gpu_had_no_room)
@about(library.of_nvmap)
def nvmap_requested(refused: AllocatorPressure) -> str | None:
    """What the driver of an embedded GPU had no room for."""
    return shown(refused.tried_bytes)


@where(library.a_platform_that_refuses_what_is_free)
def platform(crash: Crash) -> str | None:
    """A platform that is known to fail allocations while memory is free."""
    return "WSL" if crash.mentions(r"\bWSL2?\b") else say("an embedded GPU (Jetson)")
