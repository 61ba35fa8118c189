"""Slots about a GPU and the allocation that failed on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs.trace import card
from oomdoctor.units import show


def gpu(crash: Crash) -> str:
    """Which GPU of which node, as far as the log says."""
    number, node = crash.root.process.gpu, crash.root.process.node
    if number is None:
        return say("the GPU")
    return say("GPU {number} of {node}", number=number, node=node) if node else say("GPU {number}", number=number)


def requested(crash: Crash) -> str | None:
    """The allocation that failed."""
    size = card(crash).tried_bytes or crash.root.figures("usage").get("tried_bytes")
    return show(size) if size else None


def free(crash: Crash) -> str | None:
    """What was free of the GPU; None where that would have been enough."""
    it = card(crash)
    if it.free_bytes is None or (it.tried_bytes is not None and it.free_bytes >= it.tried_bytes):
        return None
    return show(it.free_bytes)


def plenty(crash: Crash) -> str | None:
    """What was free of the GPU; None where that was not enough."""
    it = card(crash)
    enough = it.free_bytes is not None and it.tried_bytes is not None and it.free_bytes >= it.tried_bytes
    return show(it.free_bytes or 0) if enough else None


def total(crash: Crash) -> str | None:
    """The memory of the GPU."""
    size = card(crash).total_bytes
    return show(size) if size else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    "gpu": gpu,
    "requested": requested,
    "free": free,
    "plenty": plenty,
    "total": total,
}
