"""Deaths that Ray reports: of workers, actors and nodes, mostly the consequence of something else."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDeath(Event):
    """A worker or an actor is gone. What Ray lists as possible causes is printed for every death: no evidence.

    `role` is "root" only where a kill is the last thing known (strength 1), else "cascade".
    """

    family = "ray_death"
    kind = "worker-death"

    pool: str = "none"
    strength: int = 0

    error: str | None = None  # "ActorDiedError", "WorkerCrashedError", ... where an exception reports it
    # "killed": the connection broke without a word (SIGKILL, SIGSEGV and os._exit look alike); "pod-limit": Ray
    # suspects the pod's memory limit; "out-of-memory": the monitor did it; "node", "owner", "intended", "ray.kill",
    # "creation" (an exception in __init__), "unavailable", "exit" (exit code printed); None where nothing is said
    cause: str | None = None
    exit_type: str | None = None  # SYSTEM_ERROR, NODE_OUT_OF_MEMORY, ...
    exit_code: int | None = None
    class_name: str | None = None
    actor_id: str | None = None
    worker_id: str | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDeath(Event):
    """A node, or the raylet on it, is gone."""

    family = "ray_death"
    kind = "node-death"

    pool: str = "none"
    strength: int = 1

    cause: str | None = None  # "heartbeats", "raylet" (terminated unexpectedly), ...
    node_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FatalSignal(Event):
    """A process printed the signal that ended it. SIGBUS is how a full /dev/shm ends a process; others are bugs."""

    family = "ray_death"
    kind = "fatal-signal"

    pool: str = "shm"
    strength: int = 1

    signal: str | None = None  # "SIGBUS"
