"""What happened in one invented job, before it is dressed as a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from oomdoctor.training.generator.draw import Draw


@dataclass(frozen=True, slots=True)
class Scene:
    crash: tuple[str, ...]  # the failure's own lines
    before: tuple[str, ...] = ()  # launch, settings, what the job printed on its way there
    also: tuple[str, ...] = ()  # causes that a fair judge would accept as well


Recipe = Callable[[Draw], Scene]

__all__ = ["Recipe", "Scene"]
