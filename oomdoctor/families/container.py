"""What schedulers and container engines say of a memory limit: Slurm, Kubernetes, docker, LSF, PBS, HTCondor, YARN."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKill(Event):
    """A scheduler or an engine says that the job or container went over its memory limit."""

    family = "container"
    kind = "limit-kill"

    pool: str = "cgroup"
    strength: int = 3

    manager: str  # "slurm", "kubernetes", "docker", "lsf", "pbs", "htcondor", "yarn", "sagemaker"
    used_bytes: int | None = usage()
    peak_bytes: int | None = usage()
    limit_bytes: int | None = threshold()
    requested_bytes: int | None = threshold()
    job: str | None = None  # Slurm's "123_4.batch", LSF's or PBS' number
    container: str | None = None  # the pod's or container's name
    kills: int | None = None  # how many processes were killed
    exit_code: int | None = None
    reason: str | None = None  # "OOMKilled", "OUT_OF_MEMORY", "TERM_MEMLIMIT"
    virtual: bool | None = None  # the limit counts address space


@dataclass(frozen=True, slots=True, kw_only=True)
class NodePressure(Event):
    """Kubernetes evicted a pod or saw a kill because the node, not the container, was out of memory."""

    family = "container"
    kind = "node-pressure"

    pool: str = "host_ram"
    strength: int = 3

    used_bytes: int | None = usage()
    available_bytes: int | None = usage()
    threshold_bytes: int | None = threshold()
    requested_bytes: int | None = None
    container: str | None = None
    reason: str | None = None  # "Evicted", "SystemOOM"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLimit(Event):
    """A memory limit that the log states: context, no failure."""

    family = "container"
    kind = "memory-limit"

    role: Role = "context"
    pool: str = "cgroup"

    limit_bytes: int | None = threshold()
    requested_bytes: int | None = threshold()
    used_bytes: int | None = usage()
    container: str | None = None
