"""The flight record: JSON lines, of which each says what it is. All sizes are bytes, all times seconds since the start.

The first line says how everything was before the job, each sample how it was while it ran, the last how it ended. A
record without a last line is of a recorder that was killed with its job.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from oomdoctor.recorder.cards import Card
from oomdoctor.recorder.cgroup import Level
from oomdoctor.recorder.kernel_log import Kill
from oomdoctor.recorder.machine import Memory
from oomdoctor.recorder.processes import Size

VERSION: Final = 1
TIME: Final = "%Y-%m-%dT%H:%M:%SZ"
Seconds = Annotated[float, Meta(ge=0, le=1e10)]


class Start(Struct, frozen=True, omit_defaults=True, tag_field="flight", tag="start"):
    """How it was before the job."""

    version: int
    time: str  # in UTC
    host: str
    every: Seconds
    command: str
    pid: int  # of the job's first process
    memory: Memory
    levels: tuple[Level, ...] = ()
    overcommit: int | None = None
    lacks: tuple[str, ...] = ()  # what this system does not show


class Named(Struct, frozen=True, omit_defaults=True, tag_field="flight", tag="process"):
    """A process of the job that is among its largest; of two with one number, the later counts from here on."""

    pid: int
    name: str


class Packages(Struct, frozen=True, omit_defaults=True, tag_field="flight", tag="packages"):
    """Of the job's environment, as `pip freeze` writes them."""

    packages: tuple[str, ...]


class Sample(Struct, frozen=True, omit_defaults=True, tag_field="flight", tag="sample"):
    """How it is at this moment."""

    s: Seconds
    used: int | None = None  # of the group with the lowest limit; without a limit, of the job's own
    limit: int | None = None
    shmem: int | None = None  # of what is used there
    cache: int | None = None  # the same, of files
    kills: int | None = None  # since the start, in the job's groups
    available: int | None = None  # of the machine
    swap_free: int | None = None
    shm_used: int | None = None  # of /dev/shm
    processes: tuple[Size, ...] = ()  # the largest of the job's
    count: int | None = None  # of all its processes
    cards: tuple[Card, ...] = ()


class Gone(Struct, frozen=True, omit_defaults=True):
    """A process that was there at the sample before the kernel counted a kill, and not afterwards."""

    pid: int
    name: str
    resident: int
    own: int


class End(Struct, frozen=True, omit_defaults=True, tag_field="flight", tag="end"):
    """How the job ended, and everything at that moment."""

    s: Seconds
    time: str
    status: int | None = None  # that it exited with
    signal: int | None = None  # that ended it
    memory: Memory = Memory()
    levels: tuple[Level, ...] = ()
    kills: int | None = None
    gone: tuple[Gone, ...] = ()
    address_space: int | None = None  # the limit on it that the job had
    sent: tuple[str, ...] = ()  # signals that were sent to the recorder, which it passed on
    kernel: tuple[Kill, ...] = ()  # what the kernel said of kills meanwhile, also of strangers


Entry = Start | Named | Packages | Sample | End
