"""Signs that the GPU allocator is short but goes on: refused and retried requests, flushed caches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, Usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.families.sentences import bytes_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class AllocatorPressure(Event, frozen=True, kw_only=True):
    """The allocator got over it: context for a failure, and no failure by itself."""

    family = "cuda_warning"
    kind = "allocator-pressure"

    role: Role = "context"
    pool: str = "gpu"
    strength: int = 1

    tried_bytes: Usage[int | None] = None
    free_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    code: int | None = None  # the number of the error, where the driver of an embedded GPU prints it
    retries: int | None = None  # torchtitan's count
    cache_flushes: int | None = None  # DeepSpeed's count
    oom_errors: int | None = None  # torchtitan's count of requests that failed for good (and were caught)


_SIZES = {"tried": "tried_bytes", "free": "free_bytes", "total": "total_bytes"}
_COUNTS = {"retries": "retries", "flushes": "cache_flushes", "thrown": "oom_errors"}
_CHARACTERS = 600
# torch_memory_saver keeps a margin free; what it refuses, the allocator's own sentence tells again
_SAVER = late(r"TorchMemorySaver::malloc return OOM since .{0,80}size=(\d{1,20}) free_bytes=(\d{1,20})")
# Tegra's driver; 12 is ENOMEM
_NVMAP = late(r"NvMapMemAllocInternalTagged: (\d{1,20}) error (12)\b")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if match := _SAVER.search(line.text[:_CHARACTERS]):
        place = place_of(page, line)
        process = process_of(line)
        yield AllocatorPressure(
            at=place, time=line.mark.time, process=process, tried_bytes=int(match[1]), free_bytes=int(match[2])
        )
        return
    if match := _NVMAP.search(line.text[:_CHARACTERS]):
        place, tried, code = place_of(page, line), int(match[1]), int(match[2])
        process = process_of(line)
        yield AllocatorPressure(at=place, time=line.mark.time, process=process, tried_bytes=tried, code=code)
        return
    figures: dict[str, Any] = {}
    gpu = None
    for name, values in grammars.clauses("cuda_warning", line.text[:_CHARACTERS]):
        if name in _SIZES and values and (size := bytes_of(values[0])) is not None:
            figures[_SIZES[name]] = size
        elif name in _COUNTS:
            figures[_COUNTS[name]] = int(values[0])
        elif name == "gpu" and values:
            gpu = int(values[0])
    if not figures:
        return
    place = place_of(page, line)
    yield AllocatorPressure(
        at=place,
        time=line.mark.time,
        process=process_of(line, gpu),
        **figures,
    )
    yield Lookalike(place, mark("a warning: the allocator frees its cache and tries again"))


FAMILY = Family(
    name="cuda_warning",
    anchors=("OOM", "memory allocation retries", "allocator cache flushes"),
    triggers=(
        "failed with OOM on device",
        "CUDA memory allocation retries",
        "pytorch allocator cache flushes",
        "CUDA OOM errors thrown",
        "TorchMemorySaver::malloc return OOM",
        "NvMapMemAllocInternalTagged: ",
    ),
    read=read,
)
