"""What a cause's table says of a crash: the cause fits, it is ruled out, or something is missing to tell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from oomdoctor.causes import WHOLE_LOG, Cause, Finding, Judgement, NotEnough, Row, RuledOut, causes
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.families.vllm_cut import CutTraceback
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.signs import Grade, Seen, Sign

UNSEEN: Final = 2  # grades: memory is a usual reason at these steps, and not the only one
NAMED: Final = 0.5  # the weight from which a finding rests on the traceback, not on a refusal that nobody has seen


def judgements(crash: Crash) -> Iterator[tuple[Cause, Judgement]]:
    """What every cause of the crash's pool says."""
    for cause in causes():
        if crash.pool in cause.pools and (judgement := judgement_of(cause, crash)) is not None:
            yield cause, judgement


def judgement_of(cause: Cause, crash: Crash) -> Judgement | None:
    """What the cause says; None where nothing speaks for it or against it."""
    judgement = cause.rule(crash) if cause.rule is not None else _by_table(cause, crash)
    if not isinstance(judgement, Finding):
        return judgement
    if isinstance(crash.root, CutTraceback):
        return _cut_off(judgement, begun=crash.root.begun is True)
    if isinstance(crash.root, CutTraining):
        return _cut_off(judgement) if judgement.weight >= NAMED else None
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
        weight=grade / 100,
        why=seen.words,
        evidence=seen.evidence,
        against=(*seen.against, *(found.words for _, found in weakening if found.words)),
        shows_memory=seen.shows_memory,
        pool=seen.pool,
        stage=seen.stage,
        knobs=seen.knobs or row.knobs or _knobs(cause, crash),
        next_evidence=seen.next_evidence,
        grade=grade,
        signs=(_name(row.sign), *(_name(less.sign) for less, _ in weakening)),
    )


def _knobs(cause: Cause, crash: Crash) -> tuple[str, ...]:
    return next((knobs for where, knobs in cause.knobs_where if where(crash) is not None), cause.knobs)


def _first(signs: Iterable[Sign], crash: Crash) -> Seen | None:
    return next((seen for sign in signs if (seen := sign(crash)) is not None), None)


def _name(sign: Sign) -> str:
    return getattr(sign, "__name__", "")


def _cut_off(finding: Finding, *, begun: bool = False) -> Finding:
    """The log ends before the error's own words, or within them: it may have been another one."""
    where = (
        say("the log is cut within the error's own words")
        if begun
        else say("the log is cut before the error's own words")
    )
    grade = finding.grade if begun or finding.grade is None else finding.grade.lowered(UNSEEN)
    return replace(
        finding,
        weight=grade / 100 if grade is not None else finding.weight * (0.9 if begun else 0.5),
        grade=grade,
        against=(*finding.against, where),
        next_evidence=(*finding.next_evidence, WHOLE_LOG),
    )


__all__ = ["NAMED", "Grade", "is_shown", "judgement_of", "judgements"]
