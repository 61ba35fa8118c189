"""What vLLM's other processes print after one of them has died: they point at the cause, they are not it."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedProcess:
    """A process of the engine that is said to have ended; -9 is a SIGKILL."""

    name: str
    exit_code: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFailed(Event):
    """An engine process failed, and another one noticed."""

    family = "vllm_cascade"
    kind = "engine-failed"

    role: Role = "cascade"

    said: str  # which of the sentences: "engine-core-failed-to-start", "worker-died", "engine-dead", ...
    failed: tuple[FailedProcess, ...] = ()
    signal: int | None = None  # the signal that ended it, where its exit code is printed and says so
