"""What a snapshot's rows add up to, taken one by one while the pickle is read."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from oomdoctor.snapshots.model import Frame

MOST_STACKS: Final = 2_000_000
MOST_ENTRIES: Final = 50_000_000
MOST_BLOCKS: Final = 5_000_000
MOST_REQUESTS: Final = 32  # that failed: the last ones
MOST_POINTS: Final = 4096  # of the history of what was allocated
LARGEST: Final = 2**63

# "active_awaiting_free" stands in the docstrings, "active_pending_free" in the code.
STATES: Final[Mapping[str, int]] = {
    "active_allocated": 1,
    "active_pending_free": 2,
    "active_awaiting_free": 2,
    "inactive": 0,
}
ALLOCATION: Final = "alloc"
RELEASE: Final = "free_completed"
Change = tuple[object, int, int, int]  # the action, the address, the size, and the stack's number or -1
NOTHING: Final[Change] = (None, 0, 0, -1)
INACTIVE: Final = 0
ALLOCATED: Final = 1
PENDING: Final = 2


class Stack:
    """Where an allocation was made: the frames as they stand in the pickle."""

    __slots__ = ("frames", "number")

    def __init__(self, number: int, frames: Any) -> None:
        self.number = number
        self.frames = frames  # a list of frames, or the bytes of references to them


class Segment(Struct, frozen=True, kw_only=True):
    """One piece that the allocator has of the driver, and its blocks in the tally."""

    device: int
    size: int
    stream: int
    is_large: bool
    pool: tuple[int, int]
    is_expandable: bool
    begin: int
    end: int


class Failure(Struct, frozen=True, kw_only=True):
    """A request that failed, as the trace has it."""

    entry: int  # which of the trace
    size: int
    device_free: int | None
    stream: int | None
    stack: int | None
    net: int  # allocated since the trace begins, less what was freed


class _Row:
    """What stands for a row that was taken."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


ENTRY: Final = _Row("entry")
BLOCK: Final = _Row("block")
HOST: Final = _Row("host")
_OF_ROWS: Final = frozenset({"action", "state", "blocks"})


class TooManyError(ValueError):
    """More rows than can be taken."""


class Tally:
    """The blocks, the trace's allocations and what became of them."""

    def __init__(self) -> None:
        self.is_of_host = False  # what is read now: the pinned memory's part of the snapshot
        self.stacks: list[Stack] = []
        self.segments: list[Segment] = []
        self.sizes = array("q")  # of the blocks
        self.requests = array("q")
        self.states = bytearray()
        self.origins = array("i")  # each block's stack, or -1
        self.addresses = array("q")
        self.entries = 0
        self.taken = array("i")  # the stack of each allocation of the trace
        self.taken_sizes = array("q")
        self.taken_at = array("I")  # which entry of the trace
        self.ends = array("I")  # and which one freed it; 0 of what still is allocated
        self.live: dict[int, int] = {}  # the allocation at an address
        self.net = 0
        self.failures: deque[Failure] = deque(maxlen=MOST_REQUESTS)
        self.allocations_since = 0  # the last failure, or the beginning
        self.points: list[tuple[int, int]] = []  # an entry of the trace, and what was allocated then
        self._stride = 1
        self._next_point = 0
        self._of_lists: dict[int, Stack] = {}
        self._of_content: dict[tuple[int, ...], Stack] = {}

    def stack(self, frames: Any) -> Stack:
        """A new stack."""
        if len(self.stacks) >= MOST_STACKS:
            raise TooManyError
        stack = Stack(len(self.stacks), frames)
        self.stacks.append(stack)
        return stack

    def row(self, table: dict[Any, Any]) -> object | None:
        """Take a table if it is a row; what stands for it then."""
        if self.is_of_host and not table.keys().isdisjoint(_OF_ROWS):
            return HOST
        if "action" in table:
            self._entry(table)
            return ENTRY
        if "state" in table and "size" in table:
            self._block(table)
            return BLOCK
        if "total_size" in table and "blocks" in table:
            segment = self._segment(table)
            self.segments.append(segment)
            return segment
        if "filename" in table and "line" in table:
            return Frame(_text(table.get("name", "")), _text(table["filename"]), address_of(table["line"]))
        return None

    def number_of(self, value: Any) -> int:
        if type(value) is Stack:
            return value.number if value.frames else -1
        if type(value) is not list or not value:
            return -1
        known = self._of_lists.get(id(value))  # of a list that the stack keeps
        if known is None:
            content = tuple(map(id, value))
            known = self._of_content.get(content)
            if known is None:
                known = self._of_content[content] = self.stack(value)
                self._of_lists[id(value)] = known
        return known.number

    def _block(self, table: Mapping[str, Any]) -> None:
        if len(self.sizes) >= MOST_BLOCKS:
            raise TooManyError
        frames, size = table.get("frames"), size_of(table["size"])
        asked = table.get("requested_size")
        for past in table.get("history") or ():  # PyTorch 2.0; the first is the newest
            frames, asked = past.get("frames"), past.get("real_size", asked)
            break
        self.sizes.append(size)
        self.requests.append(size_of(asked) if asked else size)
        self.states.append(STATES.get(table["state"], PENDING))
        self.origins.append(self.number_of(frames))
        self.addresses.append(address_of(table.get("address", 0)))

    def _segment(self, table: Mapping[str, Any]) -> Segment:
        begin = self.segments[-1].end if self.segments else 0
        blocks = table["blocks"]
        if type(blocks) is not list or not len(blocks) == len(self.sizes) - begin == blocks.count(BLOCK):
            raise ValueError("blocks of another segment")
        pool = table.get("segment_pool_id", (0, 0))
        return Segment(
            device=size_of(table.get("device", 0)),
            size=size_of(table["total_size"]),
            stream=address_of(table.get("stream", 0)),
            is_large=table.get("segment_type", "large") == "large",
            pool=(address_of(pool[0]), address_of(pool[1])) if isinstance(pool, tuple) and len(pool) == 2 else (0, 0),
            is_expandable=bool(table.get("is_expandable", False)),
            begin=begin,
            end=len(self.sizes),
        )

    def _entry(self, table: Mapping[str, Any]) -> None:
        action, change = table["action"], NOTHING
        if action == ALLOCATION:
            change = action, address_of(table["addr"]), size_of(table["size"]), self.number_of(table.get("frames"))
        elif action == RELEASE:
            change = action, address_of(table["addr"]), size_of(table["size"]), -1
        elif action == "oom":
            self._failure(table)
        self.take((change,))

    def take(self, changes: Iterable[Change]) -> int:
        """Take what the next entries of the trace did; returns how many they are."""
        if self.is_of_host:
            return sum(1 for _ in changes)
        entry, net, live, ends = self.entries, self.net, self.live, self.ends
        taken, sizes, times = self.taken, self.taken_sizes, self.taken_at
        before = number = len(taken)
        for action, address, size, stack in changes:
            if action == ALLOCATION:
                left = live.get(address)
                if left is not None:  # its end was left out of the trace
                    ends[left] = entry
                    net -= sizes[left]
                live[address] = number
                number += 1
                taken.append(stack)
                sizes.append(size)
                times.append(entry)
                ends.append(0)
                net += size
            elif action == RELEASE:
                taken_as = live.pop(address, None)
                if taken_as is not None:  # else it was taken before the trace begins
                    ends[taken_as] = entry
                net -= size if taken_as is None else sizes[taken_as]
            if entry == self._next_point:
                self._point(entry, net)
            entry += 1
        count = entry - self.entries
        self.allocations_since += number - before
        self.entries, self.net = entry, net
        if number > MOST_ENTRIES:
            raise TooManyError
        return count

    def _failure(self, table: Mapping[str, Any]) -> None:
        free = table.get("device_free")
        stack = self.number_of(table.get("frames"))
        self.failures.append(
            Failure(
                entry=self.entries,
                size=size_of(table["size"]),
                device_free=size_of(free) if free is not None else None,
                stream=table.get("stream"),
                stack=stack if stack >= 0 else None,
                net=self.net,
            )
        )
        self.allocations_since = 0

    def _point(self, entry: int, net: int) -> None:
        """Note what is allocated, every so many entries."""
        self.points.append((entry, net))
        if len(self.points) >= MOST_POINTS:
            del self.points[1::2]
            self._stride *= 2
        self._next_point = entry + self._stride


def size_of(value: object) -> int:
    if type(value) is not int or not 0 <= value < LARGEST:
        raise ValueError("no size")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def address_of(value: object) -> int:
    """Of 64 bits, as one number with a sign."""
    if type(value) is not int:
        raise ValueError("no address")
    return value - 2**64 if value >= 2**63 else value
