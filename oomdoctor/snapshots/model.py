"""What a snapshot says of each GPU."""

from __future__ import annotations

from msgspec import Struct

from oomdoctor.units import GIB


class Frame(Struct, frozen=True):
    """One frame of a stack."""

    name: str
    file: str
    line: int


class Holding(Struct, frozen=True):
    """What one holder has."""

    holder: str
    bytes: int
    blocks: int


class StackUse(Struct, frozen=True):
    """What was allocated at one stack and not freed."""

    holder: str
    bytes: int
    blocks: int
    frames: tuple[str, ...]  # some of them, the innermost first


class Growth(Struct, frozen=True):
    """Blocks of one stack that stay, cycle after cycle of the trace."""

    holder: str
    bytes: int
    blocks: int
    cycles: int
    of_cycles: int
    frames: tuple[str, ...]


class Refusal(Struct, frozen=True):
    """The last request that failed."""

    bytes: int
    device_free: int | None
    holder: str
    frames: tuple[str, ...]
    stack: tuple[Frame, ...]  # the innermost first
    entry: int
    allocations_after: int  # the job went on where there are some


class Room(Struct, frozen=True):
    """The free blocks of the segments that the failed request could have been taken from."""

    bytes: int
    largest: int
    pieces: int


class Piece(Struct, frozen=True):
    """A part of a segment: its holder, or "" where it is free."""

    holder: str
    bytes: int


class Strip(Struct, frozen=True):
    """One segment, as it is drawn."""

    bytes: int
    is_private: bool
    pieces: tuple[Piece, ...]


class Account(Struct, frozen=True, kw_only=True):
    """One GPU. Sizes of blocks are with what the allocator rounds them up by."""

    is_timeline: bool = False  # of torch.profiler: it has the peak alone, and does not name the device
    device: int = 0
    segments: int = 0
    reserved: int = 0
    allocated: int  # at the failure, at the peak of a timeline, or when the snapshot was taken
    pending: int = 0  # freed, and waiting for another stream
    free: int = 0  # in segments
    largest_free: int = 0
    rounding: int = 0  # what the blocks are larger than the requests
    private: int = 0  # of what is reserved: pools of CUDA graphs and others
    freed_since: int = 0  # the failure
    holdings: tuple[Holding, ...]
    stacks: tuple[StackUse, ...] = ()
    refusal: Refusal | None = None
    room: Room | None = None
    growths: tuple[Growth, ...] = ()
    history: tuple[tuple[int, int], ...] = ()  # entries of the trace, and what was allocated then
    entries: int  # of the trace, or the times of a timeline
    strips: tuple[Strip, ...] = ()
    settings: str = ""
    expandable: bool = False

    def may_be(self, allocated: int) -> bool:
        """Whether a printed figure is what is allocated here: two decimals leave one part in a hundred open."""
        return abs(self.allocated - allocated) <= max(GIB // 100, allocated // 100)
