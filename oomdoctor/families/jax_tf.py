"""Memory failures of JAX, TensorFlow and Paddle: XLA's RESOURCE_EXHAUSTED, the BFC allocator, TPU programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Place, Process, Read, usage
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.streams import Page
from oomdoctor.units import BINARY, size


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrayOutOfMemory(Event):
    """JAX, TensorFlow or Paddle could not get memory for an array or a program."""

    family = "jax_tf"
    kind = "array-out-of-memory"

    pool: str = "gpu"  # "host_ram" where the allocator is the CPU's
    strength: int = 3

    framework: str  # jax, tensorflow, paddle
    tried_bytes: int | None = usage()
    used_bytes: int | None = usage()
    free_bytes: int | None = usage()
    total_bytes: int | None = usage()
    exceeded_bytes: int | None = usage()
    # What the allocator states below it: its limit, what is in use, its largest request
    limit_bytes: int | None = usage()
    in_use_bytes: int | None = usage()
    largest_bytes: int | None = usage()
    # What a TPU's program consists of
    reserved_bytes: int | None = usage()
    program_bytes: int | None = usage()
    arguments_bytes: int | None = usage()
    # XLA's account of a program: beside its arguments, what it works with and gives back, and the sum
    temporary_bytes: int | None = usage()
    outputs_bytes: int | None = usage()
    needed_bytes: int | None = usage()
    # TensorFlow's pool: what it has of the driver, and how much it may still take
    region_bytes: int | None = usage()
    available_bytes: int | None = usage()
    shape: str | None = None
    dtype: str | None = None
    allocator: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationProbe(Event):
    """The card was fuller than expected: TensorFlow asks for less and less at its start, XLA reports the rest.

    A hint: TensorFlow goes on with what it gets.
    """

    family = "jax_tf"
    kind = "allocation-probe"

    pool: str = "gpu"
    strength: int = 1

    tried_bytes: int | None = usage()
    free_bytes: int | None = usage()
    total_bytes: int | None = usage()


# XLA's and TensorFlow's units: "16.00GiB", "372.76MiB", TPU's bare "21.95G"; all binary.
_AMOUNT = r"[\d.]{1,20}\s?[KMGT](?:iB|B)?|\d{1,20}\s?(?:bytes|B)"
_HBM = (
    rf"memory space hbm\. Used (?P<used>{_AMOUNT}) of (?P<total>{_AMOUNT}) hbm\."
    rf"(?: Exceeded hbm capacity by (?P<exceeded>{_AMOUNT})\b)?"
)
_XLA = rf"(?i:resource.exhausted): Out of memory (?:while trying to allocate|allocating) (?P<tried>{_AMOUNT})"
_TENSOR = (
    r"OOM when allocating tensor with shape ?(?P<shape>\[[\d,]{0,200}\])(?: and type (?P<dtype>\w{1,20}))?"
    r"(?:.{0,200}? by allocator (?P<allocator>\w{1,60}))?"
)
_BFC = rf"Allocator \((?P<allocator>\w{{1,60}})\) ran out of memory trying to allocate (?P<tried>{_AMOUNT})"
_PADDLE = (
    rf"Out of memory error on GPU \d{{1,3}}\. Cannot allocate (?P<tried>{_AMOUNT}) memory on GPU \d{{1,3}}"
    rf"(?:, (?P<used>{_AMOUNT}) memory has been allocated and available memory is only (?P<free>{_AMOUNT}))?"
)
_FAILURES = tuple(
    (framework, late(pattern))
    for framework, pattern in (
        ("jax", _HBM),
        ("jax", rf"Attempting to (?:reserve|allocate) (?P<tried>{_AMOUNT}).{{0,60}}That was not possible"),
        ("jax", _XLA),
        ("jax", rf"Failed to allocate request for [\d.]{{1,20}}\w{{1,3}} \((?P<tried>{_AMOUNT})\) on device ordinal"),
        ("jax", rf"cuMemAllocAsync failed to allocate (?P<tried>{_AMOUNT})"),
        ("tensorflow", _TENSOR),
        ("tensorflow", _BFC),
        ("paddle", _PADDLE),
        ("tensorflow", rf"failed to alloc (?P<tried>{_AMOUNT}) on (?P<pinned>host)"),
        ("tensorflow", r"could not allocate (?P<pinned>pinned) host memory of size: (?P<tried>\d{1,20})"),
    )
)
_PROBES = (
    late(
        rf"failed to allocate [\d.]{{1,20}}\w{{1,3}} \((?P<tried>{_AMOUNT})\) from device: (?:CUDA_ERROR_OUT|hipError)"
    ),
    late(rf"Memory usage: (?P<free>{_AMOUNT}) free, (?P<total>{_AMOUNT}) total"),
)
_HARMLESS = late(r"caller indicates that this is not a failure|memory space (?:vmem|smem)")
_CPU = late(r"CpuDevice\(|TFRT_CPU|(?i:jax_platforms?(?:_name)?)\W{1,4}cpu\b")
# The allocator's and the compiler's own accounts, one figure per line
_BELOW = (
    ("limit", late(r"(?:^|Stats: )\s{0,8}Limit:\s{1,60}(\d{1,20})\b")),
    ("in_use", late(r"^\s{0,8}InUse:\s{1,60}(\d{1,20})\b")),
    ("largest", late(r"^\s{0,8}MaxAllocSize:\s{1,60}(\d{1,20})\b")),
    ("free", late(r"Free memory/Total memory: (\d{1,20})/\d")),
    ("total", late(r"Free memory/Total memory: \d{1,20}/(\d{1,20})\b")),
    ("reserved", late(r"^\s{1,12}reserved\s{1,30}([\d.]{1,20}[KMGT]?)\s{0,4}$")),
    ("program", late(r"^\s{1,12}program\s{1,30}([\d.]{1,20}[KMGT]?)\s{0,4}$")),
    ("arguments", late(r"^\s{1,24}parameter allocation:\s{1,12}([\d.]{1,20}\s?[KMGT]?i?B)\s{0,4}$")),
    ("temporary", late(r"^\s{1,24}preallocated temp allocation:\s{1,12}([\d.]{1,20}\s?[KMGT]?i?B)\s{0,4}$")),
    ("outputs", late(r"^\s{1,24}maybe_live_out allocation:\s{1,12}([\d.]{1,20}\s?[KMGT]?i?B)\s{0,4}$")),
    ("needed", late(r"^\s{1,24}total allocation:\s{1,12}([\d.]{1,20}\s?[KMGT]?i?B)\s{0,4}$")),
    ("region", late(r"(?:total_region_allocated_bytes_|Total bytes in pool): (\d{1,20})\b")),
    ("limit", late(r"\bmemory_limit_: (\d{1,20})\b")),
    ("available", late(r"\bavailable bytes: (\d{1,20})\b")),
    ("arguments", late(r"^\s{1,12}arguments\s{1,30}([\d.]{1,20}[KMGT]?)\s{0,4}$")),
)
BELOW_LINES = 60
# A pool's dump lists every chunk before it comes to the sum.
DUMP_LINES = 400
_DUMP_SUM = "Sum Total of in-use chunks:"
_TELLING = ("OOM when", "out of memory", "Out of memory", "ailed to alloc")
_DUMPED_FOR = late(rf"\bBin for (?P<tried>{_AMOUNT}) was\b")
_DUMPED = late(r"\b(\w{0,40}bfc)\b")
_SIZE = late(r"([\d.]{1,40})\s?(\w{0,5})")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:1200]
    if _HARMLESS.search(text):
        return
    mark = line.mark
    place = place_of(page, line)
    process = process_of(line)
    if _DUMP_SUM in text:
        yield from _dump_alone(page, index, place, process)
        return
    for pattern in _PROBES:
        if match := pattern.search(text):
            yield AllocationProbe(at=place, time=mark.time, process=process, **_sizes(match))
            return
    for framework, pattern in _FAILURES:
        if match := pattern.search(text):
            named = match.groupdict()
            allocator = named.get("allocator")
            yield ArrayOutOfMemory(
                at=place,
                time=mark.time,
                process=process,
                pool="host_ram" if _on_cpu(page, index) else _pool(allocator, named.get("pinned")),
                framework=framework,
                shape=named.get("shape"),
                dtype=named.get("dtype"),
                allocator=allocator,
                **{**_below(page, index, match[0]), **_sizes(match)},
            )
            return


def _dump_alone(page: Page, index: int, place: Place, process: Process) -> Iterator[Read]:
    """TensorFlow dumps its pool only when it refuses; here the sentence that says so was not pasted."""
    around = page.lines[max(0, index - DUMP_LINES) : index + DUMP_LINES]
    told = (line.text[:1200] for line in around if any(word in line.text for word in _TELLING))
    if any(pattern.search(text) for text in told for _, pattern in _FAILURES):
        return
    before = [line.text[:400] for line in page.before(index, DUMP_LINES)]
    wanted = next((match for text in reversed(before) if (match := _DUMPED_FOR.search(text))), None)
    named = next((match[1] for text in reversed(before) if (match := _DUMPED.search(text))), None)
    yield ArrayOutOfMemory(
        at=place,
        time=page.lines[index].mark.time,
        process=process,
        pool=_pool(named, None),
        framework="tensorflow",
        allocator=named,
        tried_bytes=_bytes(wanted["tried"]) if wanted else None,
        **_below(page, index, _DUMP_SUM),
    )


def _below(page: Page, index: int, message: str) -> dict[str, Any]:
    """The account that follows the message, up to another one; a limit of 0 is none."""
    found: dict[str, Any] = {}
    for line in page.after(index, BELOW_LINES)[1:]:
        text = line.text[:400]
        if message not in text and any(pattern.search(text) for _, pattern in _FAILURES):
            break
        for name, pattern in _BELOW:
            if (match := pattern.search(text)) and (size_bytes := _bytes(match[1])):
                found.setdefault(f"{name}_bytes", size_bytes)
    return found


def _sizes(match: re.Match[str]) -> dict[str, Any]:
    names = ("tried", "used", "free", "total", "exceeded")
    return {f"{name}_bytes": _bytes(match[name]) for name in names if match.groupdict().get(name)}


def _bytes(text: str) -> int | None:
    match = _SIZE.match(text)
    return size(match[1], match[2], BINARY) if match else None


def _on_cpu(page: Page, index: int) -> bool:
    """JAX's message is the same on every device; the program says which it runs on, or nobody does."""
    return any(_CPU.search(line.text[:400]) for line in page.before(index))


def _pool(allocator: str | None, pinned: str | None) -> str:
    if pinned or (allocator and "host" in allocator.lower()):
        return "pinned"
    return "host_ram" if allocator and "cpu" in allocator.lower() else "gpu"


FAMILY = Family(
    name="jax_tf",
    anchors=("out of memory", "Out of memory", "RESOURCE_EXHAUSTED", "OOM", "ailed to alloc", "in-use chunks:"),
    triggers=(
        "Out of memory error on GPU",
        "RESOURCE_EXHAUSTED: Out of memory",
        "Resource exhausted: Out of memory",
        "memory space hbm",
        "That was not possible",
        "Failed to allocate request for",
        "cuMemAllocAsync failed to allocate",
        "OOM when allocating tensor",
        "ran out of memory trying to allocate",
        "failed to alloc",
        "could not allocate pinned host memory",
        "Memory usage: ",
        _DUMP_SUM,
    ),
    read=read,
)
