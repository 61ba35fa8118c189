"""How full the KV cache is while vLLM serves: pressure slows requests down, it kills nothing."""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, Role, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption(Event):
    """A running sequence gave its KV cache up for others; V0 prints the first and every fiftieth."""

    family = "vllm_pressure"
    kind = "preemption"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    mode: str | None = None  # "RECOMPUTE", "SWAP"
    preemptions: int | None = usage()  # since the start
    sequence_group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics(Event):
    """The periodic line: requests, and the share of the KV cache in use."""

    family = "vllm_pressure"
    kind = "statistics"

    role: Role = "context"
    pool: str = "kv_cache"
    stage: str = "serving"

    running: int | None = usage()
    waiting: int | None = usage()
    kv_usage: float | None = usage()  # 0..1
    preemptions: int | None = usage()
