"""The causes. One cause is one module with its table of signs, and its explain page beside it; modules are found by
name. No table decides anything: `oomdoctor.decision` reads them."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from msgspec import Struct

from oomdoctor.signs import Grade, Sign


class Row(Struct, frozen=True):
    """A sign, and what it is worth to a cause."""

    sign: Sign
    grade: Grade
    knobs: tuple[str, ...] = ()  # what to change where this sign carries the cause, best first; else the cause's own


class Cause(Struct, frozen=True, kw_only=True):
    """A table, read from top to bottom: silent, excluded, then the first sign that is seen carries the cause."""

    id: str
    title: str  # a sentence a tired person understands
    headlines: tuple[str, ...] = ()  # of one crash, the best first: `oomdoctor.report.headline` fills in their {slots}
    stage: str | None = None  # what was done wherever this is the cause, where nothing in the log says it
    pools: tuple[str, ...]  # the pools that may have run out for this cause; it is asked only then
    knobs: tuple[str, ...]  # what to change, best first
    silent: tuple[Sign, ...] = ()  # seen: another cause's matter, nothing is said
    excluded: tuple[Sign, ...] = ()  # seen: the cause is ruled out, and this is why
    signs: tuple[Row, ...] = ()  # strongest first
    against: tuple[Row, ...] = ()  # seen: the cause is worth this grade at most, whatever carries it
    missing: tuple[Sign, ...] = ()  # no sign carries it; seen: what the log lacks to tell, and what would show it
    knobs_where: tuple[tuple[Sign, tuple[str, ...]], ...] = ()  # seen: what to change instead, best first
    fallback: bool = False  # it says only that memory ran out, or that something was killed
    at_a_limit: bool = False  # it says that a limit on memory in use was hit, and not what filled it
    before: tuple[str, ...] = ()  # causes that stand behind this one at the same grade

    @property
    def only_ends(self) -> bool:
        """Whether it says where it ended, and not what filled the memory."""
        return self.fallback or self.at_a_limit


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in order of their ids."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    loaded = (importlib.import_module(f"{__name__}.{name}") for name in modules)
    return tuple(module.CAUSE for module in loaded if hasattr(module, "CAUSE"))


__all__ = ["Cause", "Row", "causes"]
