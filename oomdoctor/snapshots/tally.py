"""What a snapshot's rows add up to, taken one by one while the pickle is read."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Mapping
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


class TooManyError(ValueError):
    """More rows than can be taken."""


class Tally:
    """The blocks, the trace's allocations and what became of them."""

    def __init__(self) -> None:
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
        self.next_point = 0
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
            return Frame(_text(table.get("name", "")), _text(table["filename"]), _address(table["line"]))
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
        frames, size = table.get("frames"), _size(table["size"])
        asked = table.get("requested_size")
        for past in table.get("history") or ():  # PyTorch 2.0; the first is the newest
            frames, asked = past.get("frames"), past.get("real_size", asked)
            break
        self.sizes.append(size)
        self.requests.append(_size(asked) if asked else size)
        self.states.append(STATES.get(table["state"], PENDING))
        self.origins.append(self.number_of(frames))
        self.addresses.append(_address(table.get("address", 0)))

    def _segment(self, table: Mapping[str, Any]) -> Segment:
        begin = self.segments[-1].end if self.segments else 0
        blocks = table["blocks"]
        if (
            type(blocks) is not list
            or len(blocks) != len(self.sizes) - begin
            or any(one is not BLOCK for one in blocks)
        ):
            raise ValueError("blocks of another segment")
        pool = table.get("segment_pool_id", (0, 0))
        return Segment(
            device=_size(table.get("device", 0)),
            size=_size(table["total_size"]),
            stream=_address(table.get("stream", 0)),
            is_large=table.get("segment_type", "large") == "large",
            pool=(_address(pool[0]), _address(pool[1])) if isinstance(pool, tuple) and len(pool) == 2 else (0, 0),
            is_expandable=bool(table.get("is_expandable", False)),
            begin=begin,
            end=len(self.sizes),
        )

    def _entry(self, table: Mapping[str, Any]) -> None:
        action = table["action"]
        if action == "alloc":
            self.allocation(_address(table["addr"]), _size(table["size"]), self.number_of(table.get("frames")))
        elif action == "free_completed":
            self.release(_address(table["addr"]), _size(table["size"]))
        elif action == "oom":
            self._failure(table)
        if self.entries == self.next_point:
            self.point()
        self.entries += 1

    def allocation(self, address: int, size: int, stack: int) -> None:
        """Memory was taken at this address."""
        number = len(self.taken)
        if number >= MOST_ENTRIES:
            raise TooManyError
        if address in self.live:  # its end was left out of the trace
            self.release(address, size)
        self.live[address] = number
        self.taken.append(stack)
        self.taken_sizes.append(size)
        self.taken_at.append(self.entries)
        self.ends.append(0)
        self.net += size
        self.allocations_since += 1

    def release(self, address: int, size: int) -> None:
        """A block is free again; it may have been taken before the trace begins."""
        number = self.live.pop(address, None)
        if number is not None:
            self.ends[number] = self.entries
            size = self.taken_sizes[number]
        self.net -= size

    def _failure(self, table: Mapping[str, Any]) -> None:
        free = table.get("device_free")
        stack = self.number_of(table.get("frames"))
        self.failures.append(
            Failure(
                entry=self.entries,
                size=_size(table["size"]),
                device_free=_size(free) if free is not None else None,
                stream=table.get("stream"),
                stack=stack if stack >= 0 else None,
                net=self.net,
            )
        )
        self.allocations_since = 0

    def point(self) -> None:
        """Note what is allocated, every so many entries."""
        self.points.append((self.entries, self.net))
        if len(self.points) >= MOST_POINTS:
            del self.points[1::2]
            self._stride *= 2
        self.next_point = self.entries + self._stride


def _size(value: object) -> int:
    if type(value) is not int or not 0 <= value < LARGEST:
        raise ValueError("no size")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


def _address(value: object) -> int:
    """Of 64 bits, as one number with a sign."""
    if type(value) is not int:
        raise ValueError("no address")
    return value - 2**64 if value >= 2**63 else value
