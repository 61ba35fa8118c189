"""Makes snapshots as PyTorch 2.0 to 2.14 write them: a small caching allocator with a trace, and two picklers."""

from __future__ import annotations

import pickle
import struct
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

KIB, MIB, GIB = 1024, 1024**2, 1024**3
TORCH = "/usr/lib/python3/site-packages/torch/"

Frames = list[dict[str, Any]]


class Stacks:
    """Frames and lists of frames; equal frames are one object, as PyTorch's are."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str, int], dict[str, Any]] = {}

    def __call__(self, *frames: str) -> Frames:
        """From "file:line name", the innermost first: a list of its own each time."""
        return [self._frame(frame) for frame in frames]

    def _frame(self, frame: str) -> dict[str, Any]:
        place, _, name = frame.partition(" ")
        file, _, line = place.rpartition(":")
        key = name, file, int(line)
        return self._frames.setdefault(key, {"name": name, "filename": file, "line": int(line)})


LOOP = ("/job/train.py:90 train", "/job/train.py:200 <module>")
FORWARD = (f"{TORCH}nn/modules/linear.py:125 forward", f"{TORCH}nn/modules/module.py:1750 _call_impl",
           "/job/model.py:31 forward", f"{TORCH}nn/modules/module.py:1750 _call_impl", *LOOP)  # fmt: skip
BACKWARD = (f"{TORCH}autograd/graph.py:824 _engine_run_backward", f"{TORCH}_tensor.py:648 backward", *LOOP)
STATES = (f"{TORCH}optim/adam.py:185 _init_group", f"{TORCH}optim/adam.py:233 step", *LOOP)
STEP = (f"{TORCH}optim/adam.py:630 _multi_tensor_adam", f"{TORCH}optim/adam.py:233 step", *LOOP)
WEIGHTS = (f"{TORCH}nn/modules/module.py:1340 convert", f"{TORCH}nn/modules/module.py:927 _apply",
           f"{TORCH}nn/modules/module.py:1355 to", "/job/train.py:20 load", "/job/train.py:190 <module>")  # fmt: skip
BATCH = ("/usr/lib/python3/site-packages/transformers/trainer.py:3600 _prepare_input", *LOOP)
LOSS = (f"{TORCH}nn/functional.py:3458 cross_entropy", "/job/model.py:60 loss", *LOOP)
KEPT = ("/job/metrics.py:12 remember", *LOOP)


class Allocator:
    """Hands out addresses and writes the trace; where the blocks lie, its caller says."""

    def __init__(self, release: tuple[int, int] = (2, 13), *, device: int = 0, stacks: Stacks | None = None) -> None:
        self.release = release
        self.device = device
        self.stacks = stacks or Stacks()
        self.segments: list[dict[str, Any]] = []
        self.trace: list[dict[str, Any]] = []
        self._top = 0x7F0000000000
        self._time = 1_763_000_000_000_000

    def segment(self, size: int, *, stream: int = 0, pool: tuple[int, int] = (0, 0)) -> dict[str, Any]:
        """A new segment, wholly free."""
        segment: dict[str, Any] = {
            "device": self.device,
            "address": self._top,
            "total_size": size,
            "allocated_size": 0,
            "active_size": 0,
            "stream": stream,
            "segment_type": "large" if size > 2 * MIB else "small",
            "segment_pool_id": pool,
            "blocks": [],
        }
        if self.release >= (2, 0):
            segment["requested_size"] = 0
        if self.release >= (2, 1):
            segment["is_expandable"] = False
        if self.release >= (2, 2):
            segment["frames"] = []
        self._top += size
        self.segments.append(segment)
        return segment

    def block(
        self, segment: dict[str, Any], size: int, frames: Sequence[str] | None, state: str = "active_allocated",
        *, asked: int | None = None, address: int | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """The next block of a segment; free where it has no stack."""
        used = sum(block["size"] for block in segment["blocks"])
        listed = self.stacks(*frames) if frames else []
        block: dict[str, Any] = {"size": size, "requested_size": asked or size}
        block["state"] = "inactive" if frames is None else state
        if self.release >= (2, 1):
            block = {"address": address or segment["address"] + used, **block, "frames": listed}
        elif frames:
            block["history"] = [{"addr": segment["address"] + used, "real_size": asked or size, "frames": listed}]
        segment["blocks"].append(block)
        if block["state"] != "inactive":
            segment["active_size"] += size
        if block["state"] == "active_allocated":
            segment["allocated_size"] += size
        return block

    def entry(self, action: str, size: int, frames: Sequence[str] | Frames = (), **more: Any) -> dict[str, Any]:
        """An entry of the trace."""
        self._time += 17
        entry: dict[str, Any] = {"action": action, **more}
        if action != "oom":
            entry.setdefault("addr", 0)
        entry |= {"size": size, "stream": 0}
        if self.release >= (2, 2):
            entry["time_us"] = self._time
        listed = self.stacks(*frames) if not isinstance(frames, list) else frames
        entry["frames"] = listed
        if self.release >= (2, 8):
            entry["compile_context"] = "".join(["N", "/A"])  # not the same string each time
        if self.release >= (2, 10):
            entry["user_metadata"] = ""
        if self.release >= (2, 11):
            entry["pool_id"] = (0, len(self.trace) * 0)
        self.trace.append(entry)
        return entry

    def take(self, address: int, size: int, frames: Sequence[str]) -> None:
        self.entry("alloc", size, frames, addr=address)

    def give(self, address: int, size: int) -> None:
        self.entry("free_requested", size, addr=address)
        self.entry("free_completed", size, addr=address)

    def snapshot(self, *, settings: str = "") -> dict[str, Any]:
        """As `torch.cuda.memory._snapshot()` returns it."""
        for segment in self.segments:
            left = segment["total_size"] - sum(block["size"] for block in segment["blocks"])
            if left:
                self.block(segment, left, None)
        traces: list[list[dict[str, Any]]] = [[] for _ in range(self.device + 1)]
        traces[self.device] = self.trace
        found: dict[str, Any] = {"segments": self.segments, "device_traces": traces}
        if self.release >= (2, 2):
            found["allocator_settings"] = {
                "PYTORCH_CUDA_ALLOC_CONF": settings,
                "max_split_size": -1,
                "garbage_collection_threshold": 0.0,
                "expandable_segments": "expandable_segments:True" in settings,
                "roundup_power2_divisions": {"1": 0, "2": 0},
            }
        if self.release >= (2, 5):
            found["external_annotations"] = [{"device": self.device, "time_us": 5, "stage": "START", "name": "step"}]
        if self.release >= (2, 14):
            pinned = Allocator((2, 13), stacks=self.stacks)
            segment = pinned.segment(5 * GIB)
            for _ in range(3):
                pinned.take(segment["address"], 5 * GIB, BATCH)
            pinned.block(segment, 5 * GIB, BATCH)
            found |= {"host_segments": pinned.segments, "host_traces": [pinned.trace]}
        return found


def filled(
    holders: Iterable[tuple[Sequence[str], int, int]],
    *,
    request: int = 0,
    asker: Sequence[str] = FORWARD,
    free: int = 0,
    holes: Sequence[int] = (),
    release: tuple[int, int] = (2, 13),
    device: int = 0,
) -> Allocator:
    """A GPU whose blocks are of these stacks (stack, bytes each, how many), whose holes lie between them, and of which
    a request failed."""
    allocator = Allocator(release, device=device)
    left = list(holes)
    for frames, size, count in holders:
        for _ in range(count):
            hole = left.pop() if left else 0
            segment = allocator.segment(size + hole)
            allocator.take(segment["address"], size, frames)
            allocator.block(segment, size, frames)
            if hole:
                allocator.block(segment, hole, None)
    if request:
        allocator.entry("oom", request, asker, device_free=free)
    return allocator


def steps(count: int, *, leak: int = 0, work: int = GIB, kept: Sequence[str] = KEPT) -> Allocator:
    """A job that takes and gives back the same in each step, and perhaps keeps something of each."""
    allocator = filled([(WEIGHTS, GIB, 4), (STATES, GIB, 2)])
    base = 0x600000000000
    for step in range(count):
        places = [(base + number * work, work // 8) for number in range(8)]
        for address, size in places:
            allocator.take(address, size, FORWARD)
        if leak:
            segment = allocator.segment(leak)
            allocator.take(segment["address"], leak, kept)
            allocator.block(segment, leak, kept)
        for address, size in reversed(places):
            allocator.take(address + work // 2, size // 2, BACKWARD)
            allocator.give(address, size)
        for address, size in places:
            allocator.give(address + work // 2, size // 2)
        allocator.entry("snapshot", step)
    return allocator


class TorchScriptPickler:
    """As PyTorch's C++ writes a snapshot: protocol 2, and the place in the memo behind the content.

    Containers that nothing else holds have no place: a stack and its row are held by what found it, and all empty
    stacks are one.
    """

    def __init__(self) -> None:
        self._empty: list[Any] = []
        self._parts = [b"\x80\x02"]
        self._places: dict[Any, int] = {}
        self._uses: Counter[int] = Counter()

    def dumps(self, value: Any) -> bytes:
        self._count(value)
        self._write(value)
        return b"".join([*self._parts, b"."])

    def _count(self, value: Any) -> None:
        if isinstance(value, (dict, list)):
            self._uses[id(value)] += 1
            if self._uses[id(value)] == 1:
                for part in value.values() if isinstance(value, dict) else value:
                    self._count(part)

    def _is_shared(self, value: Any) -> bool:
        has_stack = isinstance(value, dict) and bool(value.get("frames"))
        is_stack = isinstance(value, list) and (not value or "filename" in value[0])
        return isinstance(value, str) or has_stack or is_stack or self._uses[id(value)] > 1

    def _write(self, value: Any) -> None:
        value = self._empty if value == [] else value
        key = value if isinstance(value, str) else id(value)
        if key in self._places and isinstance(value, (str, dict, list)):
            self._refer(self._places[key])
            return
        if isinstance(value, bool):
            self._parts.append(b"\x88" if value else b"\x89")
        elif isinstance(value, int):
            self._integer(value)
        elif isinstance(value, float):
            self._parts.append(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            raw = value.encode()
            self._parts.append(b"X" + struct.pack("<I", len(raw)) + raw)
        elif isinstance(value, tuple):
            self._items(value, b"", b"\x86")
        elif isinstance(value, list):
            self._items(value, b"](", b"e")
        elif isinstance(value, dict):
            self._items([part for pair in value.items() for part in pair], b"}(", b"u")
        if isinstance(value, (str, dict, list)) and self._is_shared(value):
            self._places[key] = len(self._places)
            place = self._places[key]
            self._parts.append(b"q" + bytes([place]) if place < 256 else b"r" + struct.pack("<I", place))

    def _items(self, items: Sequence[Any], begin: bytes, end: bytes) -> None:
        self._parts.append(begin)
        for item in items:
            self._write(item)
        self._parts.append(end)

    def _refer(self, place: int) -> None:
        self._parts.append(b"h" + bytes([place]) if place < 256 else b"j" + struct.pack("<I", place))

    def _integer(self, value: int) -> None:
        if 0 <= value < 256:
            self._parts.append(b"K" + bytes([value]))
        elif 0 <= value < 65536:
            self._parts.append(b"M" + struct.pack("<H", value))
        elif -(2**31) <= value < 2**31:
            self._parts.append(b"J" + struct.pack("<i", value))
        else:
            self._parts.append(b"\x8a\x08" + struct.pack("<q", value))


def dumped(allocator: Allocator, protocol: int = 4, **more: Any) -> bytes:
    """The bytes of `_dump_snapshot`; protocol 0 stands for C++'s own."""
    snapshot = allocator.snapshot(**more)
    return TorchScriptPickler().dumps(snapshot) if protocol == 0 else pickle.dumps(snapshot, protocol)
