"""What was decided and advised as a report: the contract's fields, log text quoted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import asdict, replace

from oomdoctor import __version__
from oomdoctor.causes import killed_without_evidence
from oomdoctor.decision.diagnosis import Decision
from oomdoctor.decision.ranking import Ranked
from oomdoctor.families.event import Event, Frame, Lookalike, Place
from oomdoctor.incident.model import Crash
from oomdoctor.incident.timeline import in_order
from oomdoctor.job.model import Context, Trajectory
from oomdoctor.language import say, translated, with_devices
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advice import Advice
from oomdoctor.report.contract import (
    CauseRuledOut,
    Diagnosis,
    DoingRecord,
    EventRecord,
    Evidence,
    Incident,
    JobRecord,
    Ledger,
    LedgerRow,
    Line,
    Moment,
    Quote,
    Report,
    Stats,
)
from oomdoctor.report.fingerprint import fingerprint, place_of
from oomdoctor.report.headline import headline
from oomdoctor.report.outlook import limit_of, outlook
from oomdoctor.report.vocabulary import failed
from oomdoctor.sources import Trouble
from oomdoctor.text import sanitize


def build(
    advice: Sequence[Advice],
    lookalikes: Iterable[Lookalike],
    context: Context,
    errors: Sequence[Trouble],
    notes: Sequence[str],
    stats: Stats,
    ending: Place | None = None,
) -> Report:
    events = _in_log_order([one.decision.crash for one in advice])
    ids = {id(event): f"e{number}" for number, event in enumerate(events, start=1)}
    incidents = tuple(_incident(f"i{n}", one, ids) for n, one in enumerate(advice, start=1))
    return Report(
        tool={"name": "oomdoctor", "version": __version__},
        # Of what was never read nobody knows that it is healthy.
        verdict=incidents[0].verdict if incidents else "no-oom" if stats.bytes else "inconclusive",
        incidents=incidents,
        advice_rejected=_rejected_advice(advice),
        lookalikes=tuple(Quote(x.at.file, x.at.line, x.at.text, translated(x.why)) for x in lookalikes),
        events=tuple(_record(event, ids) for event in events),
        context=_context(context),
        errors=tuple(errors),
        notes=tuple(notes),
        stats=stats,
        last_error=Line(ending.file, ending.line, ending.text) if ending is not None and not incidents else None,
    )


def _in_log_order(crashes: Sequence[Crash]) -> list[Event]:
    found = {id(event): event for crash in crashes for event in crash.events}
    files = {event.at.file: None for event in found.values()}
    order = {file: number for number, file in enumerate(files)}
    return sorted(found.values(), key=lambda event: (order[event.at.file], event.at.line))


def _incident(name: str, advice: Advice, ids: dict[int, str]) -> Incident:
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
        trajectory=_trajectory(crash.trajectory, limit_of(crash)),
        job=_job(crash),
    )


def _headline(decision: Decision, diagnoses: Sequence[Diagnosis]) -> str:
    """What happened: of a death that nothing explains, not what may be its cause."""
    if decision.verdict == "inconclusive" and not diagnoses:
        return say("A line says that memory ran out, but not which memory")
    if decision.verdict == "inconclusive":
        return headline(killed_without_evidence.CAUSE, decision.crash)
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
    return Diagnosis(
        cause=cause.id,
        headline=headline(cause, replace(crash, pool=pool, stage=stage)),
        title=translated(cause.title),
        explanation=finding.why,
        confidence=round(answer.confidence, 2),
        pool=pool,
        stage=stage,
        evidence=tuple(
            Evidence(ids[id(event)], event.at.file, event.at.line, event.at.text)
            for event in finding.evidence
            if id(event) in ids
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
        for ledger in crash.ledgers
    ]


def _timeline(crash: Crash, ids: dict[int, str]) -> Iterator[Moment]:
    told = (event for event in crash.events if event.role not in ("context", "advice"))
    for happening in in_order(told, crash.root):
        event = happening.event
        yield Moment(ids[id(event)], event.role, event.time, happening.after_seconds)


def _trajectory(trajectory: Trajectory | None, limit: int | None = None) -> dict[str, Any] | None:
    if trajectory is None:
        return None
    full = outlook(trajectory, limit)
    return {
        "what": trajectory.what,
        "pool": trajectory.pool,
        "shape": trajectory.shape,
        "growth_bytes": trajectory.growth_bytes,
        "growth_low_bytes": trajectory.growth_low_bytes,
        "growth_high_bytes": trajectory.growth_high_bytes,
        "per": trajectory.per,
        **({"assumed_unit": trajectory.assumed_unit} if trajectory.assumed_unit else {}),
        "points": [
            {"step": p.step, "bytes": p.bytes, "line": p.line, **({"text": p.text} if p.text else {})}
            for p in trajectory.points
        ],
        "full": asdict(full) if full is not None else None,
    }


def _rejected_advice(advice: Iterable[Advice]) -> tuple[Quote, ...]:
    """Each line once, of however many crashes it is printed."""
    printed = (pair for one in advice for pair in one.printed)
    quotes = {
        (event.at.file, event.at.line, why): Quote(event.at.file, event.at.line, event.at.text, why)
        for event, why in printed
    }
    return tuple(quotes.values())


def _record(event: Event, ids: dict[int, str]) -> EventRecord:
    process = event.process
    return EventRecord(
        id=ids[id(event)],
        family=event.family,
        kind=event.kind,
        role=event.role,
        file=event.at.file,
        line=event.at.line,
        end_line=event.at.end_line,
        time=event.time,
        stage=event.stage,
        text=event.at.text,
        repeats=event.repeats,
        process={
            "pid": process.pid, "name": _name(process.name), "role": process.role,
            "rank": process.rank, "node": _name(process.node), "gpu": process.gpu,
        },
        usage=event.figures("usage"),
        threshold=event.figures("threshold"),
        fields=event.figures("fields"),
    )  # fmt: skip


def _name(name: str | None) -> str | None:
    """A prefix of a line may hold a carriage return, as a line that is drawn anew does."""
    return sanitize(name) if name is not None else None


def _outside(context: Context) -> dict[str, str]:
    return {name: say("from {source}, not from the log", source=source) for name, source in context.sources.items()}


def _context(context: Context) -> dict[str, Any]:
    return {
        "frameworks": dict(sorted(context.frameworks.items())),
        "settings": {name: setting.value for name, setting in context.settings.items()},
        "models": list(context.models),
        "hardware": dict(context.hardware),
        "exit_codes": list(context.exit_codes),
        "progress": dict(context.progress),
        "particulars": {name: list(values) for name, values in context.particulars.items()},
        "processes": {sanitize(name): list(pids) for name, pids in context.processes.items()},
        "memory": [_trajectory(figure) for figure in context.memory],
        **({"outside": outside} if (outside := _outside(context)) else {}),
    }
