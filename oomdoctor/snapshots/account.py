"""What a snapshot says of each GPU: who held the memory when a request failed, what lay free, and what only grew."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.snapshots.holders import Holders
from oomdoctor.snapshots.model import Account, Frame, Growth, Holding, Piece, Refusal, Room, StackUse, Strip
from oomdoctor.snapshots.names import BACKWARD, NO_STACK
from oomdoctor.snapshots.rows import resolved
from oomdoctor.snapshots.tally import ALLOCATED, INACTIVE, PENDING, Failure, Segment, Tally
from oomdoctor.text import sanitize

MOST_STACKS: Final = 10
MOST_FRAMES: Final = 6  # of a stack that is shown
MOST_OF_STACK: Final = 100  # frames of the failed request
MOST_GROWTHS: Final = 5
MOST_STRIPS: Final = 12  # segments that are drawn
MOST_PIECES: Final = 60  # of a segment that is drawn
MOST_POINTS: Final = 64
LONGEST: Final = 160  # characters of a frame
SMALL: Final = 1024**2  # the allocator takes requests up to this one from segments of their own
CYCLES: Final = 3  # rises and falls of what is allocated; fewer may be a warm-up
START: Final = 0.1  # of the trace: what is loaded there is no cycle
SWING: Final = 0.25  # of the range: a smaller fall ends no cycle
IN_CYCLES: Final = 0.6  # of them a stack has to leave blocks in, for a growth
_INSTALLED: Final = ("site-packages/", "dist-packages/")
_MACHINERY: Final = ("torch/", "/torch/", "??", "<frozen", "importlib/", "threading.py", "runpy.py")


def account(tally: Tally, memo: Sequence[Any], lengths: Sequence[int], settings: dict[str, Any]) -> tuple[Account, ...]:
    """One account of each GPU that the snapshot has segments or a trace of."""
    devices = sorted({segment.device for segment in tally.segments} | {n for n, length in enumerate(lengths) if length})
    traces = [number for number, length in enumerate(lengths) if length]
    of_trace = traces[0] if len(traces) == 1 else None  # of several it is not told apart which entry is whose
    shared = _Shared(tally, memo, settings)
    return tuple(_Device(shared, device, has_trace=device == of_trace).account() for device in devices)


class _Shared:
    """What the accounts of all GPUs have in common."""

    def __init__(self, tally: Tally, memo: Sequence[Any], settings: dict[str, Any]) -> None:
        self.tally = tally
        self.settings = settings
        self._memo = memo
        self._holders = Holders()
        self._frames: dict[int, tuple[Frame, ...]] = {}

    def frames(self, stack: int) -> tuple[Frame, ...]:
        if stack < 0:
            return ()
        known = self._frames.get(stack)
        if known is None:
            raw = self.tally.stacks[stack].frames
            listed = resolved(raw, self._memo) if isinstance(raw, bytes) else raw
            known = self._frames[stack] = tuple(one for one in listed if type(one) is Frame)
        return known

    def holder(self, stack: int) -> str:
        return self._holders.of(self.frames(stack))


class _Block(Struct, frozen=True):
    """One allocation at the time of the account."""

    size: int
    stack: int
    holder: str


class _Device:
    """Makes the account of one GPU."""

    def __init__(self, shared: _Shared, device: int, *, has_trace: bool) -> None:
        self._shared = shared
        self._tally = tally = shared.tally
        self._device = device
        self._segments = [segment for segment in tally.segments if segment.device == device]
        self._has_trace = has_trace
        self._failure = tally.failures[-1] if has_trace and tally.failures else None

    def account(self) -> Account:
        tally = self._tally
        blocks = [number for segment in self._segments for number in range(segment.begin, segment.end)]
        in_state = dict.fromkeys((INACTIVE, ALLOCATED, PENDING), 0)
        for number in blocks:
            in_state[tally.states[number]] += tally.sizes[number]
        held = list(self._held(blocks))
        known = sum(block.size for block in held)
        allocated = self._allocated(in_state[ALLOCATED], known)
        if allocated > known:
            held.append(_Block(allocated - known, -1, NO_STACK))
        settings = self._shared.settings
        return Account(
            device=self._device,
            segments=len(self._segments),
            reserved=sum(segment.size for segment in self._segments),
            allocated=allocated,
            pending=in_state[PENDING],
            free=in_state[INACTIVE],
            largest_free=max((tally.sizes[n] for n in blocks if tally.states[n] == INACTIVE), default=0),
            rounding=sum(max(tally.sizes[n] - tally.requests[n], 0) for n in blocks if tally.states[n] == ALLOCATED),
            private=sum(segment.size for segment in self._segments if segment.pool != (0, 0)),
            freed_since=max(allocated - in_state[ALLOCATED], 0),
            holdings=_holdings(held),
            stacks=tuple(self._largest(held)),
            refusal=self._refusal(),
            room=self._room(),
            growths=tuple(self._growths()),
            history=self._history(in_state[ALLOCATED]),
            entries=tally.entries if self._has_trace else 0,
            strips=tuple(self._strips()),
            settings=_settings(settings),
            expandable=settings.get("expandable_segments") is True or any(one.is_expandable for one in self._segments),
        )

    def _allocated(self, now: int, known: int) -> int:
        """What was allocated when the request failed; now, where none did."""
        if self._failure is None:
            return now
        return max(now + self._failure.net - self._tally.net, known)

    def _held(self, blocks: Sequence[int]) -> Iterator[_Block]:
        """What was allocated when the request failed: blocks that still are, and those that were freed since."""
        tally, until = self._tally, self._failure.entry if self._failure is not None else None
        for number in blocks:
            if tally.states[number] != ALLOCATED:
                continue
            in_trace = tally.live.get(tally.addresses[number]) if self._has_trace else None
            if until is None or in_trace is None or tally.taken_at[in_trace] < until:
                yield self._block(tally.sizes[number], tally.origins[number], in_trace)
        if until is None:
            return
        for number, end in enumerate(tally.ends):
            if end > until > tally.taken_at[number]:
                yield self._block(tally.taken_sizes[number], tally.taken[number], number)

    def _block(self, size: int, stack: int, in_trace: int | None) -> _Block:
        """An allocation of the trace without a Python stack is of a thread of the backward pass, which has none."""
        if stack < 0 and in_trace is not None:
            return _Block(size, stack, BACKWARD if self._has_stacks else NO_STACK)
        return _Block(size, stack, self._shared.holder(stack))

    @property
    def _has_stacks(self) -> bool:
        return any(stack.frames for stack in self._tally.stacks)

    def _largest(self, held: Sequence[_Block]) -> Iterator[StackUse]:
        """The stacks that hold most, the same stack of several lists together."""
        groups: dict[tuple[Any, ...], list[_Block]] = defaultdict(list)
        for stack, blocks in _by_stack(held).items():
            groups[self._shared.frames(stack) if stack >= 0 else (blocks[0].holder,)] += blocks
        sized = sorted(((sum(b.size for b in blocks), blocks) for blocks in groups.values()), key=lambda pair: -pair[0])
        for size, blocks in sized[:MOST_STACKS]:
            yield StackUse(blocks[0].holder, size, len(blocks), shown(self._shared.frames(blocks[0].stack)))

    def _refusal(self) -> Refusal | None:
        failure = self._failure
        if failure is None:
            return None
        stack = failure.stack if failure.stack is not None else -1
        return Refusal(
            bytes=failure.size,
            device_free=failure.device_free,
            holder=self._shared.holder(stack) if stack >= 0 or not self._has_stacks else BACKWARD,
            frames=shown(self._shared.frames(stack)),
            stack=tuple(
                Frame(_safe(one.name), _safe(one.file), one.line) for one in self._shared.frames(stack)[:MOST_OF_STACK]
            ),
            entry=failure.entry,
            allocations_after=self._tally.allocations_since,
        )

    def _room(self) -> Room | None:
        """Free blocks that the failed request could have been taken from, as far as they still lie as they did."""
        failure, tally = self._failure, self._tally
        if failure is None:
            return None
        sizes = [
            tally.sizes[number]
            for segment in self._segments
            if _serves(segment, failure)
            for number in range(segment.begin, segment.end)
            if tally.states[number] == INACTIVE
        ]
        return Room(sum(sizes), max(sizes, default=0), len(sizes))

    def _growths(self) -> Iterator[Growth]:
        """Stacks whose blocks stay in most cycles of the trace, and none of which was freed."""
        if not self._has_trace:
            return
        tally = self._tally
        until = self._failure.entry if self._failure is not None else tally.entries
        ends = _troughs([point for point in tally.points if START * until <= point[0] <= until])
        if len(ends) < CYCLES:
            return
        made = Counter(tally.taken)
        stays: dict[int, list[int]] = defaultdict(list)
        for number, end in enumerate(tally.ends):
            if (not end or end > until) and tally.taken[number] >= 0:
                stays[tally.taken[number]].append(number)
        enough = max(CYCLES, IN_CYCLES * len(ends))
        grown = [
            (sum(tally.taken_sizes[n] for n in numbers), stack, numbers, cycles)
            for stack, numbers in stays.items()
            if len(numbers) == made[stack] and (cycles := self._cycles(numbers, ends)) >= enough
        ]
        for size, stack, numbers, cycles in sorted(grown, reverse=True)[:MOST_GROWTHS]:
            frames = shown(self._shared.frames(stack))
            yield Growth(self._shared.holder(stack), size, len(numbers), cycles, len(ends), frames)

    def _cycles(self, numbers: Sequence[int], ends: Sequence[int]) -> int:
        """In how many whole cycles these allocations were made."""
        cycles = {bisect_left(ends, self._tally.taken_at[number]) for number in numbers}
        return len(cycles - {len(ends)})

    def _history(self, now: int) -> tuple[tuple[int, int], ...]:
        """What was allocated at places of the trace, up to the failure: the end is known, so the rest is."""
        if not self._has_trace:
            return ()
        tally, failure = self._tally, self._failure
        before = now - tally.net
        until = failure.entry if failure is not None else tally.entries
        points = [(entry, max(before + net, 0)) for entry, net in tally.points if entry < until]
        points = points[:: max(1, -(-len(points) // (MOST_POINTS - 1)))]
        return (*points, (until, max(before + (failure.net if failure is not None else tally.net), 0)))

    def _strips(self) -> Iterator[Strip]:
        for segment in sorted(self._segments, key=lambda one: -one.size)[:MOST_STRIPS]:
            pieces = tuple(_gathered(list(self._pieces(segment)), segment.size // MOST_PIECES))
            yield Strip(segment.size, segment.pool != (0, 0), pieces)

    def _pieces(self, segment: Segment) -> Iterator[Piece]:
        tally = self._tally
        for number in range(segment.begin, segment.end):
            in_trace = tally.live.get(tally.addresses[number]) if self._has_trace else None
            block = self._block(tally.sizes[number], tally.origins[number], in_trace)
            yield Piece("" if tally.states[number] == INACTIVE else block.holder, block.size)


def _by_stack(held: Sequence[_Block]) -> dict[int, list[_Block]]:
    """The blocks of each stack; those without one apart by who holds them."""
    found: dict[int, list[_Block]] = defaultdict(list)
    for block in held:
        found[block.stack if block.stack >= 0 else -1 - (block.holder == BACKWARD)].append(block)
    return found


def _holdings(held: Sequence[_Block]) -> tuple[Holding, ...]:
    """What each holder has, the largest first."""
    sizes: Counter[str] = Counter()
    blocks: Counter[str] = Counter()
    for block in held:
        sizes[block.holder] += block.size
        blocks[block.holder] += 1
    return tuple(Holding(holder, size, blocks[holder]) for holder, size in sizes.most_common())


def _serves(segment: Segment, failure: Failure) -> bool:
    """Whether the request could be taken from this segment: its pool's kind, its stream, and no private pool."""
    return (
        segment.pool == (0, 0)
        and segment.is_large == (failure.size > SMALL)
        and failure.stream in (None, segment.stream)
    )


def _troughs(points: Sequence[tuple[int, int]]) -> list[int]:
    """The entries at which what is allocated ends a fall, along the line from the first point to the last."""
    if len(points) < CYCLES:
        return []
    (begin, low), (end, high) = points[0], points[-1]
    slope = (high - low) / max(end - begin, 1)
    level = [(entry, net - slope * (entry - begin)) for entry, net in points]
    swing = SWING * (max(net for _, net in level) - min(net for _, net in level))
    found: list[int] = []
    peak, trough, falls = level[0][1], level[0], False
    for entry, net in level:
        if falls:
            trough = min(trough, (entry, net), key=lambda point: point[1])
            if net > trough[1] + swing:
                found.append(trough[0])
                peak, falls = net, False
        else:
            peak = max(peak, net)
            if net < peak - swing:
                trough, falls = (entry, net), True
    return found


def _gathered(pieces: Sequence[Piece], least: int) -> Iterator[Piece]:
    """Neighbours together until they can be seen; the largest of them gives them its name."""
    sizes: Counter[str] = Counter()
    for piece in pieces:
        if sizes and piece.holder not in sizes and sizes.total() >= least:
            yield _together(sizes)
            sizes = Counter()
        sizes[piece.holder] += piece.bytes
    if sizes:
        yield _together(sizes)


def _together(sizes: Counter[str]) -> Piece:
    return Piece(sizes.most_common(1)[0][0], sizes.total())


def shown(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The frames that tell most: those of the program itself first, else the innermost ones."""
    own = [frame for frame in frames if not _is_machinery(frame.file)]
    return tuple(_safe(f"{_short(frame.file)}:{frame.line} {frame.name}") for frame in (own or frames)[:MOST_FRAMES])


def _is_machinery(file: str) -> bool:
    file = file.replace("\\", "/")
    inside = next((file.rpartition(folder)[2] for folder in _INSTALLED if folder in file), file)
    return inside.startswith(_MACHINERY) or any(name in inside for name in _MACHINERY[1:])


def _short(file: str) -> str:
    """A path from where packages are installed, or its last three names."""
    file = file.replace("\\", "/")
    inside = next((file.rpartition(folder)[2] for folder in _INSTALLED if folder in file), None)
    return inside if inside is not None else "/".join(file.split("/")[-3:])


def _settings(settings: Mapping[str, Any]) -> str:
    """As they were set. What is no text may be anything."""
    values = (settings.get(name) for name in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"))
    return next((_safe(value) for value in values if type(value) is str and value), "")


def _safe(text: str) -> str:
    text = " ".join(sanitize(text[: 4 * LONGEST]).split())
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
