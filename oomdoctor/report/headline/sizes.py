"""Slots about sizes: what one buffer, array or model needs, and the limit that it hit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from oomdoctor.families.budget import LOCKS, BudgetSpent, BudgetUsage
from oomdoctor.families.event import Event
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.llama_cpp import PLAN, BufferRefused, LoadPlan
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.ollama import OffloadPlan, Short
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.card import Card
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, mark, say, translated
from oomdoctor.report.headline.card import figures, teller
from oomdoctor.report.headline.figures import TOKENS, shown
from oomdoctor.report.headline.gpu import requested
from oomdoctor.report.headline.slot import about, root, where
from oomdoctor.signs import address_space, allocator, databases, kills
from oomdoctor.signs.sizes import overflowed_request
from oomdoctor.signs.spark import drivers_heap_is_full
from oomdoctor.signs.trace import card, refusal
from oomdoctor.spellings import title
from oomdoctor.units import TIB, percent, show

LONG: Final = 40  # characters: a shape that is longer is none for a headline
IMPOSSIBLE: Final = 8 * TIB
_RUNTIMES: Final[Mapping[str, str]] = {"java": "Java", "node": "Node.js", "r": "R"}
_PARTS: Final[Mapping[str | None, str]] = {"metaspace": mark("metaspace"), "direct": mark("direct buffer memory")}


def shape(crash: Crash) -> str | None:
    """The shape of the array that did not fit."""
    event = teller(crash)
    found = event.shape if isinstance(event, ArrayOutOfMemory | HostAllocation) else None
    return found if found and len(found) <= LONG else None


def times(crash: Crash) -> str | None:
    """How many times the memory that there is was requested in one allocation; None below two."""
    it = figures(crash)
    ram = crash.context.hardware.get("ram_bytes")
    there = it.total_bytes or (ram if isinstance(ram, int) and crash.pool != "gpu" else None)
    many = (it.tried_bytes or 0) / there if there else 0
    return f"{many:,.0f}" if many >= 2 else None


@about(figures)
def impossible(it: Card) -> str | None:
    """A size that no machine has."""
    return shown(it.tried_bytes) if (it.tried_bytes or 0) >= IMPOSSIBLE else None


@about(overflowed_request)
def negative_request(found: tuple[int, int]) -> str | None:
    """A negative size of the host, as a program has miscounted it."""
    return say("{size} bytes", size=found[0])


@about(overflowed_request)
def overflowed_at(found: tuple[int, int]) -> str | None:
    """What it was before."""
    return shown(found[1])


@about(root(AllocationProbe))
def probed(probe: AllocationProbe) -> str | None:
    """What a framework counted as free at its start, where no GPU has as much."""
    return shown(probe.tried_bytes) if (probe.tried_bytes or 0) >= IMPOSSIBLE else None


# buffers of llama.cpp and Ollama, and weights


def compute_buffer(crash: Crash) -> str | None:
    """The buffer in which llama.cpp or Ollama computes."""
    return _buffer(crash, "compute", "pool")


def cache_buffer(crash: Crash) -> str | None:
    """The buffer of their KV cache."""
    return _buffer(crash, "kv", "state")


def weights_buffer(crash: Crash) -> str | None:
    """The buffer of their weights."""
    return _buffer(crash, "weights")


def layers_planned(crash: Crash) -> str | None:
    """How many of the model's layers Ollama puts on its GPU, where the others stay in host memory."""
    last = next(reversed(crash.every(OffloadPlan)), None)
    if last is None or not last.offloaded_layers or not last.layers or len(last.available_bytes) > 1:
        return None
    planned, layers = last.offloaded_layers, last.layers
    return say("{planned} of {layers} layers", planned=planned, layers=layers) if planned < layers else None


def plan(crash: Crash) -> str | None:
    """All that their loader planned for the GPU."""
    return _buffer(crash, PLAN)


@about(root(BufferRefused))
def plan_free(refused: BufferRefused) -> str | None:
    """What it found free there."""
    return shown(refused.free_bytes)


def _buffer(crash: Crash, *kinds: str) -> str | None:
    event = crash.root
    if not isinstance(event, BufferRefused | Short) or event.what not in kinds:
        return None
    return requested(crash) or _whole_buffer(event)


def _whole_buffer(event: Event) -> str | None:
    return shown(event.buffer_bytes) if isinstance(event, BufferRefused) else None


def context(crash: Crash) -> str | None:
    """The context for which they load the model."""
    lengths = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    return counted(lengths[-1], *TOKENS) if lengths else None


def loader_free(crash: Crash) -> str | None:
    """What the loader found free of the GPU; None where the buffer would have fitted."""
    event = crash.root
    plans = [plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.free_bytes is not None]
    size = plans[0].free_bytes if len(plans) == 1 else None
    if size is None or not isinstance(event, BufferRefused) or size >= (event.tried_bytes or 0):
        return None
    return show(size)


@about(root(NoRoom))
def share_weights(short: NoRoom) -> str | None:
    """The weights of MLC's model, where they are larger than what it may use."""
    if short.available_bytes is None or (short.weights_bytes or 0) <= short.available_bytes:
        return None
    return shown(short.weights_bytes)


@about(root(NoRoom))
def share_room(short: NoRoom) -> str | None:
    """What MLC may use of the GPU, where weights and buffers fill it."""
    room, taken = short.available_bytes, (short.weights_bytes or 0) + (short.buffers_bytes or 0)
    return show(room) if room is not None and taken >= room else None


@about(root(NoRoom))
def share_left(short: NoRoom) -> str | None:
    """What MLC's own figures leave of the GPU, where its check failed all the same."""
    room, taken = short.available_bytes, (short.weights_bytes or 0) + (short.buffers_bytes or 0)
    if not room or not taken or taken >= room:
        return None
    return say("{left} of {room}", left=show(room - taken), room=show(room))


def model_name(crash: Crash) -> str | None:
    """The model, where the log names one alone."""
    models = crash.context.models
    return models[0].rpartition("/")[2][:LONG] or None if len(models) == 1 else None


# limits


@where(allocator.beyond_the_allowed_beside_room)
@about(card)
def cap(it: Card) -> str | None:
    """What the process is allowed of a GPU that has room for the allocation."""
    return shown(it.allowed_bytes)


@where(allocator.beyond_the_allowed_on_a_full_card)
@about(card)
def cap_on_a_full_gpu(it: Card) -> str | None:
    """What the process is allowed of a GPU that has no room for the allocation either."""
    return shown(it.allowed_bytes)


@where(allocator.beyond_the_watermark)
@about(card)
def watermark(it: Card) -> str | None:
    """The most that PyTorch allows itself on a Mac."""
    return show(it.allowed_bytes or 0)


@about(card)
def mac_torch(it: Card) -> str | None:
    """What PyTorch holds of that."""
    return show(it.allocated_bytes) if it.allocated_bytes is not None else None


def mac_others(crash: Crash) -> str | None:
    """What others hold of that."""
    event = refusal(crash)
    size = event.other_allocations_bytes if event is not None else None
    return show(size) if size is not None else None


def at_once(crash: Crash) -> str | None:
    """An allocation that the driver fails because of its size, whatever is free."""
    if allocator.buffer_beyond_the_devices_largest(crash) is not None:
        return requested(crash) or _whole_buffer(crash.root)
    return requested(crash) if allocator.beyond_the_largest_allocation(crash) is not None else None


@about(allocator.at_once)
def most_at_once(sizes: tuple[int, int]) -> str | None:
    """The most that a device gives in one allocation, where more was requested."""
    return show(sizes[1])


@about(allocator.at_once)
def asked_at_once(sizes: tuple[int, int]) -> str | None:
    """How much was requested of such a device."""
    return show(sizes[0])


@where(allocator.card_partly_hidden)
@about(card)
def visible_memory(it: Card) -> str | None:
    """What the framework sees of a GPU that has at least twice as much."""
    return shown(it.total_bytes)


@where(allocator.card_partly_hidden)
def hidden_memory(crash: Crash) -> str | None:
    """What the driver says that this GPU has."""
    return shown(allocator.drivers_bytes(crash))


@about(root(BudgetSpent))
def lock_setting(spent: BudgetSpent) -> str | None:
    """What makes PostgreSQL's table of locks larger."""
    return spent.setting if spent.setting in LOCKS else None


def pool_owner(crash: Crash) -> str | None:
    """A library, a program or a framework with a limit of its own."""
    event = crash.root
    if isinstance(event, BudgetSpent):
        return title(event.program)
    if databases.sqlite_limit(crash) is not None:
        return "SQLite"
    if isinstance(event, ArrayOutOfMemory):
        return "Paddle" if allocator.frameworks_own_limit_is_hit(crash) is not None else None
    limited = (
        allocator.pool_of_a_library_beyond_its_limit,
        allocator.pool_of_a_library_says_so,
        allocator.arena_of_a_library_is_full,
    )
    return event.library if isinstance(event, LibraryOutOfMemory) and any(seen(crash) for seen in limited) else None


@where(pool_owner)
def pool_limit(crash: Crash) -> str | None:
    """That limit."""
    size = databases.sqlite_limit(crash) or getattr(crash.root, "limit_bytes", None)
    return shown(size) if isinstance(size, int) else None


@about(root(BudgetSpent))
def pool_lowered(event: BudgetSpent) -> str | None:
    """What the limit was to be lowered to, as it is printed."""
    return f"{event.lowered_bytes} bytes" if event.lowered_bytes is not None else None


@about(root(BudgetSpent))
def pool_used(event: BudgetSpent) -> str | None:
    """What is in use under it."""
    return shown(event.used_bytes)


@about(root(LibraryOutOfMemory))
def growing_pool(event: LibraryOutOfMemory) -> str | None:
    """A library whose pool did not grow, at its own limit or at the GPU's."""
    return event.library if event.capped and "pool size" in event.at.text else None


@about(root(BudgetSpent))
def pool_needed(event: BudgetSpent) -> str | None:
    """All that would have been in use under it."""
    return shown(event.needed_bytes)


@about(root(BudgetSpent))
def pool_resident(event: BudgetSpent) -> str | None:
    """What of that is in RAM, where it is much less."""
    return shown(event.resident_bytes) if allocator.counts_what_is_gone(event) else None


@about(root(BudgetSpent))
def pool_setting(event: BudgetSpent) -> str | None:
    """The setting that makes it; how much of it was in use, where that alone is printed."""
    if not event.setting or len(event.setting) > LONG:
        return None
    share = event.fraction if event.limit_bytes is None else None
    return (
        event.setting if share is None else say("{setting}, {share} used", setting=event.setting, share=percent(share))
    )


@about(root(LibraryOutOfMemory))
def pool_left(event: LibraryOutOfMemory) -> str | None:
    """What a library's arena has left under its limit."""
    return (
        show(event.left_bytes) if event.left_bytes is not None and event.left_bytes < (event.tried_bytes or 0) else None
    )


def _usage(crash: Crash) -> BudgetUsage | None:
    if kills.budget_was_nearly_spent_before_the_kill(crash) is None:
        return None
    return next(reversed([usage for usage in crash.every(BudgetUsage) if usage.limit_bytes]), None)


@about(_usage)
def spent(usage: BudgetUsage) -> str | None:
    """What a worker used of its budget in its last report before a kill."""
    return show(usage.used_bytes or 0)


@about(_usage)
def budget(usage: BudgetUsage) -> str | None:
    """The budget of that worker."""
    return show(usage.limit_bytes or 0)


@about(_usage)
def budget_of(usage: BudgetUsage) -> str | None:
    """The program of that worker."""
    return usage.program


@where(address_space.heap_of_a_runtime_is_full)
def heap(crash: Crash) -> str | None:
    """A runtime whose heap is full, or the process whose it is."""
    event = crash.root
    if not isinstance(event, HostAllocation) or event.part in _PARTS:
        return None
    return say("Spark driver's") if drivers_heap_is_full(crash) else _RUNTIMES.get(event.allocator)


@where(address_space.heap_of_a_runtime_is_full)
@about(root(HostAllocation))
def part_of_java(event: HostAllocation) -> str | None:
    """A memory of Java's beside its heap that is full."""
    return translated(_PARTS[event.part]) if event.part in _PARTS else None


@about(root(HostAllocation))
def part_limit(event: HostAllocation) -> str | None:
    """The limit of that memory."""
    return shown(event.metaspace_limit_bytes or event.limit_bytes)


@about(root(HostAllocation))
def heap_limit(event: HostAllocation) -> str | None:
    """The limit of that heap, or how far it had grown."""
    of_r = event.limit_bytes if event.allocator == "r" else None
    return shown(event.heap_limit_bytes or event.heap_used_bytes or of_r)


@where(allocator.workspace_of_a_library_is_too_small)
@about(root(LibraryOutOfMemory))
def workspace(event: LibraryOutOfMemory) -> str | None:
    """A library whose workspace is too small."""
    return event.library


@about(root(Shortage))
def own_limit(event: Shortage) -> str | None:
    """The limit that a program says that it keeps, where it is less than what was requested."""
    if not event.limited or not event.limit_bytes or event.limit_bytes >= (event.tried_bytes or event.limit_bytes + 1):
        return None
    return show(event.limit_bytes)
