"""GPUs as they are seen at one moment."""

from __future__ import annotations

from msgspec import Struct


class Card(Struct, frozen=True, array_like=True):
    """In bytes."""

    index: int
    used: int
    total: int
    processes: tuple[tuple[int, int], ...] = ()  # PID of the host, and what it holds


Cards = tuple[Card, ...]
