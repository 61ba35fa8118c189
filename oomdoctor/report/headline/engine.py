"""Slots about an inference engine and its KV cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash


def engine(crash: Crash) -> str | None:
    """The engine's name, where it is known."""
    return crash.job.engine


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {"engine": engine}
