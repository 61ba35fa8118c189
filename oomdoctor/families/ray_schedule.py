"""What was asked of a Ray cluster, what it has, and what it cannot place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from oomdoctor.families.event import Event, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Unschedulable(Event):
    """A request for resources that Ray does not place, now or ever. One that is served later is healthy."""

    family = "ray_schedule"
    kind = "unschedulable"

    pool: str = "scheduling"
    strength: int = 3

    # "infeasible": no node (type) can ever serve it; "waiting": the resources are there but taken;
    # "pending": a placement group or actor that is still not there; "timeout": given up; "supervisor": the
    # submitted job's own supervisor actor could not be placed
    state: str = "waiting"
    # Amounts by resource, as asked: GPUs and CPUs in units, memory in bytes. Fixed-point figures (x 10000) divided.
    requested: Mapping[str, float] | None = None
    available: Mapping[str, float] | None = None
    count: int | None = None  # how many of these are waiting
    placement_group: bool | None = None
    seconds: float | None = None  # since the driver started, from the autoscaler's prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus(Event):
    """`ray status`, `ray.cluster_resources()`: used and total amounts by resource."""

    family = "ray_schedule"
    kind = "cluster-status"

    role: Role = "context"

    used: Mapping[str, float] | None = None
    total: Mapping[str, float] | None = None
    nodes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStarted(Event):
    """`ray start` or `ray.init` with the resources it was told to have."""

    family = "ray_schedule"
    kind = "cluster-started"

    role: Role = "context"

    num_cpus: float | None = None
    num_gpus: float | None = None
    memory_bytes: int | None = None
    object_store_bytes: int | None = None
    resources: Mapping[str, float] | None = None
    head: bool | None = None
