"""Kills and exits as shells, launchers and process pools report them: they prove a death, never what for.

A kill that the lines around explain otherwise (a preemption, `timeout`, Ctrl-C) becomes a lookalike, not an event.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill(Event):
    """A process was killed with SIGKILL (or died as if it were), and nothing printed says why."""

    family = "kill"
    kind = "kill"

    pool: str = "host_ram"
    strength: int = 1

    reporter: str  # "shell", "torchrun", "accelerate", "deepspeed", "mpirun", "pool", "joblib", "datasets", ...
    signal: int | None = None
    exit_code: int | None = None
    local_rank: int | None = None
    job: str | None = None  # the scheduler's id of the job, where the report holds one


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure(Event):
    """A launcher names the rank that failed first; why, that rank's own lines say (or are not here)."""

    family = "kill"
    kind = "rank-failure"

    role: Role = "cascade"

    reporter: str
    exit_code: int | None = None
    signal: int | None = None
    local_rank: int | None = None
