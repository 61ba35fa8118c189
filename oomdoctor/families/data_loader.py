"""PyTorch's DataLoader workers and shared memory in /dev/shm."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeath(Event):
    """A DataLoader worker was killed or vanished; nothing printed says why."""

    family = "data_loader"
    kind = "worker-death"

    pool: str = "host_ram"
    strength: int = 1

    signal: str | None = None  # in the message's words: "Killed"
    pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedMemoryFull(Event):
    """/dev/shm is full: an allocation in it was refused, or a worker touched a page that it had no room for."""

    family = "data_loader"
    kind = "shm-full"

    pool: str = "shm"
    strength: int = 3

    tried_bytes: int | None = usage()
    errno: int | None = None
    pids: tuple[int, ...] = ()
    user: str | None = None  # who asked for the segment: "torch", "nccl", "python"
