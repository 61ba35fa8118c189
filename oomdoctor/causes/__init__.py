"""The causes. One cause is one module with its table of signs, and its explain page beside it; modules are found by
name. No table decides anything: `oomdoctor.decision` reads them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from functools import cache

from oomdoctor.families.event import Event
from oomdoctor.incident.model import Crash
from oomdoctor.records import dataclass
from oomdoctor.signs import Grade, Sign


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The cause fits.

    Weight: 0.9 and more, the printed figures decide it by arithmetic; about 0.75, the traceback or the message
    names it; about 0.55, several signs point to it; about 0.35, one sign does; 0.2 and less, nothing else is left.
    """

    weight: float
    why: str  # for a person, two or three sentences with the figures
    evidence: tuple[Event, ...]
    against: tuple[str, ...] = ()
    # What it rests on shows that memory ran out, even where the crash's root is only a death or a hint.
    shows_memory: bool = False
    pool: str | None = None  # where it differs from the crash's
    stage: str | None = None
    knobs: tuple[str, ...] = ()  # where their order differs from the cause's
    next_evidence: tuple[str, ...] = ()  # commands that would prove it, where the log does not
    grade: Grade | None = None
    signs: tuple[str, ...] = ()  # the names of the sign that carries it and of those against it


@dataclass(frozen=True, slots=True)
class RuledOut:
    """The cause was looked at and is not it: the figures say so."""

    why: str


@dataclass(frozen=True, slots=True)
class NotEnough:
    """The cause may be it; this is missing, and these commands would show it."""

    missing: str
    next_evidence: tuple[str, ...] = ()


Judgement = Finding | RuledOut | NotEnough


@dataclass(frozen=True, slots=True)
class Row:
    """A sign, and what it is worth to a cause."""

    sign: Sign
    grade: Grade
    knobs: tuple[str, ...] = ()  # what to change where this sign carries the cause, best first; else the cause's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """A table, read from top to bottom: silent, excluded, then the first sign that is seen carries the cause."""

    id: str
    title: str  # a sentence a tired person understands
    pools: tuple[str, ...]  # the pools that may have run out for this cause; it is asked only then
    knobs: tuple[str, ...]  # what to change, best first
    silent: tuple[Sign, ...] = ()  # seen: another cause's matter, nothing is said
    excluded: tuple[Sign, ...] = ()  # seen: the cause is ruled out, and this is why
    signs: tuple[Row, ...] = ()  # strongest first
    against: tuple[Row, ...] = ()  # seen: the cause is worth this grade at most, whatever carries it
    missing: tuple[Sign, ...] = ()  # no sign carries it; seen: what the log lacks to tell, and what would show it
    knobs_where: tuple[tuple[Sign, tuple[str, ...]], ...] = ()  # seen: what to change instead, best first
    before: tuple[str, ...] = ()  # causes that stand behind this one at the same grade
    rule: Callable[[Crash], Judgement | None] | None = None


WHOLE_LOG = "grep -n -A 60 'Traceback (most recent call last)' <the whole log>"


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in order of their ids."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    loaded = (importlib.import_module(f"{__name__}.{name}") for name in modules)
    return tuple(module.CAUSE for module in loaded if hasattr(module, "CAUSE"))


__all__ = ["WHOLE_LOG", "Cause", "Finding", "Judgement", "NotEnough", "Row", "RuledOut", "causes"]
