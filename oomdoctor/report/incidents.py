"""An incident of the report: the crash, its causes with their remedies, where the memory was, what happened when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from oomdoctor.causes import killed_without_evidence
from oomdoctor.decision.diagnosis import Decision
from oomdoctor.decision.ranking import Ranked
from oomdoctor.families.event import Frame
from oomdoctor.families.training_cut import CutTraining
from oomdoctor.incident.ledger import to_show
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.incident.timeline import in_order
from oomdoctor.job.names import ON_THE_NODE
from oomdoctor.language import say, translated, with_devices
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advice import Advice
from oomdoctor.remedies.host.thresholds import threshold_of
from oomdoctor.report.contract import (
    CauseRuledOut,
    Diagnosis,
    DoingRecord,
    Evidence,
    Incident,
    JobRecord,
    Ledger,
    LedgerRow,
    Moment,
)
from oomdoctor.report.fingerprint import fingerprint, place_of
from oomdoctor.report.headline import headline
from oomdoctor.report.outlook import course
from oomdoctor.report.quotes import quoted
from oomdoctor.report.vocabulary import failed
from oomdoctor.text import sanitize


def incident(name: str, advice: Advice, ids: dict[int, str]) -> Incident:
    decision, crash = advice.decision, advice.decision.crash
    diagnoses = tuple(
        _diagnosis(answer, chosen, crash, ids) for answer, chosen in zip(decision.answers, advice.remedies, strict=True)
    )
    return Incident(
        id=name,
        verdict=decision.verdict,
        headline=_headline(decision, diagnoses),
        cause_open=decision.open,
        fingerprint=_fingerprint(crash, diagnoses),
        events=tuple(ids[id(event)] for event in crash.events),
        diagnoses=diagnoses,
        ruled_out=tuple(CauseRuledOut(cause, why) for cause, why in decision.ruled_out),
        remedies_rejected=advice.rejected,
        next_evidence=decision.next_evidence,
        gap=advice.gap,
        ledger=tuple(_ledger(crash)),
        timeline=tuple(_timeline(crash, ids)),
        trajectory=course(crash.trajectory, _limit(crash)),
        job=_job(crash),
        evidence_node=decision.evidence_node,
    )


def _headline(decision: Decision, diagnoses: Sequence[Diagnosis]) -> str:
    """What happened: of a death that nothing explains, not what may be its cause."""
    if decision.verdict == "inconclusive" and (diagnoses or isinstance(decision.crash.root, CutTraining)):
        return headline(killed_without_evidence.CAUSE, decision.crash)
    if decision.verdict == "inconclusive":
        return say("A line says that memory ran out, but not which memory")
    return diagnoses[0].headline if diagnoses else failed(decision.crash.pool, proven=True)


def _job(crash: Crash) -> JobRecord:
    doing = crash.doing
    because = doing.because
    if isinstance(because, Frame):
        because = " ".join(part for part in (because.file, because.function, because.code) if part)
    words = " ".join(sanitize(because).split()) if because else None
    return JobRecord(crash.job.world, crash.job.task, crash.job.engine, DoingRecord(crash.stage, doing.step, words))


def _diagnosis(answer: Ranked, chosen: tuple[Remedy, ...], crash: Crash, ids: dict[int, str]) -> Diagnosis:
    cause, finding = answer.cause, answer.finding
    pool, stage = finding.pool or crash.pool, finding.stage or crash.stage
    told = headline(cause, replace(crash, pool=pool, stage=stage))
    return Diagnosis(
        cause=cause.id,
        headline=told,
        title=translated(cause.title),
        explanation=finding.why,
        confidence=round(answer.confidence, 2),
        pool=pool,
        stage=cause.stage or stage if stage == "unknown" else stage,
        evidence=tuple(
            Evidence(ids[id(event)], event.at.file, line, text)
            for event in finding.evidence
            if id(event) in ids
            for line, text in quoted(event.at, told, finding.why)
        ),
        against=finding.against,
        remedies=chosen,
        grade=finding.grade.name.lower() if finding.grade is not None else None,
        signs=finding.signs,
        ahead=answer.ahead,
    )


def _fingerprint(crash: Crash, diagnoses: Sequence[Diagnosis]) -> str:
    if not diagnoses:
        return fingerprint("open", crash.pool, crash.stage, place_of(crash))
    best = diagnoses[0]
    return fingerprint(best.cause, best.pool, best.stage, place_of(crash))


def _ledger(crash: Crash) -> list[Ledger]:
    return [
        Ledger(
            ledger.pool,
            with_devices(ledger.device),
            ledger.total_bytes,
            tuple(LedgerRow(row.what, row.bytes, row.basis, row.line, row.derivation) for row in ledger.rows),
            ledger.unexplained_bytes,
        )
        for ledger in map(to_show, crash.ledgers)
    ]


def _timeline(crash: Crash, ids: dict[int, str]) -> Iterator[Moment]:
    told = (event for event in crash.events if event.role not in ("context", "advice"))
    for happening in in_order(told, crash.root):
        event = happening.event
        yield Moment(ids[id(event)], event.role, event.time, happening.after_seconds)


def _limit(crash: Crash) -> int | None:
    """What the crash's figure can grow to: its own print says it, or the crash does of the device that it is about."""
    figure = crash.trajectory
    if figure is None:
        return None
    if figure.limit_bytes is not None:
        return figure.limit_bytes
    if figure.pool == "gpu":
        return _only_one(crash)
    if figure.what.startswith(ON_THE_NODE):  # one process has no limit but what all others leave
        limit = threshold_of(crash)
        return limit[0] if limit is not None else total_bytes(crash)
    return None


def _only_one(crash: Crash) -> int | None:
    """What the cards hold, where it is the same of all."""
    totals = {ledger.total_bytes for ledger in crash.ledgers if ledger.pool == "gpu"}
    return totals.pop() if len(totals) == 1 else None


__all__ = ["incident"]
