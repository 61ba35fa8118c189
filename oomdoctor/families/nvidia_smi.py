"""nvidia-smi's tables: who holds how much of which card. Healthy runs fill their cards, so this is context."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    gpu: int | None
    used_bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CardProcess:
    gpu: int | None
    pid: int
    name: str
    used_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTable(Event):
    """One print of the table, or of a --query-gpu / --query-compute-apps list."""

    family = "nvidia_smi"
    kind = "gpu-table"

    role: Role = "context"
    pool: str = "gpu"

    cards: tuple[Card, ...] = ()
    processes: tuple[CardProcess, ...] = ()
    # An empty body is "cannot see them" (another container's), "No running processes found" is "there are none"
    processes_hidden: bool | None = None
