"""What `oomdoctor run` recorded beside a job: how it ended, what the kernel counted meanwhile, who held how much.

A kill is proven by the kernel's own counter, which rose in the job's cgroup while the job ran. What the last sample
shows of the victim is what it held then, not at the kill.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from oomdoctor.families.event import Event, Role, Threshold, Usage
from oomdoctor.families.kernel import KernelKill

SHELLS: Final = 128  # what a shell adds to the number of a signal
PYTHONS: Final = 256  # what is left of a negative number in eight bits


def signal_of(status: int | None, signal: int | None) -> int | None:
    """The signal that ended the job, or a process whose end a shell or a launcher passed on."""
    status = status or 0
    passed_on = status - SHELLS if SHELLS < status < SHELLS + 32 else PYTHONS - status
    return signal or (passed_on if 0 < passed_on < 32 else None)


class Growth(Struct, frozen=True, kw_only=True):
    """A process at its first sample and at the one where it was largest."""

    pid: int
    name: str
    first_bytes: int
    most_bytes: int
    seconds: float

    @property
    def bytes(self) -> int:
        return self.most_bytes - self.first_bytes


class FlightRecord(Event, frozen=True, kw_only=True):
    """How a job ended, and what there was of memory."""

    family = "flight_record"
    kind = "flight-record"

    role: Role = "context"
    pool: str = "host_ram"

    status: int | None = None
    signal: int | None = None
    seconds: float | None = None
    used_bytes: Usage[int | None] = None  # of the cgroup, without the cache of files, at the last sample
    peak_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None  # of the machine
    available_bytes: Usage[int | None] = None
    shm_used_bytes: Usage[int | None] = None
    shm_total_bytes: Usage[int | None] = None
    limit_bytes: Threshold[int | None] = None  # the lowest of the cgroups
    address_space_bytes: Threshold[int | None] = None
    kills: int | None = None  # in the job's cgroups; None where no counter can be read
    machine_kills: int | None = None
    sent: tuple[str, ...] = ()
    unfinished: bool = False  # the recorder was killed, too
    memory_was_left: bool = False  # to the last, and the kernel counted no kill
    pids: tuple[int, ...] = ()  # of all its processes, where so few were there that each was sampled

    @property
    def failed_by_itself(self) -> bool:
        """Whether it ended with an error of its own, which stands in its output."""
        return bool(self.status) and signal_of(self.status, self.signal) is None

    @property
    def left_bytes(self) -> int | None:
        """What the job could still have had at the last sample."""
        of_limit = self.limit_bytes - self.used_bytes if self.limit_bytes and self.used_bytes is not None else None
        return min((size for size in (of_limit, self.available_bytes) if size is not None), default=None)

    def identity(self) -> str:
        return f"{self.family} {self.at.file} {self.at.line}"


class RecordedKill(KernelKill, frozen=True, kw_only=True):
    """The kernel counted a kill in the job's cgroup while the job ran."""

    family = "flight_record"
    kind = "recorded-kill"

    by_kernel_log: bool = False  # the kernel's own record says who, else the process is one that was gone afterwards
    kills: int | None = None
    growth: tuple[Growth, ...] = ()  # of the process that grew most
    listed_bytes: Usage[int | None] = None  # of the cgroup or the machine, at the sample with the table of tasks

    def identity(self) -> str:
        return f"{self.family} {self.kind} {self.at.file} {self.at.line}"
