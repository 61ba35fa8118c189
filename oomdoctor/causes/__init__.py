"""The causes. One cause is one module with its rule, and its explain page beside it; modules are found by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache

from oomdoctor.families.event import Event
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.families.vllm_cut import CutTraceback
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.records import dataclass


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    id: str
    title: str  # a sentence a tired person understands
    pools: tuple[str, ...]  # the pools that may have run out for this cause; it is asked only then
    knobs: tuple[str, ...]  # what to change, best first
    judge: Callable[[Crash], Judgement | None]  # None: nothing speaks for it or against it


UNSEEN = 0.5  # of the weight: memory is a usual reason at these steps, and not the only one
BEGUN = 0.9  # the error's words begin as only those of a lack of memory do
NAMED = 0.5  # the weight from which a finding rests on the traceback, not on a refusal that nobody has seen
WHOLE_LOG = "grep -n -A 60 'Traceback (most recent call last)' <the whole log>"


@cache
def causes() -> tuple[Cause, ...]:
    """All causes, in order of their ids."""
    modules = sorted(m.name for m in pkgutil.iter_modules(__path__))
    loaded = (importlib.import_module(f"{__name__}.{name}") for name in modules)
    return tuple(module.CAUSE for module in loaded if hasattr(module, "CAUSE"))


def judge(crash: Crash) -> Iterator[tuple[Cause, Judgement]]:
    """What every cause of the crash's pool says."""
    for cause in causes():
        if crash.pool in cause.pools:
            judgement = cause.judge(crash)
            if isinstance(judgement, Finding) and isinstance(crash.root, CutTraceback):
                judgement = _unseen(judgement, crash.root)
            elif isinstance(judgement, Finding) and isinstance(crash.root, CutTraining):
                judgement = _unseen(judgement) if judgement.weight >= NAMED else None
            if judgement is not None:
                yield cause, judgement


def is_shown(crash: Crash, findings: Iterable[Finding]) -> bool:
    """Whether the log shows that memory (or a resource) failed: the crash's root does, or what a finding rests on."""
    return crash.proven or any(finding.shows_memory for finding in findings)


def _unseen(finding: Finding, cut: CutTraceback | None = None) -> Finding:
    """The log ends before the error's own words, or within them: it may have been another one."""
    begun = cut is not None and cut.begun
    where = (
        say("the log is cut within the error's own words")
        if begun
        else say("the log is cut before the error's own words")
    )
    return replace(
        finding,
        weight=finding.weight * (BEGUN if begun else UNSEEN),
        against=(*finding.against, where),
        next_evidence=(*finding.next_evidence, WHOLE_LOG),
    )


__all__ = ["Cause", "Finding", "Judgement", "NotEnough", "RuledOut", "causes", "is_shown", "judge"]
