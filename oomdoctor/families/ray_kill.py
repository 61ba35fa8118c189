"""Ray's memory monitor: the kill and its table of memory users, from Ray 0.8 to 2.60."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table of the largest memory users. Pages of the object store count for whoever touched them."""

    pid: int
    bytes: int | None
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A worker that Ray killed to free memory: the newest one, rarely the one that held the memory."""

    pid: int | None = None
    name: str | None = None  # the task's or the actor's creation task's
    bytes: int | None = None
    worker_id: str | None = None
    task_id: str | None = None
    actor_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOutOfMemory(Event):
    """Ray's monitor found the node over its threshold: with the workers it killed, or only the table of users."""

    family = "ray_kill"
    kind = "node-out-of-memory"

    pool: str = "host_ram"
    strength: int = 3

    used_bytes: int | None = usage()
    total_bytes: int | None = usage()  # the node's memory or the container's limit, whichever is less
    used_fraction: float | None = usage()
    shared_bytes: int | None = usage()  # what the object store had in shared memory (0.8 to 2.0)
    object_store_bytes: int | None = usage()
    object_store_capacity_bytes: int | None = usage()
    fraction: float | None = threshold()
    bytes: int | None = threshold()
    generation: str | None = None  # "G0" to "G5", None where only the table stands in the log
    node_id: str | None = None
    victims: tuple[Victim, ...] = ()
    considered: int | None = None  # how many workers the killing policy looked at
    retriable: bool | None = None
    reason: str | None = None
    trigger_bytes: int | None = None  # the usage that made the monitor act, a moment before `used_bytes`
    cut: bool | None = None  # the table's first rows are missing: the largest user may be among them
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageAboveThreshold(Event):
    """raylet.out's line in exact bytes, just before a kill (or again and again, where nobody can be killed)."""

    family = "ray_kill"
    kind = "usage-above-threshold"

    role: Role = "confirmation"
    pool: str = "host_ram"
    strength: int = 2

    used_bytes: int | None = usage()
    total_bytes: int | None = usage()
    fraction: float | None = threshold()
    bytes: int | None = threshold()
    nobody_to_kill: bool | None = None  # "no workers are available for killing"


@dataclass(frozen=True, slots=True, kw_only=True)
class KillCount(Event):
    """The once-a-minute "N Workers (tasks / actors) killed due to memory pressure (OOM)": often all a driver sees."""

    family = "ray_kill"
    kind = "kill-count"

    pool: str = "host_ram"
    strength: int = 2

    killed: int | None = None
    crashed: int | None = None  # of other reasons
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorStarted(Event):
    """raylet.out's line about the monitor: threshold and the memory Ray sees. With `disabled`, nobody watches."""

    family = "ray_kill"
    kind = "monitor-started"

    role: Role = "context"
    pool: str = "host_ram"

    total_bytes: int | None = usage()
    fraction: float | None = threshold()
    bytes: int | None = threshold()
    disabled: bool | None = None
