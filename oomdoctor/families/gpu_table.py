"""What any vendor's tool says of its GPUs: the event, and the parts that the readers of the tools share."""

from __future__ import annotations

from msgspec import Struct

from oomdoctor.families.event import Event, Role


class Card(Struct, frozen=True, kw_only=True):
    gpu: int | None
    used_bytes: int | None
    total_bytes: int | None
    mig: str | None = None  # of a slice: its instance, "1/0"


class CardProcess(Struct, frozen=True, kw_only=True):
    gpu: int | None
    pid: int
    name: str
    used_bytes: int | None


class GpuTable(Event, frozen=True, kw_only=True):
    """One print of the table, or of a list."""

    family = "nvidia_smi"
    kind = "gpu-table"

    role: Role = "context"
    pool: str = "gpu"

    tool: str | None = None  # "rocm-smi", "amd-smi", "npu-smi", "xpu-smi"; None: one of NVIDIA's
    cards: tuple[Card, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    # An empty body is "cannot see them" (another container's), "No running processes found" is "there are none"
    processes_hidden: bool | None = None


class Found(Struct, frozen=True, kw_only=True):
    """What a reader took from a print."""

    end: int
    cards: tuple[Card, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    hidden: bool | None = None
    tool: str | None = None
    time: str | None = None
