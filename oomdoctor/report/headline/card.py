"""The allocation that failed on a GPU, and the figures of that GPU."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import SIDES, Event
from oomdoctor.families.jax_tf import ArrayOutOfMemory
from oomdoctor.families.vllm_error import NotEnoughFree
from oomdoctor.incident.card import Card, card_of
from oomdoctor.incident.model import Crash
from oomdoctor.signs.trace import refusal

HOST: Final = "host"  # the side of the pools that are no GPU's


def teller(crash: Crash) -> Event:
    """The event whose figures count: the root where it says what was requested, else the first that confirms it."""
    return crash.root if _requested(crash.root) else refusal(crash) or crash.root


def figures(crash: Crash) -> Card:
    """The figures of that event, of one GPU."""
    event = teller(crash)
    if isinstance(event, DeviceOutOfMemory):
        return card_of(event)
    return Card(
        tried_bytes=_requested(event),
        free_bytes=getattr(event, "free_bytes", None),
        total_bytes=getattr(event, "total_bytes", None),
    )


def start(crash: Crash) -> NotEnoughFree | None:
    """vLLM's refusal to start, of the rank with the least room."""
    known = [event for event in crash.every(NotEnoughFree) if event.free_bytes is not None and event.total_bytes]
    return min(known, key=lambda event: event.free_bytes or 0, default=None)


def on_host(crash: Crash) -> bool:
    """Whether it was the host's memory."""
    return SIDES.get(crash.pool) == HOST


def _requested(event: Event) -> int | None:
    """What an event says was requested; None of a size that has overflowed."""
    size = event.array_bytes if isinstance(event, ArrayOutOfMemory) else getattr(event, "tried_bytes", None)
    return size if isinstance(size, int) and size > 0 else None
