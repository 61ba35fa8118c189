"""The report for a person at a terminal: one screen of it, or all of it."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from oomdoctor.remedies import Remedy
from oomdoctor.report.contract import Diagnosis, Incident, Ledger, LedgerRow, Quote, Report
from oomdoctor.report.vocabulary import POOLS, STAGES
from oomdoctor.text import sanitize
from oomdoctor.units import show

# How many of each the one screen holds; everything is there with -v.
REMEDIES = 3
LEDGER_ROWS = 5
QUOTES = 2
COMMANDS = 3

# Under this confidence the report says what to look at next even where it has an answer.
SURE = 0.5

BAR = 60  # characters of the ledger's bar where there is room
_FILLS = ("█▓▒░▚▞", "#=+:%o")
_COLORS = ("red", "yellow", "blue", "magenta", "cyan", "white")
_FREE = ("·", ".")


@dataclass(frozen=True, slots=True)
class Page:
    """What the text is set on."""

    width: int
    unicode: bool
    verbose: bool

    def some(self, number: int) -> int | None:
        """The end of a slice: so many on one screen, all of them with -v."""
        return None if self.verbose else number


def rendered(report: Report, *, width: int, color: bool, unicode: bool, verbose: bool) -> str:
    """The report as a string, for a terminal or a file of that width."""
    return drawn(renderables(report, Page(width, unicode, verbose)), width=width, color=color)


def drawn(parts: Iterable[RenderableType], *, width: int, color: bool) -> str:
    """The parts one under the other; unbreakable lines stay whole, so that they can be copied."""
    canvas = io.StringIO()
    console = Console(
        file=canvas,
        width=width,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
    )
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text) and bool(part.no_wrap))
    return "".join(line.rstrip() + "\n" for line in canvas.getvalue().splitlines())


def renderables(report: Report, page: Page) -> list[RenderableType]:
    """The report's parts, top to bottom."""
    return list(_report(report, page))


def _report(report: Report, page: Page) -> Iterator[RenderableType]:
    if not report.incidents:
        yield from _healthy(report)
    for incident in report.incidents[: page.some(1)]:
        yield from _incident(report, incident, page)
        yield Text()
    yield from _others(report, page)
    yield from _quotes("Printed advice that does not apply", report.advice_rejected, page)
    yield from _quotes("Looks like a memory failure and is none", report.lookalikes, page)
    for note in report.notes:
        yield _line(("Note: ", "bold"), note)
    if page.verbose:
        yield from _context(report)
    yield from _footer(report, page)


def _healthy(report: Report) -> Iterator[RenderableType]:
    if report.errors and not report.stats.bytes:
        yield _line(("NOTHING READ", "bold yellow"))
        return
    read = f" in {report.stats.files} files" if report.stats.files > 1 else ""
    yield _line(("NO MEMORY FAILURE", "bold green"), read)


def _incident(report: Report, incident: Incident, page: Page) -> Iterator[RenderableType]:
    best = incident.diagnoses[0] if incident.diagnoses else None
    yield _verdict(report, incident, best)
    if best is not None:
        yield from _diagnosis(best, page)
    for ledger in incident.ledger[: page.some(1)]:
        yield Text()
        yield from _ledger(ledger, page)
    if best is not None and best.remedies:
        yield Text()
        yield from _remedies(best.remedies, page)
    if incident.next_evidence and (page.verbose or best is None or best.confidence < SURE):
        yield Text()
        yield _heading("What would tell more")
        for command in incident.next_evidence[: page.some(COMMANDS)]:
            yield _to_copy(command)
    yield from _behind(incident, page)


def _verdict(report: Report, incident: Incident, best: Diagnosis | None) -> RenderableType:
    record = next((e for e in report.events if e.id in incident.events and e.role == "root"), None)
    where = f"  ({record.file}:{record.line})" if record is not None else ""
    if incident.verdict == "inconclusive":
        return _line(
            ("CANNOT TELL", "bold yellow"), ": something died, and the log does not show of what", (where, "dim")
        )
    if best is None:
        return _line(("OUT OF MEMORY", "bold red"), (where, "dim"))
    stage = STAGES.get(best.stage, "")
    what = POOLS.get(best.pool, best.pool) if best.pool != "none" else ""
    head = "NOT SCHEDULED" if best.pool == "scheduling" else "OUT OF MEMORY"
    ran_out = f": {what} ran out" if what else ""
    return _line((head, "bold red"), ran_out, f" {stage}" if stage else "", (where, "dim"))


def _diagnosis(diagnosis: Diagnosis, page: Page) -> Iterator[RenderableType]:
    sure = f"  [{diagnosis.cause}, {diagnosis.confidence:.0%} sure]"
    yield _line((diagnosis.title, "bold"), (sure, "dim"))
    yield _line(diagnosis.explanation, indent=2)
    for against in diagnosis.against:
        yield _line("Against it: ", against, indent=2)
    for evidence in diagnosis.evidence[: page.some(QUOTES)]:
        yield _quoted(evidence.file, evidence.line, evidence.text, page)


def _ledger(ledger: Ledger, page: Page) -> Iterator[RenderableType]:
    total = f" of {show(ledger.total_bytes)}" if ledger.total_bytes is not None else ""
    yield _line(("Where the memory was", "bold"), f"  {ledger.device}{total}")
    shown, rest = _largest(ledger, page)
    fills = {row.what: _fill(number, row, page) for number, row in enumerate(shown)}
    if ledger.total_bytes:
        yield _bar(ledger.total_bytes, shown, fills, page)
    name_width = min(max((cell_len(row.what) for row in shown), default=0), max(page.width // 2, 12))
    for row in shown:
        fill, color = fills[row.what]
        yield _line((fill, color), " ", _row(row, ledger.total_bytes, name_width, page), indent=2)
    if rest:
        yield _line(
            (f"and {len(rest)} smaller ones, {show(sum(row.bytes or 0 for row in rest))} together", "dim"), indent=4
        )
    if ledger.unexplained_bytes:
        what = "not explained" if ledger.unexplained_bytes > 0 else "more than there is, by"
        yield _line((f"{what} {show(abs(ledger.unexplained_bytes))}", "dim"), indent=4)


def _largest(ledger: Ledger, page: Page) -> tuple[list[LedgerRow], list[LedgerRow]]:
    if page.verbose or len(ledger.rows) <= LEDGER_ROWS + 1:
        return list(ledger.rows), []
    kept = sorted(ledger.rows, key=lambda row: -(row.bytes or 0))[:LEDGER_ROWS]
    return [row for row in ledger.rows if row in kept], [row for row in ledger.rows if row not in kept]


def _fill(number: int, row: LedgerRow, page: Page) -> tuple[str, str]:
    style = 0 if page.unicode else 1
    if row.what.startswith("free"):
        return _FREE[style], "green"
    return _FILLS[style][number % len(_FILLS[style])], _COLORS[number % len(_COLORS)]


def _bar(total: int, rows: Sequence[LedgerRow], fills: dict[str, tuple[str, str]], page: Page) -> RenderableType:
    cells = max(1, min(BAR, page.width - 4))
    bar = Text("  [" if not page.unicode else "  ")
    used = 0
    for row in rows:
        wanted = round((row.bytes or 0) * cells / total)
        length = max(0, min(wanted, cells - used))
        used += length
        fill, color = fills[row.what]
        bar.append(fill * length, color)
    bar.append(" " * (cells - used) + ("]" if not page.unicode else ""))
    return bar


def _row(row: LedgerRow, total: int | None, name_width: int, page: Page) -> str:
    size = "not printed" if row.bytes is None else show(row.bytes)
    share = f"{row.bytes / total:>5.0%}" if row.bytes is not None and total else ""
    basis = "" if row.basis == "printed" or row.bytes is None else f"  {row.basis}"
    line = f"  line {row.line}" if row.line is not None and page.verbose else ""
    return f"{set_cell_size(sanitize(row.what), name_width)}  {size:>11} {share}{basis}{line}"


def _remedies(remedies: Sequence[Remedy], page: Page) -> Iterator[RenderableType]:
    yield _heading("What to change")
    for number, remedy in enumerate(remedies[: page.some(REMEDIES)], start=1):
        yield _line((f"{number}. ", "bold"), (remedy.action, "bold"), indent=2)
        for line in (remedy.snippet or "").splitlines():
            yield _to_copy(line, indent=5)
        why = [remedy.derivation or "", f"Costs: {remedy.cost}" if remedy.cost else ""]
        if any(why):
            yield _line((". ".join(part.rstrip(".") for part in why if part), "dim"), indent=5)
        if page.verbose:
            for assumption in remedy.assumes:
                yield _line(("Assumes: " + assumption, "dim"), indent=5)
            if remedy.reference:
                yield _line((remedy.reference, "dim"), indent=5)


def _behind(incident: Incident, page: Page) -> Iterator[RenderableType]:
    """What stands behind the answer: the other causes that fit, and those that do not."""
    also = incident.diagnoses[1:]
    if not (also or incident.ruled_out or (page.verbose and incident.remedies_rejected)):
        return
    yield Text()
    for diagnosis in also:
        if page.verbose:
            yield from _diagnosis(diagnosis, page)
            if diagnosis.remedies:
                yield from _remedies(diagnosis.remedies, page)
    if also and not page.verbose:
        names = ", ".join(f"{d.cause} ({d.confidence:.0%})" for d in also)
        yield _line(("Also possible: ", "bold"), names)
    if incident.ruled_out and not page.verbose:
        first = incident.ruled_out[0]
        others = "".join(f", {ruled.cause}" for ruled in incident.ruled_out[1:])
        yield _line(("Ruled out: ", "bold"), f"{first.cause} ({first.why}){others}")
    if page.verbose:
        for ruled in incident.ruled_out:
            yield _line(("Ruled out: ", "bold"), f"{ruled.cause}: {ruled.why}")
        for rejected in incident.remedies_rejected:
            yield _line(("Not advised: ", "bold"), f"{rejected.knob}: {rejected.why}")
        yield _line(("In the order of the log: ", "bold"), ", ".join(f"{m.event} {m.role}" for m in incident.timeline))


def _others(report: Report, page: Page) -> Iterator[RenderableType]:
    for incident in report.incidents[1:] if not page.verbose else ():
        best = incident.diagnoses[0] if incident.diagnoses else None
        record = next((e for e in report.events if e.id in incident.events), None)
        where = f" at {record.file}:{record.line}" if record is not None else ""
        yield _line(("Another crash", "bold"), f"{where}: {best.title if best else incident.verdict}")


def _quotes(title: str, quotes: Sequence[Quote], page: Page) -> Iterator[RenderableType]:
    if not quotes:
        return
    yield _heading(title)
    for quote in quotes[: page.some(QUOTES)]:
        yield _line((f"{quote.file}:{quote.line}", "dim"), f"  {quote.why}", indent=2)
        if page.verbose:
            yield _quoted(quote.file, quote.line, quote.text, page)
    if len(quotes) > QUOTES and not page.verbose:
        yield _line((f"and {len(quotes) - QUOTES} more", "dim"), indent=2)


def _context(report: Report) -> Iterator[RenderableType]:
    frameworks = report.context.get("frameworks") or {}
    names = [f"{name} {version}" if version else name for name, version in frameworks.items()]
    for title, found in (
        ("Software", names),
        ("Models", report.context.get("models") or []),
        ("Settings", [f"{name}={value}" for name, value in (report.context.get("settings") or {}).items()]),
    ):
        if found:
            yield _line((f"{title}: ", "bold"), ", ".join(map(str, found)))


def _footer(report: Report, page: Page) -> Iterator[RenderableType]:
    diagnoses = report.incidents[0].diagnoses if report.incidents else ()
    hints = [f"oomdoctor explain {diagnoses[0].cause}"] if diagnoses else []
    if report.incidents and not page.verbose:
        hints.append("-v shows everything")
    if hints:
        yield _line(("More: " + "; ".join(hints), "dim"))


def _heading(title: str) -> RenderableType:
    return _line((title, "bold"))


def _line(*parts: str | tuple[str, str], indent: int = 0) -> RenderableType:
    """Wrapped text; a part is the text alone, or with its style."""
    text = Text()
    for part in parts:
        words, style = (part, "") if isinstance(part, str) else part
        text.append(sanitize(words), style)
    return Padding(text, (0, 0, 0, indent)) if indent else text


def _to_copy(line: str, indent: int = 2) -> RenderableType:
    return Text(" " * indent + sanitize(line), style="cyan", no_wrap=True)


def _quoted(file: str, line: int, quote: str, page: Page) -> RenderableType:
    """A line of the log, cut to one line of the screen."""
    where = f"{sanitize(file)}:{line}: "
    text = Text("  ", no_wrap=True)
    text.append(where, "dim")
    text.append(sanitize(quote.strip()), "dim")
    if not page.verbose:
        text.truncate(max(page.width, cell_len(where) + 2), overflow="crop")
    return text
