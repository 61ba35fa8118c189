"""The report as the contract names it: what the renderers print and what the library returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from oomdoctor.decision import Verdict
from oomdoctor.job.model import Value
from oomdoctor.remedies import Gap, Rejected, Remedy
from oomdoctor.sources import Trouble

SCHEMA_VERSION = 1


class Evidence(Struct, frozen=True):
    event: str
    file: str
    line: int
    text: str


class Diagnosis(Struct, frozen=True, kw_only=True):
    cause: str
    headline: str  # of this crash: who, which memory, how much, doing what
    title: str  # of the cause, whatever the crash
    explanation: str
    confidence: float
    pool: str
    stage: str
    evidence: tuple[Evidence, ...]
    against: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    grade: str | None = None  # how sure the sign that carries it makes alone; None where the classifier alone names it
    signs: tuple[str, ...] = ()  # the name of that sign, and of those against it
    ahead: str = ""  # why it stands before the next one; empty of the last


class CauseRuledOut(Struct, frozen=True):
    cause: str
    why: str


class Quote(Struct, frozen=True):
    """A line of the log and what the report has to say of it: a lookalike, or printed advice that does not apply."""

    file: str
    line: int
    text: str
    why: str


class Line(Struct, frozen=True):
    """A line of a log."""

    file: str
    line: int
    text: str


class LedgerRow(Struct, frozen=True):
    what: str
    bytes: int | None
    basis: str
    line: int | None
    derivation: str | None = None


class Ledger(Struct, frozen=True):
    pool: str
    device: str
    total_bytes: int | None
    rows: tuple[LedgerRow, ...]
    unexplained_bytes: int | None


class Moment(Struct, frozen=True):
    event: str
    role: str
    time: str | None
    after_seconds: float | None = None  # since the first failure, where both times are of one clock


class EventRecord(Struct, frozen=True, kw_only=True):
    id: str
    family: str
    kind: str
    role: str
    file: str
    line: int
    end_line: int
    time: str | None
    stage: str
    text: str
    repeats: int
    process: Mapping[str, Value]
    usage: Mapping[str, Any]
    threshold: Mapping[str, Any]
    fields: Mapping[str, Any]
    near: Mapping[str, tuple[Value, ...]] = {}  # of what failed first: the figures printed around it, by their names


class DoingRecord(Struct, frozen=True):
    stage: str
    step: str | None  # the verb, often finer than the stage
    because: str | None  # the frame or the line that says so


class JobRecord(Struct, frozen=True):
    """What kind of job it was, and what it was doing."""

    world: str  # what its arrays are
    task: str  # what it is run for
    engine: str | None  # the inference engine in it, where its name is known
    doing: DoingRecord


class Incident(Struct, frozen=True, kw_only=True):
    id: str
    verdict: Verdict
    headline: str  # the first diagnosis'; of a death that nothing explains, who died of what signal
    cause_open: bool  # the log leaves the cause open: what stands first is the likeliest, `next_evidence` would tell
    fingerprint: str
    events: tuple[str, ...]
    diagnoses: tuple[Diagnosis, ...]
    ruled_out: tuple[CauseRuledOut, ...]
    remedies_rejected: tuple[Rejected, ...]
    next_evidence: tuple[str, ...]
    gap: Gap | None
    ledger: tuple[Ledger, ...]
    timeline: tuple[Moment, ...]
    trajectory: Mapping[str, Any] | None
    job: JobRecord
    evidence_node: str | None = None  # the node that `next_evidence` is about, where the log names it


class Stats(Struct, frozen=True):
    bytes: int
    lines: int | None
    files: int
    events: int
    raylet_logs: int = 0  # files that are a raylet's own log


class Report(Struct, frozen=True, kw_only=True):
    verdict: Verdict
    incidents: tuple[Incident, ...]
    advice_rejected: tuple[Quote, ...]
    lookalikes: tuple[Quote, ...]
    events: tuple[EventRecord, ...]
    context: Mapping[str, Any]
    errors: tuple[Trouble, ...]
    notes: tuple[str, ...]  # what the reader should know of the input: cut by `ray logs`, NUL blocks, ...
    stats: Stats
    last_error: Line | None = None  # what a log without a memory failure ends with
    schema_version: int = SCHEMA_VERSION
    tool: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The report as the contract writes it, the first incident's fields again at the top."""
        body: dict[str, Any] = _plain(self)
        first = body["incidents"][0] if body["incidents"] else {}
        for name in ("diagnoses", "ruled_out", "remedies_rejected", "next_evidence", "ledger", "timeline"):
            body[name] = first.get(name, [])
        for name in ("trajectory", "gap"):
            body[name] = first.get(name)
        return body


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value
