"""From crashes to the report: every cause asked, the answers ranked, remedies added, log text quoted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from typing import Any

from oomdoctor import __version__
from oomdoctor.causes import Cause, Finding, NotEnough, RuledOut, is_shown, judge
from oomdoctor.causes.host import of_low_limit
from oomdoctor.classifier.ranking import closing, ranked
from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.incident.model import Crash
from oomdoctor.incident.timeline import in_order
from oomdoctor.job.model import Context, Trajectory
from oomdoctor.language import joined, listed, say, translated
from oomdoctor.remedies import Remedy
from oomdoctor.remedies.advice import rejected_advice
from oomdoctor.remedies.advise import remedies
from oomdoctor.remedies.gap import Gap, gap, shown
from oomdoctor.report.contract import (
    CauseRuledOut,
    Diagnosis,
    EventRecord,
    Evidence,
    Incident,
    Ledger,
    LedgerRow,
    Moment,
    Quote,
    Report,
    Stats,
    Verdict,
)
from oomdoctor.report.fingerprint import fingerprint, place_of
from oomdoctor.report.outlook import limit_of, outlook
from oomdoctor.sources import Trouble
from oomdoctor.text import sanitize


def build(
    crashes: Sequence[Crash],
    lookalikes: Iterable[Lookalike],
    context: Context,
    errors: Sequence[Trouble],
    notes: Sequence[str],
    stats: Stats,
) -> Report:
    events = _in_log_order(crashes)
    ids = {id(event): f"e{number}" for number, event in enumerate(events, start=1)}
    incidents = tuple(_incident(f"i{n}", crash, ids) for n, crash in enumerate(crashes, start=1))
    return Report(
        tool={"name": "oomdoctor", "version": __version__},
        # Of what was never read nobody knows that it is healthy.
        verdict=incidents[0].verdict if incidents else "no-oom" if stats.bytes else "inconclusive",
        incidents=incidents,
        advice_rejected=_advice(crashes),
        lookalikes=tuple(Quote(x.at.file, x.at.line, x.at.text, translated(x.why)) for x in lookalikes),
        events=tuple(_record(event, ids) for event in events),
        context=_context(context),
        errors=tuple(errors),
        notes=tuple(notes),
        stats=stats,
    )


def _in_log_order(crashes: Sequence[Crash]) -> list[Event]:
    found = {id(event): event for crash in crashes for event in crash.events}
    files = {event.at.file: None for event in found.values()}
    order = {file: number for number, file in enumerate(files)}
    return sorted(found.values(), key=lambda event: (order[event.at.file], event.at.line))


def _incident(name: str, crash: Crash, ids: dict[int, str]) -> Incident:
    findings: list[tuple[Cause, Finding]] = []
    ruled_out: list[CauseRuledOut] = []
    next_evidence: list[str] = []
    for cause, judgement in judge(crash):
        if isinstance(judgement, Finding):
            findings.append((cause, _marked(judgement, crash.context)))
        elif isinstance(judgement, RuledOut):
            ruled_out.append(CauseRuledOut(cause.id, judgement.why))
        elif isinstance(judgement, NotEnough):
            next_evidence.extend(judgement.next_evidence)
    ranking = ranked(crash, findings, frozenset(ruled.cause for ruled in ruled_out))
    findings = ranking.findings
    next_evidence += [command for _, finding in findings for command in finding.next_evidence]
    if findings and (findings[0][1].pool or crash.pool) == "host_ram":
        cause, finding = findings[0]
        findings[0] = cause, replace(finding, why=joined((finding.why, of_low_limit(crash))))
    if findings and in_other_words(crash.root):
        cause, finding = findings[0]
        words = say("its words are none that we know; they were read as the nearest ones that we do")
        findings[0] = cause, replace(finding, against=(*finding.against, words))
    told = [
        remedies(cause.id, finding.knobs or cause.knobs, replace(crash, pool=finding.pool or crash.pool))
        for cause, finding in findings
    ]
    diagnoses = tuple(
        _diagnosis(cause, finding, answer.confidence, tuple(chosen), crash, ids)
        for answer, (cause, finding), (chosen, _) in zip(ranking.answers, findings, told, strict=True)
    )
    lacked = _gap(crash, findings, diagnoses)
    if lacked is not None:
        diagnoses = (replace(diagnoses[0], remedies=shown(diagnoses[0].remedies, lacked.alone)), *diagnoses[1:])
    verdict: Verdict = "oom" if is_shown(crash, (finding for _, finding in findings)) else "inconclusive"
    return Incident(
        id=name,
        verdict=verdict,
        cause_open=ranking.open,
        fingerprint=_fingerprint(crash, diagnoses),
        events=tuple(ids[id(event)] for event in crash.events),
        diagnoses=diagnoses,
        ruled_out=tuple(ruled_out),
        remedies_rejected=tuple(told[0][1]) if told else (),
        next_evidence=tuple(dict.fromkeys(next_evidence)) or (closing(crash) if ranking.open else ()),
        gap=lacked,
        ledger=tuple(_ledger(crash)),
        timeline=tuple(_timeline(crash, ids)),
        trajectory=_trajectory(crash.trajectory, limit_of(crash)),
    )


def _gap(crash: Crash, findings: list[tuple[Cause, Finding]], diagnoses: Sequence[Diagnosis]) -> Gap | None:
    """What was missing of the pool that the first cause is about."""
    if not findings:
        return None
    return gap(replace(crash, pool=findings[0][1].pool or crash.pool), diagnoses[0].remedies)


def _marked(finding: Finding, context: Context) -> Finding:
    """The finding with the settings and versions that it speaks of and that the log does not print."""
    named = [
        say("{name} ({why})", name=name, why=say("from {source}", source=source))
        for name, source in _sources(context).items()
        if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w.]\w)", finding.why)
    ]
    if not named:
        return finding
    return replace(finding, why=joined((finding.why, say("Not from the log: {names}.", names=listed(named)))))


def _diagnosis(
    cause: Cause, finding: Finding, confidence: float, chosen: tuple[Remedy, ...], crash: Crash, ids: dict[int, str]
) -> Diagnosis:
    return Diagnosis(
        cause=cause.id,
        title=translated(cause.title),
        explanation=finding.why,
        confidence=round(confidence, 2),
        pool=finding.pool or crash.pool,
        stage=finding.stage or crash.stage,
        evidence=tuple(
            Evidence(ids[id(event)], event.at.file, event.at.line, event.at.text)
            for event in finding.evidence
            if id(event) in ids
        ),
        against=finding.against,
        remedies=chosen,
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
            ledger.device,
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
        "points": [
            {"step": p.step, "bytes": p.bytes, "line": p.line, **({"text": p.text} if p.text else {})}
            for p in trajectory.points
        ],
        "full": asdict(full) if full is not None else None,
    }


def _advice(crashes: Sequence[Crash]) -> tuple[Quote, ...]:
    found = {
        (event.at.file, event.at.line, why): Quote(event.at.file, event.at.line, event.at.text, why)
        for crash in crashes
        for event, why in rejected_advice(crash)
    }
    return tuple(found.values())


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


def _sources(context: Context) -> dict[str, str]:
    """What the log does not print, and where it is from."""
    settings = {name: setting.outside for name, setting in context.settings.items() if setting.outside}
    return {**context.outside, **settings}


def _outside(context: Context) -> dict[str, str]:
    return {name: say("from {source}, not from the log", source=source) for name, source in _sources(context).items()}


def _context(context: Context) -> dict[str, Any]:
    return {
        "frameworks": dict(sorted(context.frameworks.items())),
        "settings": {name: setting.value for name, setting in context.settings.items()},
        "models": list(context.models),
        "hardware": dict(context.hardware),
        "exit_codes": list(context.exit_codes),
        "progress": dict(context.progress),
        "processes": {sanitize(name): list(pids) for name, pids in context.processes.items()},
        "memory": [_trajectory(figure) for figure in context.memory],
        **({"outside": outside} if (outside := _outside(context)) else {}),
    }
