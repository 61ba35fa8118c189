"""Whose memory a remedy is about, where neither an option nor a line says it: the process that held most."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import RAM
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import LARGE, held_by, held_in_words, largest_kill, node_memory
from oomdoctor.language import say
from oomdoctor.units import show

# What one process does with its memory
_OF_A_PROCESS: Final = frozenset({
    "clear-references", "fewer-workers", "low-memory-loading", "narrow-dtypes", "restart-periodically",
    "smaller-buffers", "smaller-input", "smaller-microbatch", "smaller-partitions", "sharded-checkpoint", "stream-data",
})  # fmt: skip


def holder(knob: str, crash: Crash) -> str | None:
    """The process in words, with what it held: "cellxgene (PID 4242) held 51.40 GiB"."""
    if knob not in _OF_A_PROCESS or crash.pool not in RAM:
        return None
    memory = node_memory(crash)
    if memory is not None and memory.holders:
        most = memory.holders[0]
        return say("{who} held {amount}", who=most.who, amount=show(most.largest)) if most.largest else None
    victim = largest_kill(crash)
    if victim is None or victim.process.name is None or (held_by(victim) or 0) < LARGE:
        return None
    who = f"{victim.process.name} (PID {victim.process.pid})" if victim.process.pid else victim.process.name
    return say("{who} held {amount}", who=who, amount=held_in_words(victim))
