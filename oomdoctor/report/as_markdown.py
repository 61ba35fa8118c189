"""The report as Markdown: for an issue, a comment, a step's summary, and to be read unrendered in a chat or a mail.

No HTML, no line that only a renderer makes sense of. It is as long as GitHub takes, by whatever count: GitHub's pages
count characters, its forms turn a line's end into two, its database counts bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from oomdoctor.records import dataclass
from oomdoctor.remedies import Rejected, Remedy
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, Ledger, LedgerRow, Quote, Report
from oomdoctor.report.markup import cell, code, fenced, link, prose, shortened
from oomdoctor.report.words import (
    action,
    commands,
    enough,
    formula,
    growth,
    headline,
    left_open,
    nothing_found,
    root_of,
)
from oomdoctor.text import sanitize
from oomdoctor.units import percent, show

LIMIT: Final = 65_536  # what GitHub takes as the body of an issue or a comment
_NOTICE: Final = 1_500  # kept for the sentences that say what was left out

# How many of each a report holds at most that is to be read by others; a trimmed one holds less.
AGAINST: Final = 5
REMEDIES: Final = 12
QUOTES: Final = 20
LEDGERS: Final = 8
ROWS: Final = 40
MOMENTS: Final = 40
SETTINGS: Final = 200
REASONS: Final = 40
OTHERS: Final = 12
NAMES: Final = 40

LONGEST_NAME: Final = 300  # characters of a file's path
_WIDEST: Final = 48  # a column of a table is not filled up beyond this


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A section that can be shortened from its end."""

    title: str
    items: tuple[str, ...]
    most: int
    put: Callable[[Sequence[str]], str]
    what: str  # what its items are
    head: str = ""  # stands before the items, and as long as one of them does

    def text(self, kept: int) -> str:
        if not kept:
            return ""
        title = f"### {self.title}" if self.title else ""
        return "\n\n".join(piece for piece in (title, self.head, self.put(self.items[:kept])) if piece)


def document(report: Report, limit: int = LIMIT, *, redacted: bool = False) -> str:
    """`--format markdown`, of a report that is redacted already where it is to be; no longer than the limit."""
    first = report.incidents[0] if report.incidents else None
    head = "\n\n".join(_head(report, first) if first is not None else _healthy(report))
    foot = _foot(report, redacted=redacted)
    parts = [part for part in _parts(report, first) if part.items]
    kept = _fitting(parts, limit - size(head) - size(foot) - _NOTICE)
    bodies = [part.text(count) for part, count in zip(parts, kept, strict=True)]
    cut = [_left_out(part, count) for part, count in zip(parts, kept, strict=True) if count < len(part.items)]
    notice = " ".join(["Left out to keep this short:", *cut]) if cut else ""
    return "\n\n".join(piece for piece in (head, *bodies, notice, foot) if piece) + "\n"


def size(text: str) -> int:
    """The largest of the counts that GitHub may hold against it."""
    return len(text.encode("utf-8", "replace")) + text.count("\n")


def _fitting(parts: Sequence[Part], room: int) -> list[int]:
    """How many items of each part there is room for: the last ones give way first, wholly if need be."""
    kept = [min(len(part.items), part.most) for part in parts]
    sizes = [size(part.text(count)) + 4 for part, count in zip(parts, kept, strict=True)]
    for number in sorted(range(len(parts)), key=lambda number: -_KEPT_LONGEST.index(parts[number].title)):
        if sum(sizes) <= room:
            break
        others = sum(sizes) - sizes[number]
        kept[number] = _most(parts[number], kept[number], room - others)
        sizes[number] = size(parts[number].text(kept[number])) + 4
    return kept


def _most(part: Part, count: int, room: int) -> int:
    """The largest number of items with which the part takes no more room than that."""
    low, high = 0, count
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(part.text(middle)) + 4 <= room else (low, middle - 1)
    return low


def _left_out(part: Part, kept: int) -> str:
    return f'{len(part.items) - kept:,} of {len(part.items):,} {part.what} under "{part.title or "Why"}".'


# In the order in which they are read; the first needs no title ...
_WHY: Final = ""
_CHANGE: Final = "What to change"
_LEDGER: Final = "Where the memory was"
_EVIDENCE: Final = "What the log says"
_NEXT: Final = "What would tell more"
_NOT_THIS: Final = "What it is not"
_ALSO: Final = "Also possible"
_ENVIRONMENT: Final = "Environment"
_SETTINGS: Final = "Settings"
_TIMELINE: Final = "In the order of the log"
_CRASHES: Final = "Other crashes in it"
_LOOKALIKES: Final = "Looks like a memory failure and is none"
_NOTES: Final = "Notes"
# ... and in that in which they are kept
_KEPT_LONGEST: Final = (
    _WHY, _CHANGE, _EVIDENCE, _NOTES, _LEDGER, _NEXT, _ENVIRONMENT, _SETTINGS, _NOT_THIS, _ALSO, _CRASHES, _LOOKALIKES,
    _TIMELINE,
)  # fmt: skip


def _head(report: Report, incident: Incident) -> Iterator[str]:
    told, root = headline(report, incident), root_of(report, incident)
    where = f" ({_at(root.file, root.line)})" if root is not None else ""
    yield f"## {told.verdict}{': ' if told.words else ''}{prose(told.words)}{where}"
    if doubt := left_open(incident):
        yield doubt
    if incident.diagnoses:
        yield _cause(incident.diagnoses[0])


def _cause(diagnosis: Diagnosis) -> str:
    return f"**{prose(diagnosis.title)}** ({code(diagnosis.cause)}, {diagnosis.confidence:.0%} sure)"


def _reasons(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.explanation:
        yield prose(diagnosis.explanation)
    yield from (f"Against it: {prose(against)}" for against in diagnosis.against)


def _healthy(report: Report) -> Iterator[str]:
    told = nothing_found(report)
    yield f"## {told.verdict}{' ' if told.words else ''}{told.words}"


def _parts(report: Report, incident: Incident | None) -> Iterator[Part]:
    if incident is not None:
        yield from _parts_of(report, incident)
    context = report.context
    yield Part(title=_ENVIRONMENT, items=tuple(_environment(context)), most=NAMES, put=_lines, what="entries")
    settings = tuple(_settings(context))
    yield Part(title=_SETTINGS, items=settings, most=SETTINGS, put=_fence, what="settings")
    if incident is not None:
        yield _timeline(report, incident)
    others = tuple(_other(report, other) for other in report.incidents[1:])
    yield Part(title=_CRASHES, items=others, most=OTHERS, put=_lines, what="crashes")
    looks = tuple(f"{_quoted(quote)}: {code(quote.text, LONGEST_NAME)}" for quote in report.lookalikes)
    yield Part(title=_LOOKALIKES, items=looks, most=OTHERS, put=_lines, what="lines")
    notes = (*report.notes, *(f"{trouble.file}: {trouble.why}" for trouble in report.errors))
    yield Part(title=_NOTES, items=tuple(f"- {prose(note)}" for note in notes), most=OTHERS, put=_lines, what="notes")


def _parts_of(report: Report, incident: Incident) -> Iterator[Part]:
    best = incident.diagnoses[0] if incident.diagnoses else None
    remedies = best.remedies if best is not None else ()
    why = tuple(_reasons(best)) if best is not None else ()
    yield Part(title=_WHY, items=why, most=1 + AGAINST, put=_blocks, what="reasons")
    numbered = tuple(_remedy(number, remedy) for number, remedy in enumerate(remedies, start=1))
    said = enough(incident.gap, remedies)
    how_much = f"{prose(said.verdict)}: {prose(said.words)}" if said is not None else ""
    yield Part(title=_CHANGE, items=numbered, most=REMEDIES, put=_blocks, what="remedies", head=how_much)
    ledgers = tuple(_ledger(ledger) for ledger in incident.ledger)
    grown = incident.trajectory and incident.trajectory["points"] and prose(growth(incident.trajectory))
    yield Part(title=_LEDGER, items=ledgers, most=LEDGERS, put=_blocks, what="devices", head=grown or "")
    yield Part(title=_EVIDENCE, items=tuple(_excerpt(report, incident)), most=QUOTES, put=_fence, what="lines")
    to_run = tuple(sanitize(command) for command in commands(incident, remedies))
    yield Part(title=_NEXT, items=to_run, most=QUOTES, put=_fence, what="commands")
    not_this = (
        *(f"- {code(ruled.cause)}: {prose(ruled.why)}" for ruled in incident.ruled_out),
        *(_rejected(one) for one in incident.remedies_rejected),
        *(f"- Printed advice that does not apply, {_quoted(quote)[2:]}" for quote in report.advice_rejected),
    )
    yield Part(title=_NOT_THIS, items=not_this, most=REASONS, put=_lines, what="reasons")
    also = tuple("\n\n".join((_cause(other), *_reasons(other))) for other in incident.diagnoses[1:])
    yield Part(title=_ALSO, items=also, most=OTHERS, put=_blocks, what="causes")


def _blocks(items: Sequence[str]) -> str:
    return "\n\n".join(items)


def _lines(items: Sequence[str]) -> str:
    return "\n".join(items)


def _fence(items: Sequence[str]) -> str:
    return fenced("\n".join(items))


def _remedy(number: int, remedy: Remedy) -> str:
    margin = " " * len(f"{number}. ")
    pieces = [f"{number}. {prose(action(remedy))}"]
    if remedy.snippet:
        pieces.append(fenced(remedy.snippet, indent=len(margin)))
    reasons = [
        f"Why this value: {prose(formula(remedy))}" if formula(remedy) else "",
        f"Costs: {prose(remedy.cost)}" if remedy.cost not in ("", "none") else "",
        *(f"Assumes: {prose(text)}" for text in remedy.assumes),
        f"See {link(remedy.reference)}" if remedy.reference else "",
    ]
    pieces += [f"{margin}- {reason}" for reason in reasons if reason]
    return "\n".join(pieces)


def _rejected(rejected: Rejected) -> str:
    knob = KNOBS.get(rejected.knob)
    words = f"{prose(knob.action)} ({code(rejected.knob)})" if knob is not None else code(rejected.knob)
    return f"- Not advised: {words}: {prose(rejected.why)}"


def _quoted(quote: Quote) -> str:
    return f"- {_at(quote.file, quote.line)}: {prose(quote.why)}"


def _excerpt(report: Report, incident: Incident) -> Iterator[str]:
    """The lines that the first diagnosis rests on and what began the crash, as grep would print them."""
    root = root_of(report, incident)
    found = {(one.file, one.line): one.text for one in (incident.diagnoses[0].evidence if incident.diagnoses else ())}
    if root is not None:
        found.setdefault((root.file, root.line), root.text)
    for (file, line), text in found.items():
        yield f"{sanitize(file)}:{line}: {sanitize(text).strip()}"


def _ledger(ledger: Ledger) -> str:
    total = f"{show(ledger.total_bytes)} of " if ledger.total_bytes is not None else ""
    rows = [_row(row, ledger.total_bytes) for row in ledger.rows[:ROWS]]
    if len(ledger.rows) > ROWS:
        rest = sum(row.bytes or 0 for row in ledger.rows[ROWS:])
        rows.append((f"{len(ledger.rows) - ROWS} more", show(rest), "", ""))
    if ledger.unexplained_bytes:
        over = "not explained" if ledger.unexplained_bytes > 0 else "more than there is, by"
        rows.append((over, show(abs(ledger.unexplained_bytes)), "", ""))
    return f"{total}{prose(ledger.device)}\n\n{_table(('What', 'Size', 'Share', 'How this is known'), rows)}"


def _row(row: LedgerRow, total: int | None) -> tuple[str, ...]:
    share = percent(row.bytes / total) if total and row.bytes is not None else ""
    line = f", line {row.line}" if row.line is not None else ""
    why = f": {row.derivation}" if row.derivation else ""
    return prose(row.what), "unknown" if row.bytes is None else show(row.bytes), share, prose(f"{row.basis}{line}{why}")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that can be read unrendered."""
    lines = [tuple(map(cell, row)) for row in (head, *rows)]
    widths = [max(3, *(min(len(line[column]), _WIDEST) for line in lines)) for column in range(len(head))]
    ruler = tuple("-" * width for width in widths)
    return "\n".join(
        f"| {' | '.join(word.ljust(width) for word, width in zip(line, widths, strict=True))} |"
        for line in (lines[0], ruler, *lines[1:])
    )


def _timeline(report: Report, incident: Incident) -> Part:
    events = {event.id: event for event in report.events}
    rows = [
        _moment(events[moment.event], moment.role, moment.time)
        for moment in incident.timeline
        if moment.event in events
    ]
    head = ("Where", "When", "Role", "What")
    lines = _table(head, rows).split("\n")
    return Part(
        title=_TIMELINE,
        items=tuple(lines[2:]),
        most=MOMENTS,
        put=lambda items: "\n".join([*lines[:2], *items]),
        what="events",
    )


def _moment(event: EventRecord, role: str, time: str | None) -> tuple[str, ...]:
    name, pid = event.process.get("name"), event.process.get("pid")
    number = prose(f"(PID {pid})") if isinstance(pid, int) else ""
    times = prose(f"{event.repeats} times") if event.repeats > 1 else ""
    who = " ".join(piece for piece in (code(str(name or "")), number) if piece)
    return (
        _at(event.file, event.line),
        code(time or ""),
        role,
        ", ".join(piece for piece in (event.kind, who, times) if piece),
    )


def _environment(context: Mapping[str, Any]) -> Iterator[str]:
    frameworks, hardware, progress = (context.get(name) or {} for name in ("frameworks", "hardware", "progress"))
    for title, found in (
        ("Software", {name: f"{name} {version}" if version else name for name, version in frameworks.items()}),
        ("Hardware", {name: f"{name}: {value}" for name, value in hardware.items()}),
        ("Models", {name: name for name in context.get("models") or ()}),
        ("Progress", {name: f"{name} {value}" for name, value in progress.items()}),
        ("Exit codes", {str(number): str(number) for number in context.get("exit_codes") or ()}),
    ):
        if found:
            yield f"- {title}: {', '.join(_known(context, name, what) for name, what in islice(found.items(), NAMES))}"


def _known(context: Mapping[str, Any], name: str, what: str) -> str:
    source = (context.get("outside") or {}).get(name)
    return f"{code(what)} ({prose(source)})" if source else code(what)


def _settings(context: Mapping[str, Any]) -> Iterator[str]:
    outside: Mapping[str, str] = context.get("outside") or {}
    for name, value in (context.get("settings") or {}).items():
        source = f"  ({sanitize(outside[name])})" if name in outside else ""
        yield f"{sanitize(str(name))} = {sanitize(str(value))}{source}"


def _other(report: Report, incident: Incident) -> str:
    root = root_of(report, incident)
    where = f"{_at(root.file, root.line)}: " if root is not None else ""
    told = headline(report, incident)
    best = incident.diagnoses[0] if incident.diagnoses else None
    cause = f" ({code(best.cause)}, {best.confidence:.0%} sure)" if best is not None else ""
    words = best.title if best is not None else told.words or told.verdict
    return f"- {where}{prose(words)}{cause}, fingerprint {code(incident.fingerprint)}"


def _foot(report: Report, *, redacted: bool) -> str:
    version = report.tool.get("version", "")
    made = f"Made by oomdoctor {version}." if version else "Made by oomdoctor."
    what = (
        "What looked secret or personal is replaced by names such as `<HOST-1>`."
        if redacted
        else "Nothing in it is redacted: read it before you share it."
    )
    if not report.incidents:
        return f"{made} {what}"
    return f"Fingerprint: {code(report.incidents[0].fingerprint)}\n\n{made} {what}"


def _at(file: str, line: int) -> str:
    return code(f"{shortened(file, LONGEST_NAME)}:{line}")
