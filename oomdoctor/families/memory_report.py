"""What trainers print of their own memory: DeepSpeed's see_memory_usage, Megatron's and torchtitan's reports, and
estimates made before anything is allocated. Figures, never failures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.sentences import bytes_of, count_of, number_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

CHARACTERS: Final = 1200
ESTIMATE_LINES: Final = 12


class MemoryReport(Event, frozen=True, kw_only=True):
    """The memory of one process's GPU, and of its whole node, at a named place in the program."""

    family = "memory_report"
    kind = "memory-report"

    role: Role = "context"
    pool: str = "gpu"

    reporter: str  # "deepspeed", "megatron", "torchtitan"
    allocated_bytes: Usage[int | None] = None
    max_allocated_bytes: Usage[int | None] = None  # DeepSpeed sets it back at each report
    reserved_bytes: Usage[int | None] = None
    max_reserved_bytes: Usage[int | None] = None  # DeepSpeed rounds it to whole GiB
    device_used_bytes: Usage[int | None] = None
    host_used_bytes: Usage[int | None] = None  # of the whole node
    host_used_fraction: Usage[float | None] = None
    iterations: int | None = None


class EstimateRow(Struct, frozen=True, kw_only=True):
    """What a kind of offload is said to need; the host's figure is for the whole node."""

    host_bytes: int | None
    gpu_bytes: int | None
    options: str


class MemoryEstimate(Event, frozen=True, kw_only=True):
    """What a job is expected to need, by arithmetic: evidence of nothing that happened."""

    family = "memory_report"
    kind = "memory-estimate"

    role: Role = "context"
    pool: str = "gpu"

    reporter: str
    weights_and_optimizer_bytes: int | None = None
    activation_bytes: int | None = None
    total_bytes: int | None = None
    nodes: int | None = None
    gpus_per_node: int | None = None
    params_millions: int | None = None
    largest_layer_millions: int | None = None
    estimates: tuple[EstimateRow, ...] = ()


_SIZES: Final = {
    "allocated": "allocated_bytes", "max_allocated": "max_allocated_bytes",
    "reserved": "reserved_bytes", "max_reserved": "max_reserved_bytes",
    "host_used": "host_used_bytes", "peak": "max_reserved_bytes",
    "weights_and_optimizer": "weights_and_optimizer_bytes", "activation": "activation_bytes",
    "theoretical_total": "total_bytes",
}  # fmt: skip
_MIB_SIZES: Final = {
    "mb_allocated": "allocated_bytes", "mb_max_allocated": "max_allocated_bytes",
    "mb_reserved": "reserved_bytes", "mb_max_reserved": "max_reserved_bytes", "mb_device_used": "device_used_bytes",
}  # fmt: skip
_COUNTS: Final = {
    "rank": "rank", "iterations": "iterations", "nodes": "nodes", "gpus": "gpus_per_node",
    "params": "params_millions", "layer_params": "largest_layer_millions",
}  # fmt: skip

_DEEPSPEED: Final = late(r"(?:^|[\s\]|>:])MA -?\d[\d.]{0,20} GB\s{1,20}Max_MA ")
_HOST: Final = late(r"\bCPU Virtual Memory:\s{1,4}used = ")
_MEGATRON: Final = late(r"memory \(MB\) \| allocated: \d")
_TITAN: Final = late(r"\bstep:\s{1,8}\d{1,9}\b.{1,200}\bmemory:\s{1,4}\d[\d.]{0,8}GiB\(")
_THEORY: Final = late(r"Theoretical memory footprints: .{0,10}weight and optimizer=\d")
_ESTIMATE: Final = late(r"^\s{0,4}Estimated memory needed for params, optim states and gradients for a:")
_ESTIMATE_ROW: Final = late(r"^\s{0,8}(?:HW: |SW: |per CPU |[\d.]{1,12}GB \|)")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    text = line.text[:CHARACTERS]
    if _DEEPSPEED.search(text):
        yield _deepspeed(page, index)
    elif _MEGATRON.search(text):
        yield _report(page, [line], "megatron")
    elif _TITAN.search(text):
        yield _report(page, [line], "torchtitan")
    elif _THEORY.search(text):
        figures = _of(MemoryEstimate, _figures([line]))
        yield MemoryEstimate(at=place_of(page, line), time=line.mark.time, reporter="megatron", **figures)
    elif _ESTIMATE.match(text):
        yield _estimate(page, index)


def _deepspeed(page: Page, index: int) -> Read:
    """Three lines: what the program says, the GPU, the node. Up to 0.18.2 each is logged with its own prefix."""
    gpu = page.lines[index]
    said = [line for line in page.before(index, 1) if line.text.strip() and _is_title(line, gpu)]
    below = [line for line in page.after(index, 2)[1:] if _HOST.search(line.text)]
    return _report(page, [*said, gpu, *below], "deepspeed")


def _is_title(line: Line, gpu: Line) -> bool:
    function = (gpu.mark.source or "").rpartition(":")[2]
    return (line.mark.source or "").rpartition(":")[2] == function and not _HOST.search(line.text)


def _report(page: Page, lines: Sequence[Line], reporter: str) -> Read:
    figures = _figures(lines if reporter != "deepspeed" else [line for line in lines if _of_figures(line)])
    first = lines[0]
    mark = first.mark
    return MemoryReport(
        at=place_of(page, first, lines[-1]),
        time=mark.time,
        process=Process(pid=mark.pid, name=mark.name, rank=figures.pop("rank", mark.rank), node=mark.ip),
        reporter=reporter,
        **_of(MemoryReport, figures),
    )


def _of_figures(line: Line) -> bool:
    return bool(_DEEPSPEED.search(line.text) or _HOST.search(line.text))


def _estimate(page: Page, index: int) -> Read:
    lines = page.after(index, ESTIMATE_LINES)
    last = 1
    while last < len(lines) and _ESTIMATE_ROW.match(lines[last].text):
        last += 1
    return MemoryEstimate(
        at=place_of(page, lines[0], lines[last - 1]),
        time=lines[0].mark.time,
        pool="none",
        reporter="deepspeed",
        **_of(MemoryEstimate, _figures(lines[:last])),
    )


def _of(kind: type[Event], figures: dict[str, Any]) -> dict[str, Any]:
    """Those that this kind of message has: several may stand on one line."""
    return {name: value for name, value in figures.items() if name in kind.__struct_fields__}


def _figures(lines: Sequence[Line]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    rows: list[EstimateRow] = []
    for name, values in grammars.said("memory_report", " ".join(line.text for line in lines)[:CHARACTERS]):
        if not values:
            continue
        if name == "estimate":
            host, gpu, options = (cell.strip() for cell in values[0].split("|"))
            rows.append(EstimateRow(host_bytes=bytes_of(host), gpu_bytes=bytes_of(gpu), options=options))
        elif name in _SIZES:
            figures.setdefault(_SIZES[name], bytes_of(values[0]))
        elif name in _MIB_SIZES:
            figures.setdefault(_MIB_SIZES[name], bytes_of(values[0], "MiB"))
        elif name in _COUNTS:
            figures.setdefault(_COUNTS[name], count_of(values[0].rstrip("M")))
        elif name == "host_percent":
            percent = number_of(values[0])
            figures.setdefault("host_used_fraction", round(percent / 100, 6) if percent is not None else None)
    return {**figures, "estimates": tuple(rows)} if rows else figures


FAMILY = Family(
    name="memory_report",
    anchors=("params, optim states and gradients for a:",),
    triggers=(
        "Max_MA",
        "memory (MB) | allocated",
        "Theoretical memory footprints",
        "params, optim states and gradients for a:",
        "GiB(",
    ),
    read=read,
)
