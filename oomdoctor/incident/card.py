"""What a card's printed figures add up to: who else is on it, and what this process holds outside PyTorch."""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from oomdoctor.families.cuda import DeviceOutOfMemory, OtherProcess
from oomdoctor.units import GIB, MIB

# "Process 214 has 92.38 GiB" is this process itself where nothing else fits beside it (a container's own pid).
SLACK: Final = GIB
# CUDA's context, NCCL and cuBLAS in an ordinary job; the printed figures of one process may differ by as much.
OUTSIDE_PYTORCH: Final = 4 * GIB
# What CUDA's context takes of a card, of a process that has put nothing on it: by its release, modules and card
LEAST_CONTEXT: Final = 300 * MIB
LARGEST_CONTEXT: Final = 700 * MIB


class Card(Struct, frozen=True, kw_only=True):
    """One card at the moment of the refusal. Printed figures, and others derived from them; None where they are
    missing or contradict each other (WSL2 counts more memory than the card has)."""

    tried_bytes: int | None = None
    total_bytes: int | None = None
    free_bytes: int | None = None
    allowed_bytes: int | None = None
    allocated_bytes: int | None = None
    unallocated_bytes: int | None = None  # reserved - allocated
    reserved_bytes: int | None = None  # allocated + unallocated
    live_bytes: int | None = None  # allocated - private pools
    own_bytes: int | None = None  # this process, with what is not PyTorch's
    others_bytes: int | None = None  # the other processes that the message lists
    non_torch_bytes: int | None = None  # own - reserved
    unaccounted_bytes: int | None = None  # total - free - own - others: processes that the driver does not list
    beyond_bytes: int | None = None  # total - free - reserved: others and non-torch together
    others: tuple[OtherProcess, ...] = ()
    oversubscribed: bool = False  # more is allocated than the card has: the driver pages to host memory

    @property
    def used_bytes(self) -> int | None:
        return _minus(self.total_bytes, self.free_bytes)

    @property
    def missing_bytes(self) -> int | None:
        """What was requested beyond what was free, where PyTorch holds as much that no tensor uses."""
        tried, free, unused = self.tried_bytes, self.free_bytes, self.unallocated_bytes
        if tried is None or free is None or unused is None or not free < tried <= free + unused:
            return None
        return tried - free

    @property
    def contexts(self) -> tuple[OtherProcess, ...]:
        """The others that hold one and the same little, as a context alone is: two or more."""
        small = [one for one in self.others if LEAST_CONTEXT <= (one.bytes or 0) <= LARGEST_CONTEXT]
        size, count = Counter(one.bytes for one in small).most_common(1)[0] if small else (None, 0)
        return tuple(one for one in small if one.bytes == size) if count > 1 else ()

    def share(self, part_bytes: int | None) -> float | None:
        """The part of the card, 0..1."""
        return part_bytes / self.total_bytes if part_bytes is not None and self.total_bytes else None


def card_of(event: DeviceOutOfMemory) -> Card:
    """The derived figures of one message."""
    allocated = event.allocated_bytes
    reserved, unallocated = _reserved(event)
    oversubscribed = bool(allocated and event.total_bytes and allocated > event.total_bytes)
    own, others = (None, ()) if oversubscribed else _own(event, reserved)
    all_known = all(process.bytes is not None for process in event.others)
    others_sum = _sum(others) if all_known and (event.others or own is not None) else None
    used = _minus(event.total_bytes, event.free_bytes)
    accounted = own + others_sum if own is not None and others_sum is not None else None
    return Card(
        tried_bytes=event.tried_bytes,
        total_bytes=event.total_bytes,
        free_bytes=event.free_bytes,
        allowed_bytes=event.allowed_bytes,
        allocated_bytes=allocated,
        unallocated_bytes=unallocated,
        reserved_bytes=reserved,
        live_bytes=None if allocated is None else allocated - (event.private_pools_bytes or 0),
        own_bytes=own,
        others_bytes=others_sum,
        non_torch_bytes=_at_least_nothing(_minus(own, reserved)),
        unaccounted_bytes=_at_least_nothing(_minus(used, accounted)),
        beyond_bytes=None if oversubscribed else _at_least_nothing(_minus(used, reserved)),
        others=others,
        oversubscribed=oversubscribed,
    )


def _reserved(event: DeviceOutOfMemory) -> tuple[int | None, int | None]:
    """What PyTorch took from the driver, and how much of it no tensor uses. "cached" (to 1.3) is the latter."""
    allocated = event.allocated_bytes
    unallocated = event.unallocated_bytes if event.unallocated_bytes is not None else event.cached_bytes
    if event.reserved_bytes is not None:
        return event.reserved_bytes, _at_least_nothing(_minus(event.reserved_bytes, allocated))
    if event.backend == "cudaMallocAsync":
        return allocated, None
    return None if allocated is None or unallocated is None else allocated + unallocated, unallocated


def _own(event: DeviceOutOfMemory, reserved: int | None) -> tuple[int | None, tuple[OtherProcess, ...]]:
    """This process's memory, and the processes that are not this one."""
    listed = tuple(process for process in event.others if process.bytes is not None)
    # "this process has 0 bytes memory in use" beside tensors of many GiB: the driver does not know it
    if event.in_use_bytes is not None and event.in_use_bytes >= (reserved or 0) - SLACK:
        return event.in_use_bytes, listed
    own = _itself(event, listed, reserved)
    if own is None:
        return None, listed
    return own.bytes, tuple(process for process in listed if process is not own)


def _itself(event: DeviceOutOfMemory, listed: tuple[OtherProcess, ...], reserved: int | None) -> OtherProcess | None:
    """Which listed process is the one that was refused: its pid says so, or nothing else fits."""
    for process in listed:
        if process.pid == event.process.pid:
            return process
    used = _minus(event.total_bytes, event.free_bytes)
    if len(listed) == 1 and used is not None and abs(used - (listed[0].bytes or 0)) < SLACK:
        return listed[0]
    if reserved is None or (used is not None and used - _sum(listed) >= reserved):
        return None  # there is room for it beside them: it is not in the list
    fitting = [p for p in listed if 0 <= (p.bytes or 0) - reserved <= OUTSIDE_PYTORCH]
    return min(fitting, key=lambda p: p.bytes or 0, default=None)


def _sum(processes: tuple[OtherProcess, ...]) -> int:
    return sum(process.bytes or 0 for process in processes)


def _minus(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else whole - part


def _at_least_nothing(difference: int | None) -> int | None:
    """Figures with two decimals may differ by some MiB: a little less than nothing is nothing."""
    if difference is None or difference < -SLACK:
        return None
    return max(difference, 0)
