"""The GPU allocator's "out of memory" sentence, from PyTorch 1.0 to 2.13, on every kind of device it knows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Place, Process, Read, Role, usage
from oomdoctor.streams import Page
from oomdoctor.units import BINARY, size

# Long enough for the longest generation with a dozen "Process ... has" clauses, wrapped at 80 columns.
SENTENCE_LINES = 24
SENTENCE_CHARACTERS = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherProcess:
    """One "Process 12504 has 14.34 GiB memory in use": in containers this may be the process itself."""

    pid: int
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOutOfMemory(Event):
    """One refused allocation, with what the allocator printed about the card."""

    family = "cuda"
    kind = "out-of-memory"

    pool: str = "gpu"
    strength: int = 3

    device: str  # CUDA, HIP, XPU, DPCPP, NPU, MPS, MUSA, MLU, HPU
    tried_bytes: int | None = usage()
    free_bytes: int | None = usage()
    total_bytes: int | None = usage()
    in_use_bytes: int | None = usage()  # this process, with what is not PyTorch's
    allocated_bytes: int | None = usage()
    reserved_bytes: int | None = usage()
    unallocated_bytes: int | None = usage()
    private_pools_bytes: int | None = usage()
    allowed_bytes: int | None = usage()
    cached_bytes: int | None = usage()
    active_bytes: int | None = usage()
    other_allocations_bytes: int | None = usage()  # MPS: what the Mac holds outside PyTorch
    # What was hit where it is not the card: "fraction", "per-allocation", "watermark"
    limit: str | None = None
    backend: str | None = None  # "cudaMallocAsync", "workspace": where the sentence is not the caching allocator's
    more_than_1eb: bool | None = None
    others: tuple[OtherProcess, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorAdvice(Event):
    """The hint at the end of the sentence. It is printed always, so it is evidence of nothing."""

    family = "cuda"
    kind = "allocator-advice"

    role: Role = "advice"
    pool: str = "gpu"

    advises: str  # "max_split_size_mb", "expandable_segments:True", "PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0", ...


# The tree's node names under which a figure stands, by the field that holds it.
_FIELDS = {
    "tried": "tried_bytes",
    "total": "total_bytes", "capacity": "total_bytes",
    "free": "free_bytes", "available": "free_bytes",
    "own": "in_use_bytes",
    "allocated": "allocated_bytes", "already": "allocated_bytes",
    "reserved": "reserved_bytes",
    "cached": "cached_bytes",
    "unallocated": "unallocated_bytes",
    "private": "private_pools_bytes",
    "allowed": "allowed_bytes",
}  # fmt: skip

_SIZE = re.compile(r"(-?[\d,.]+)\s*(\w+)")
_HEAD = re.compile(r"\b(CUDA|HIP|XPU|NPU|MUSA|MLU|DPCPP) out of memory\b")


def read(page: Page, index: int) -> Iterator[Read]:
    head = _HEAD.search(page.lines[index].text)
    if head is None:
        return
    lines = page.after(index, SENTENCE_LINES)
    sentence = " ".join([lines[0].text[head.start() :], *(line.text.strip() for line in lines[1:])])
    tree = grammars.parse("cuda", sentence[:SENTENCE_CHARACTERS])
    if tree is None:
        return
    first = lines[0]
    figures: dict[str, Any] = {}
    others: list[OtherProcess] = []
    gpu = None
    for name, values in grammars.clauses(tree):
        if name in _FIELDS and values:
            figures.setdefault(_FIELDS[name], _bytes(values[-1]))
        elif name == "process":
            others.append(OtherProcess(pid=int(values[0]), bytes=_bytes(values[1]) if len(values) > 1 else None))
        elif name == "gpu" and values:
            gpu = int(values[0])
    yield DeviceOutOfMemory(
        at=Place(page.file, first.number, first.end, first.raw),
        time=first.mark.time,
        process=Process(pid=first.mark.pid, name=first.mark.name, rank=first.mark.rank, node=first.mark.ip, gpu=gpu),
        device=head[1],
        others=tuple(others),
        **figures,
    )


def _bytes(text: str) -> int | None:
    match = _SIZE.match(text)
    return size(match[1], match[2], BINARY) if match else None


FAMILY = Family(
    name="cuda",
    anchors=("out of memory", "OutOfMemoryError"),
    triggers=("out of memory",),
    read=read,
)
