"""What a cause's table says of a crash: the cause fits, it is ruled out, or something is missing to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.causes import Cause, Row, causes
from oomdoctor.families.event import Event
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.families.vllm_cut import CutTraceback
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Grade, Seen, Sign
from oomdoctor.signs.commands import WHOLE_LOG

UNSEEN: Final = 2  # grades: memory is a usual reason at these steps, and not the only one


class Finding(Struct, frozen=True, kw_only=True):
    """The cause fits."""

    grade: Grade | None  # None where the classifier alone names it
    why: str  # for a person, two or three sentences with the figures
    evidence: tuple[Event, ...]
    against: tuple[str, ...] = ()
    # What it rests on shows that memory ran out, even where the crash's root is only a death or a hint.
    shows_memory: bool = False
    unsure: bool = False  # what it rests on is seen of other failures, too, or is cut: likely at most
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
    if isinstance(crash.root, CutTraceback):
        return _cut_off(judgement, judgement.grade, crash.root.said)
    if isinstance(crash.root, CutTraining):
        return _cut_off(judgement, judgement.grade) if judgement.grade >= Grade.POINTS else None
    return judgement


def is_shown(crash: Crash, findings: Iterable[Finding]) -> bool:
    """Whether the log shows that memory (or a resource) failed: the crash's root does, or what a finding rests on."""
    return crash.proven or any(finding.shows_memory for finding in findings)


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
        unsure=seen.unsure,
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


def _cut_off(finding: Finding, grade: Grade, words: str | None = None) -> Finding:
    """The log ends before the error's own words, or within them: it may have been another one."""
    where = (
        say('the message is cut off after "{words}"', words=words)
        if words
        else say("the log ends before the error message")
    )
    unseen = say("The log does not show what failed. If memory ran out, this is the likeliest cause.")
    return replace(
        finding,
        why=finding.why if words else unseen,
        grade=grade if words else grade.lowered(UNSEEN),
        shows_memory=False,
        unsure=True,
        against=(where, *finding.against),
        next_evidence=(*finding.next_evidence, WHOLE_LOG),
    )


__all__ = ["Finding", "Judgement", "NotEnough", "RuledOut", "is_shown", "judgement_of", "judgements"]
