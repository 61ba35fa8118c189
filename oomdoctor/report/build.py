"""What was decided and advised as a report: the contract's fields, log text quoted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from oomdoctor import __version__
from oomdoctor.families.event import Event, Lookalike, Place
from oomdoctor.incident.model import Crash
from oomdoctor.incident.nearby import nearby
from oomdoctor.job.model import Context
from oomdoctor.language import say, translated
from oomdoctor.report.contract import EventRecord, Incident, Line, Quote, Report, Stats
from oomdoctor.report.outlook import course
from oomdoctor.sources import Trouble
from oomdoctor.text import sanitize

if TYPE_CHECKING:
    from oomdoctor.remedies.advice import Advice


def build(
    advice: Sequence[Advice],
    lookalikes: Iterable[Lookalike],
    context: Context,
    errors: Sequence[Trouble],
    notes: Sequence[str],
    stats: Stats,
    ending: Place | None = None,
) -> Report:
    crashes = [one.decision.crash for one in advice]
    events, roots = _in_log_order(crashes), {id(crash.root) for crash in crashes}
    ids = {id(event): f"e{number}" for number, event in enumerate(events, start=1)}
    incidents, told = _incidents(advice, ids), tuple(lookalikes)
    if ending is not None and (incidents or any("caught" in x.why and x.at.text == ending.text for x in told)):
        ending = None
    return Report(
        tool={"name": "oomdoctor", "version": __version__},
        # Of what was never read nobody knows that it is healthy.
        verdict=incidents[0].verdict if incidents else "no-oom" if stats.bytes else "inconclusive",
        incidents=incidents,
        advice_rejected=_rejected_advice(advice),
        lookalikes=tuple(Quote(x.at.file, x.at.line, x.at.text, translated(x.why)) for x in told),
        events=tuple(_record(event, ids, nearby(event) if id(event) in roots else {}) for event in events),
        context=_context(context),
        errors=tuple(errors),
        notes=tuple(notes),
        stats=stats,
        last_error=Line(ending.file, ending.line, ending.text) if ending is not None else None,
    )


def _incidents(advice: Sequence[Advice], ids: dict[int, str]) -> tuple[Incident, ...]:
    if not advice:
        return ()
    from oomdoctor.report.incidents import incident  # noqa: PLC0415  (all the tables; most logs have no crash)

    return tuple(incident(f"i{number}", one, ids) for number, one in enumerate(advice, start=1))


def _in_log_order(crashes: Sequence[Crash]) -> list[Event]:
    found = {id(event): event for crash in crashes for event in crash.events}
    files = {event.at.file: None for event in found.values()}
    order = {file: number for number, file in enumerate(files)}
    return sorted(found.values(), key=lambda event: (order[event.at.file], event.at.line))


def _rejected_advice(advice: Iterable[Advice]) -> tuple[Quote, ...]:
    """Each line once, of however many crashes it is printed."""
    printed = (pair for one in advice for pair in one.printed)
    quotes = {
        (event.at.file, event.at.line, why): Quote(event.at.file, event.at.line, event.at.text, why)
        for event, why in printed
    }
    return tuple(quotes.values())


def _record(event: Event, ids: dict[int, str], near: Mapping[str, tuple[float, ...]]) -> EventRecord:
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
        near=near,
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
        "memory": [course(figure) for figure in context.memory],
        **({"outside": outside} if (outside := _outside(context)) else {}),
    }
