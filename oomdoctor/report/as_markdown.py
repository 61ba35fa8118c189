"""The report as Markdown: for an issue, a comment, a step's summary, and to be read unrendered in a chat or a mail.

No HTML, no line that only a renderer makes sense of. It is as long as GitHub takes, by whatever count: GitHub's pages
count characters, its forms turn a line's end into two, its database counts bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.columns import cells, filled
from oomdoctor.job.names import row as row_name
from oomdoctor.language import joined, listed, mark, say, translated
from oomdoctor.remedies import Rejected, Remedy
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, Ledger, LedgerRow, Moment, Quote, Report
from oomdoctor.report.markup import cell, code, fenced, link, prose, shortened
from oomdoctor.report.next_step import next_step
from oomdoctor.report.words import (
    action,
    also_possible,
    commands,
    costs,
    enough,
    formula,
    growing,
    growth,
    headline,
    how_it_ended,
    message,
    nothing_in_a_line,
    open_question,
    root_of,
    since,
    sure,
    verdict,
    who,
    worth_doing,
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


class Part(Struct, frozen=True, kw_only=True):
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
        title = f"### {translated(self.title)}" if self.title else ""
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
    notice = joined([say("Left out to keep this short:"), *cut]) if cut else ""
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
    return say(
        '{left:,} of {all:,} {what} under "{title}".',
        left=len(part.items) - kept,
        all=len(part.items),
        what=translated(part.what),
        title=translated(part.title or mark("Why")),
    )


# In the order in which they are read; the first needs no title ...
_WHY: Final = ""
_CHANGE: Final = mark("What to change")
_IF_MEMORY: Final = mark("If it was memory")
_LEDGER: Final = mark("Where the memory was")
_EVIDENCE: Final = mark("What the log says")
_NEXT: Final = mark("What would tell more")
_NOT_THIS: Final = mark("What it is not")
_ALSO: Final = mark("Also possible")
_ENVIRONMENT: Final = mark("Environment")
_SETTINGS: Final = mark("Settings")
_TIMELINE: Final = mark("In the order of the log")
_CRASHES: Final = mark("Other crashes in it")
_LOOKALIKES: Final = mark("Not a memory failure")
_NOTES: Final = mark("Notes")
# ... and in that in which they are kept
_KEPT_LONGEST: Final = (
    _WHY, _CHANGE, _IF_MEMORY, _EVIDENCE, _NOTES, _LEDGER, _NEXT, _ENVIRONMENT, _SETTINGS, _NOT_THIS, _ALSO, _CRASHES,
    _LOOKALIKES, _TIMELINE,
)  # fmt: skip


def _head(report: Report, incident: Incident) -> Iterator[str]:
    told, root = headline(incident), root_of(report, incident)
    where = f" ({_at(root.file, root.line)})" if root is not None else ""
    yield f"## {verdict(replace(told, words=prose(told.words)))}{where}"
    if incident.diagnoses:
        yield _cause(incident, incident.diagnoses[0])
    if question := open_question(incident):
        yield prose(question)


def _cause(incident: Incident, diagnosis: Diagnosis) -> str:
    return say(
        "**{title}** ({cause}, {sure})",
        title=prose(diagnosis.title),
        cause=code(diagnosis.cause),
        sure=sure(incident, diagnosis),
    )


def _reasons(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.explanation:
        yield prose(diagnosis.explanation)
    yield from (say("Against it: {reason}", reason=prose(against)) for against in diagnosis.against)


def _healthy(report: Report) -> Iterator[str]:
    yield f"## {nothing_in_a_line(report)}"
    if report.last_error is not None:
        place = _at(report.last_error.file, report.last_error.line)
        text = code(message(report.last_error.text), LONGEST_NAME)
        yield how_it_ended(report, report.last_error, say("{name}: {why}", name=place, why=text))
        if step := next_step(report):
            yield prose(step.words)
            yield fenced(step.command)
    yield from map(prose, growing(report))


def _parts(report: Report, incident: Incident | None) -> Iterator[Part]:
    if incident is not None:
        yield from _parts_of(report, incident)
    context = report.context
    yield Part(title=_ENVIRONMENT, items=tuple(_environment(context)), most=NAMES, put=_lines, what=mark("entries"))
    settings = tuple(_settings(context))
    yield Part(title=_SETTINGS, items=settings, most=SETTINGS, put=_fence, what=mark("settings"))
    if incident is not None:
        yield _timeline(report, incident)
    others = tuple(_other(report, other) for other in report.incidents[1:])
    yield Part(title=_CRASHES, items=others, most=OTHERS, put=_lines, what=mark("crashes"))
    looks = tuple(
        say("{line}: {text}", line=_quoted(quote), text=code(quote.text, LONGEST_NAME)) for quote in report.lookalikes
    )
    yield Part(title=_LOOKALIKES, items=looks, most=OTHERS, put=_lines, what=mark("lines"))
    notes = (*report.notes, *(f"{trouble.file}: {trouble.why}" for trouble in report.errors))
    yield Part(
        title=_NOTES, items=tuple(f"- {prose(note)}" for note in notes), most=OTHERS, put=_lines, what=mark("notes")
    )


def _parts_of(report: Report, incident: Incident) -> Iterator[Part]:
    best = incident.diagnoses[0] if incident.diagnoses else None
    remedies = worth_doing(incident, best) if best is not None else ()
    why = tuple(_reasons(best)) if best is not None else ()
    yield Part(title=_WHY, items=why, most=1 + AGAINST, put=_blocks, what=mark("reasons"))
    numbered = tuple(_remedy(number, remedy) for number, remedy in enumerate(remedies, start=1))
    said = enough(incident.gap, remedies)
    how_much = say("{name}: {why}", name=prose(said.verdict), why=prose(said.words)) if said is not None else ""
    to_run = tuple(sanitize(command) for command in commands(incident, remedies))
    to_tell = Part(title=_NEXT, items=to_run, most=QUOTES, put=_fence, what=mark("commands"))
    guess = incident.verdict == "inconclusive"
    if guess:
        yield to_tell
    title = _IF_MEMORY if guess else _CHANGE
    yield Part(title=title, items=numbered, most=REMEDIES, put=_blocks, what=mark("remedies"), head=how_much)
    ledgers = tuple(_ledger(ledger) for ledger in incident.ledger)
    grown = incident.trajectory and incident.trajectory["points"] and prose(growth(incident.trajectory))
    yield Part(title=_LEDGER, items=ledgers, most=LEDGERS, put=_blocks, what=mark("devices"), head=grown or "")
    yield Part(title=_EVIDENCE, items=tuple(_excerpt(report, incident)), most=QUOTES, put=_fence, what=mark("lines"))
    if not guess:
        yield to_tell
    not_this = (
        *(f"- {say('{name}: {why}', name=code(ruled.cause), why=prose(ruled.why))}" for ruled in incident.ruled_out),
        *(_rejected(one) for one in incident.remedies_rejected),
        *(say("- Ignore this hint in the log, {what}", what=_quoted(q)[2:]) for q in report.advice_rejected),
    )
    yield Part(title=_NOT_THIS, items=not_this, most=REASONS, put=_lines, what=mark("reasons"))
    also = tuple("\n\n".join((_cause(incident, other), *_reasons(other))) for other in also_possible(incident))
    yield Part(title=_ALSO, items=also, most=OTHERS, put=_blocks, what=mark("causes"))


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
        say("Why this value: {formula}", formula=prose(formula(remedy))) if formula(remedy) else "",
        say("Cost: {cost}", cost=prose(remedy.cost)) if costs(remedy) else "",
        *(say("Assumes: {assumption}", assumption=prose(text)) for text in remedy.assumes),
        say("See {link}", link=link(remedy.reference)) if remedy.reference else "",
    ]
    pieces += [f"{margin}- {reason}" for reason in reasons if reason]
    return "\n".join(pieces)


def _rejected(rejected: Rejected) -> str:
    knob = KNOBS.get(rejected.knob)
    name = code(rejected.knob)
    words = say("{name} ({why})", name=prose(translated(knob.action)), why=name) if knob is not None else name
    return say("- Not advised: {what}: {why}", what=words, why=prose(rejected.why))


def _quoted(quote: Quote) -> str:
    return f"- {say('{name}: {why}', name=_at(quote.file, quote.line), why=prose(quote.why))}"


def _excerpt(report: Report, incident: Incident) -> Iterator[str]:
    """The lines that the first diagnosis rests on and what began the crash, as grep would print them."""
    root = root_of(report, incident)
    found = {(one.file, one.line): one.text for one in (incident.diagnoses[0].evidence if incident.diagnoses else ())}
    if root is not None:
        found.setdefault((root.file, root.line), root.text)
    for (file, line), text in found.items():
        yield f"{sanitize(file)}:{line}: {sanitize(text).strip()}"


def _ledger(ledger: Ledger) -> str:
    device = prose(ledger.device)
    if ledger.total_bytes is not None:
        device = say("{size} of {device}", size=show(ledger.total_bytes), device=device)
    rows = [_row(row, ledger.total_bytes) for row in ledger.rows[:ROWS]]
    if len(ledger.rows) > ROWS:
        rest = sum(row.bytes or 0 for row in ledger.rows[ROWS:])
        rows.append((say("{count} more", count=len(ledger.rows) - ROWS), show(rest), "", ""))
    if ledger.unexplained_bytes:
        over = say("not explained") if ledger.unexplained_bytes > 0 else say("more than there is, by")
        rows.append((over, show(abs(ledger.unexplained_bytes)), "", ""))
    head = (say("What"), say("Size"), say("Share"), say("How this is known"))
    return f"{device}\n\n{_table(head, rows)}"


def _row(row: LedgerRow, total: int | None) -> tuple[str, ...]:
    share = percent(row.bytes / total) if total and row.bytes is not None else ""
    known = translated(row.basis)
    if row.line is not None:
        known = say("{basis}, line {number}", basis=known, number=row.line)
    if row.derivation:
        known = say("{name}: {why}", name=known, why=row.derivation)
    size = say("unknown") if row.bytes is None else show(row.bytes)
    return prose(row_name(row.what)), size, share, prose(known)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that can be read unrendered."""
    lines = [tuple(map(cell, row)) for row in (head, *rows)]
    widths = [max(3, *(min(cells(line[column]), _WIDEST) for line in lines)) for column in range(len(head))]
    ruler = tuple("-" * width for width in widths)
    return "\n".join(
        f"| {' | '.join(filled(word, width) for word, width in zip(line, widths, strict=True))} |"
        for line in (lines[0], ruler, *lines[1:])
    )


def _timeline(report: Report, incident: Incident) -> Part:
    events = {event.id: event for event in report.events}
    rows = [_moment(events[moment.event], moment) for moment in incident.timeline if moment.event in events]
    head = (say("Where"), say("When"), say("Role"), say("What"))
    lines = _table(head, rows).split("\n")
    return Part(
        title=_TIMELINE,
        items=tuple(lines[2:]),
        most=MOMENTS,
        put=lambda items: "\n".join([*lines[:2], *items]),
        what=mark("events"),
    )


def _moment(event: EventRecord, moment: Moment) -> tuple[str, ...]:
    times = [prose(say("{count} times", count=event.repeats))] if event.repeats > 1 else []
    when = [piece for piece in (code(moment.time or ""), since(moment)) if piece]
    return (
        _at(event.file, event.line),
        listed(when),
        translated(moment.role),
        listed([event.kind, *who(event, code), *times]),
    )


def _environment(context: Mapping[str, Any]) -> Iterator[str]:
    frameworks, hardware, progress = (context.get(name) or {} for name in ("frameworks", "hardware", "progress"))
    for title, found in (
        (say("Software"), {name: f"{name} {version}" if version else name for name, version in frameworks.items()}),
        (say("Hardware"), {name: f"{name}: {value}" for name, value in hardware.items()}),
        (say("Models"), {name: name for name in context.get("models") or ()}),
        (say("Progress"), {name: f"{name} {value}" for name, value in progress.items()}),
        (say("Exit codes"), {str(number): str(number) for number in context.get("exit_codes") or ()}),
    ):
        if found:
            names = listed(_known(context, name, what) for name, what in islice(found.items(), NAMES))
            yield f"- {say('{name}: {why}', name=title, why=names)}"


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
    words = prose(verdict(headline(incident)))
    if incident.diagnoses:
        best = incident.diagnoses[0]
        words = say("{title} ({cause}, {sure})", title=words, cause=code(best.cause), sure=sure(incident, best))
    if root is not None:
        words = say("{name}: {why}", name=_at(root.file, root.line), why=words)
    return say("- {crash}, fingerprint {fingerprint}", crash=words, fingerprint=code(incident.fingerprint))


def _foot(report: Report, *, redacted: bool) -> str:
    version = report.tool.get("version", "")
    made = say("Made by oomdoctor {version}.", version=version) if version else say("Made by oomdoctor.")
    what = (
        say("What looked secret or personal is replaced by names such as `<HOST-1>`.")
        if redacted
        else say("Nothing in it is redacted: read it before you share it.")
    )
    told = joined([made, what])
    if not report.incidents:
        return told
    print_ = say("Fingerprint: {fingerprint}", fingerprint=code(report.incidents[0].fingerprint))
    return f"{print_}\n\n{told}"


def _at(file: str, line: int) -> str:
    return code(f"{shortened(file, LONGEST_NAME)}:{line}")
