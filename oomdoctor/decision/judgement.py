"""What a cause's table says of a crash: the cause fits, it is ruled out, or something is missing to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.causes import Cause, Row, causes
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.event import Event
from oomdoctor.families.kill import Kill
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.signs import Grade, Seen, Sign
from oomdoctor.signs.commands import WHOLE_LOG
from oomdoctor.signs.cut import is_cut, under_way, where_cut

UNSEEN: Final = 2  # grades: memory is a usual reason at these steps, and not the only one


class Finding(Struct, frozen=True, kw_only=True):
    """The cause fits."""

    grade: Grade | None  # None where the classifier alone names it
    why: str  # for a person, two or three sentences with the figures
    evidence: tuple[Event, ...]
    against: tuple[str, ...] = ()
    # What it rests on shows that memory ran out, even where the crash's root is only a death or a hint.
    shows_memory: bool = False
    unsure: bool = False  # likely at most
    pool: str | None = None  # where it differs from the crash's
    stage: str | None = None
    knobs: tuple[str, ...] = ()  # what to change, best first
    next_evidence: tuple[str, ...] = ()  # commands that would prove it, where the log does not
    signs: tuple[str, ...] = ()  # the names of the sign that carries it and of those against it


class RuledOut(Struct, frozen=True):
    """The cause was looked at and is not it: the figures say so."""

    why: str


class NotEnough(Struct, frozen=True):
    """The cause may be it; this is missing, and these commands would show it."""

    missing: str
    next_evidence: tuple[str, ...] = ()


Judgement = Finding | RuledOut | NotEnough


def judgements(crash: Crash) -> Iterator[tuple[Cause, Judgement]]:
    """What every cause of the crash's pool says."""
    for cause in causes():
        if crash.pool in cause.pools and (judgement := judgement_of(cause, crash)) is not None:
            yield cause, judgement


def judgement_of(cause: Cause, crash: Crash) -> Judgement | None:
    """What the cause's table says; None where nothing speaks for it or against it."""
    judgement = _by_table(cause, crash)
    if not isinstance(judgement, Finding) or judgement.grade is None:
        return judgement
    if isinstance(crash.root, CutTraining) and judgement.grade < Grade.POINTS:
        return None
    return _cut_off(judgement, judgement.grade, crash) if is_cut(crash.root) else judgement


def is_shown(crash: Crash, findings: Iterable[Finding]) -> bool:
    """Whether the log shows that memory (or a resource) failed: the crash's root does, or what a finding rests on."""
    return crash.proven or any(finding.shows_memory for finding in findings)


def is_bare_death(crash: Crash) -> bool:
    """Whether the crash is a kill or a worker's end of which no line tells the reason."""
    return not crash.proven and isinstance(crash.root, Kill | LoaderDeath | WorkerDeath)


def _has_a_size(seen: Seen) -> bool:
    """Whether it has a size of memory that was in use: circumstances alone explain no bare death."""
    return seen.used_bytes is not None or any(event.figures("usage") for event in seen.evidence)


def _by_table(cause: Cause, crash: Crash) -> Judgement | None:
    if _first(cause.silent, crash) is not None:
        return None
    if (excluding := _first(cause.excluded, crash)) is not None:
        return RuledOut(excluding.words)
    carrying = next(((row, seen) for row in cause.signs if (seen := row.sign(crash)) is not None), None)
    if carrying is not None:
        return _finding(cause, *carrying, crash)
    missing = _first(cause.missing, crash)
    return NotEnough(missing.words, missing.next_evidence) if missing is not None else None


def _finding(cause: Cause, row: Row, seen: Seen, crash: Crash) -> Finding:
    weakening = [(less, found) for less in cause.against if (found := less.sign(crash)) is not None]
    grade = min((row.grade, *(less.grade for less, _ in weakening)))
    return Finding(
        grade=grade,
        why=seen.words,
        evidence=seen.evidence,
        against=(*seen.against, *(found.words for _, found in weakening if found.words)),
        shows_memory=seen.shows_memory,
        unsure=seen.unsure or (grade < Grade.PROVES and is_bare_death(crash) and not _has_a_size(seen)),
        pool=seen.pool,
        stage=seen.stage,
        knobs=seen.knobs or row.knobs or _knobs(cause, crash),
        next_evidence=seen.next_evidence,
        signs=(_name(row.sign), *(_name(less.sign) for less, _ in weakening)),
    )


def _knobs(cause: Cause, crash: Crash) -> tuple[str, ...]:
    return next((knobs for where, knobs in cause.knobs_where if where(crash) is not None), cause.knobs)


def _first(signs: Iterable[Sign], crash: Crash) -> Seen | None:
    return next((seen for sign in signs if (seen := sign(crash)) is not None), None)


def _name(sign: Sign) -> str:
    return getattr(sign, "__name__", "")


def _cut_off(finding: Finding, grade: Grade, crash: Crash) -> Finding:
    """The log ends before the error's own words, or within them: it may have been another one."""
    within = where_cut(crash)
    unseen = say("The log does not show what failed. If memory ran out, this is the likeliest cause.")
    unseen = joined((under_way(crash), unseen))
    return replace(
        finding,
        why=finding.why if within else unseen,
        grade=grade if within else grade.lowered(UNSEEN),
        shows_memory=False,
        unsure=True,
        against=(within or say("the log ends before the error message"), *finding.against),
        next_evidence=(*finding.next_evidence, WHOLE_LOG),
    )


__all__ = ["Finding", "Judgement", "NotEnough", "RuledOut", "is_bare_death", "is_shown", "judgement_of", "judgements"]
