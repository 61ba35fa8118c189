"""Slots about sizes: what one buffer, array or model needs, and the limit that it hit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.budget import BudgetSpent, BudgetUsage
from oomdoctor.families.gpu_library import LibraryOutOfMemory
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.jax_tf import AllocationProbe, ArrayOutOfMemory
from oomdoctor.families.llama_cpp import BufferRefused, LoadPlan
from oomdoctor.families.mlc import NoRoom
from oomdoctor.families.ollama import Short
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.language import counted, mark
from oomdoctor.report.headline.gpu import figures, requested, told
from oomdoctor.signs import address_space, allocator, kills
from oomdoctor.signs.trace import card, refusal
from oomdoctor.units import TIB, show

LONG: Final = 40  # characters: a shape that is longer is none for a headline
IMPOSSIBLE: Final = 8 * TIB
_RUNTIMES: Final[Mapping[str, str]] = {"java": "Java", "node": "Node.js"}


def shape(crash: Crash) -> str | None:
    """The shape of the array that did not fit."""
    event = told(crash)
    found = event.shape if isinstance(event, ArrayOutOfMemory | HostAllocation) else None
    return found if found and len(found) <= LONG else None


def times(crash: Crash) -> str | None:
    """How many times the memory that there is was requested in one allocation; None below two."""
    it = figures(crash)
    ram = crash.context.hardware.get("ram_bytes")
    there = it.total_bytes or (ram if isinstance(ram, int) and crash.pool != "gpu" else None)
    many = (it.tried_bytes or 0) / there if there else 0
    return f"{many:,.0f}" if many >= 2 else None


def impossible(crash: Crash) -> str | None:
    """A size that no machine has."""
    size = figures(crash).tried_bytes or 0
    return show(size) if size >= IMPOSSIBLE else None


def probed(crash: Crash) -> str | None:
    """What a framework counted as free at its start, where no GPU has as much."""
    root = crash.root
    size = root.tried_bytes or 0 if isinstance(root, AllocationProbe) else 0
    return show(size) if size >= IMPOSSIBLE else None


# buffers of llama.cpp and Ollama, and weights


def compute_buffer(crash: Crash) -> str | None:
    """The buffer in which llama.cpp or Ollama computes."""
    root = crash.root
    fits = isinstance(root, BufferRefused | Short) and root.what in ("compute", "pool") and root.tried_bytes
    return requested(crash) if fits else None


def cache_buffer(crash: Crash) -> str | None:
    """The buffer of their KV cache."""
    root = crash.root
    fits = isinstance(root, BufferRefused | Short) and root.what in ("kv", "state")
    return requested(crash) if fits else None


def weights_buffer(crash: Crash) -> str | None:
    """The buffer of their weights."""
    root = crash.root
    if not isinstance(root, BufferRefused | Short) or root.what != "weights":
        return None
    return requested(crash)


def context(crash: Crash) -> str | None:
    """The context for which they load the model."""
    lengths = [plan.context_len for plan in crash.every(LoadPlan) if plan.context_len]
    return counted(lengths[-1], mark("{count} token"), mark("{count} tokens")) if lengths else None


def loader_free(crash: Crash) -> str | None:
    """What the loader found free of the GPU; None where the buffer would have fitted."""
    root = crash.root
    plans = [plan for plan in crash.every(LoadPlan) if plan.pool == "gpu" and plan.free_bytes is not None]
    size = plans[0].free_bytes if len(plans) == 1 else None
    if size is None or not isinstance(root, BufferRefused) or size >= (root.tried_bytes or 0):
        return None
    return show(size)


def share_weights(crash: Crash) -> str | None:
    """The weights of MLC's model, where they are larger than what it may use."""
    root = crash.root
    if not isinstance(root, NoRoom) or not root.weights_bytes or root.available_bytes is None:
        return None
    return show(root.weights_bytes) if root.weights_bytes > root.available_bytes else None


def share_room(crash: Crash) -> str | None:
    """What MLC may use of the GPU."""
    root = crash.root
    return show(root.available_bytes) if isinstance(root, NoRoom) and root.available_bytes is not None else None


def model_name(crash: Crash) -> str | None:
    """The model, where the log names one alone."""
    models = crash.context.models
    return models[0].rpartition("/")[2][:LONG] or None if len(models) == 1 else None


# limits


def cap(crash: Crash) -> str | None:
    """What the process is allowed of a GPU that has room for the allocation."""
    if allocator.beyond_the_allowed_beside_room(crash) is None:
        return None
    size = card(crash).allowed_bytes
    return show(size) if size else None


def cap_on_a_full_gpu(crash: Crash) -> str | None:
    """What the process is allowed of a GPU that has no room for the allocation either."""
    if allocator.beyond_the_allowed_on_a_full_card(crash) is None:
        return None
    size = card(crash).allowed_bytes
    return show(size) if size else None


def watermark(crash: Crash) -> str | None:
    """What macOS recommends as the most for the GPU."""
    if allocator.beyond_the_watermark(crash) is None:
        return None
    return show(card(crash).allowed_bytes or 0)


def mac_torch(crash: Crash) -> str | None:
    """What PyTorch holds of that."""
    size = card(crash).allocated_bytes
    return show(size) if size is not None else None


def mac_others(crash: Crash) -> str | None:
    """What others hold of that."""
    event = refusal(crash)
    size = event.other_allocations_bytes if event is not None else None
    return show(size) if size is not None else None


def at_once(crash: Crash) -> str | None:
    """An allocation that the driver fails because of its size, whatever is free."""
    seen = allocator.beyond_the_largest_allocation(crash) or allocator.buffer_beyond_the_devices_largest(crash)
    return requested(crash) if seen is not None else None


def most_at_once(crash: Crash) -> str | None:
    """The most that a device gives in one allocation, and how much was requested."""
    pair = allocator.at_once(crash)
    return show(pair[1]) if pair is not None else None


def asked_at_once(crash: Crash) -> str | None:
    """How much was requested of such a device."""
    pair = allocator.at_once(crash)
    return show(pair[0]) if pair is not None else None


def visible_memory(crash: Crash) -> str | None:
    """What the framework sees of a GPU that has at least twice as much."""
    size = card(crash).total_bytes
    return show(size) if size and allocator.card_partly_hidden(crash) is not None else None


def hidden_memory(crash: Crash) -> str | None:
    """What the driver says that this GPU has."""
    size = allocator.drivers_bytes(crash)
    return show(size) if size and allocator.card_partly_hidden(crash) is not None else None


def pool_owner(crash: Crash) -> str | None:
    """A library, a program or a framework with a limit of its own."""
    root = crash.root
    if isinstance(root, BudgetSpent):
        return root.program
    if isinstance(root, ArrayOutOfMemory):
        return "Paddle" if allocator.frameworks_own_limit_is_hit(crash) is not None else None
    limited = (
        allocator.pool_of_a_library_beyond_its_limit,
        allocator.pool_of_a_library_says_so,
        allocator.arena_of_a_library_is_full,
    )
    named = isinstance(root, LibraryOutOfMemory) and any(seen(crash) for seen in limited)
    return root.library if named and isinstance(root, LibraryOutOfMemory) else None


def pool_limit(crash: Crash) -> str | None:
    """That limit."""
    size = getattr(crash.root, "limit_bytes", None)
    return show(size) if isinstance(size, int) and size > 0 and pool_owner(crash) else None


def pool_setting(crash: Crash) -> str | None:
    """The setting that makes it."""
    root = crash.root
    return root.setting if isinstance(root, BudgetSpent) and root.setting and len(root.setting) <= LONG else None


def pool_left(crash: Crash) -> str | None:
    """What a library's arena has left under its limit."""
    root = crash.root
    if not isinstance(root, LibraryOutOfMemory) or root.left_bytes is None:
        return None
    return show(root.left_bytes) if root.left_bytes < (root.tried_bytes or 0) else None


def spent(crash: Crash) -> str | None:
    """What a worker used of its budget in its last report before a kill."""
    usage = _usage(crash)
    return show(usage.used_bytes or 0) if usage is not None else None


def budget(crash: Crash) -> str | None:
    """The budget of that worker."""
    usage = _usage(crash)
    return show(usage.limit_bytes or 0) if usage is not None else None


def budget_of(crash: Crash) -> str | None:
    """The program of that worker."""
    usage = _usage(crash)
    return usage.program if usage is not None else None


def _usage(crash: Crash) -> BudgetUsage | None:
    if kills.budget_was_nearly_spent_before_the_kill(crash) is None:
        return None
    return next(reversed([usage for usage in crash.every(BudgetUsage) if usage.limit_bytes]), None)


def heap(crash: Crash) -> str | None:
    """A runtime whose heap is full."""
    root = crash.root
    full = address_space.heap_of_a_runtime_is_full(crash) is not None
    if not isinstance(root, HostAllocation) or not full or root.of_classes:
        return None
    return _RUNTIMES.get(root.allocator)


def metaspace(crash: Crash) -> str | None:
    """A runtime whose memory for classes is full."""
    root = crash.root
    return "Java" if isinstance(root, HostAllocation) and root.of_classes else None


def metaspace_limit(crash: Crash) -> str | None:
    """The limit of that memory."""
    root = crash.root
    if not isinstance(root, HostAllocation) or not root.metaspace_limit_bytes:
        return None
    return show(root.metaspace_limit_bytes)


def heap_limit(crash: Crash) -> str | None:
    """The limit of that heap, or how far it had grown."""
    root = crash.root
    if not isinstance(root, HostAllocation):
        return None
    size = root.heap_limit_bytes or root.heap_used_bytes
    return show(size) if size else None


def workspace(crash: Crash) -> str | None:
    """A library whose workspace is too small."""
    root = crash.root
    small = allocator.workspace_of_a_library_is_too_small(crash) is not None
    return root.library if small and isinstance(root, LibraryOutOfMemory) else None


def own_limit(crash: Crash) -> str | None:
    """The limit that a program says that it keeps, where it is less than what was requested."""
    root = crash.root
    if not isinstance(root, Shortage) or not root.limited or not root.limit_bytes:
        return None
    return show(root.limit_bytes) if root.limit_bytes < (root.tried_bytes or root.limit_bytes + 1) else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        asked_at_once, at_once, budget, budget_of, cache_buffer, cap, cap_on_a_full_gpu, compute_buffer, context,
        heap, heap_limit, hidden_memory, impossible, loader_free, mac_others, mac_torch, metaspace,
        metaspace_limit, model_name, most_at_once, own_limit, pool_left, pool_limit, pool_owner, pool_setting,
        probed, shape, share_room, share_weights, spent, times, visible_memory, watermark, weights_buffer,
        workspace,
    )
}  # fmt: skip
