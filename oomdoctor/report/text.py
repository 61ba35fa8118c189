"""The report for a person at a terminal: one screen of it, or all of it."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from oomdoctor.records import dataclass
from oomdoctor.remedies import Remedy
from oomdoctor.report.contract import Diagnosis, Incident, Ledger, LedgerRow, Quote, Report
from oomdoctor.report.vocabulary import POOLS, STAGES
from oomdoctor.text import sanitize
from oomdoctor.units import MIB, show

# One screen, on a terminal wide enough for it; a narrow one is scrolled anyway.
SCREEN = 30
WIDE = 80
TIGHTEST = 2

# How many of each the one screen holds; everything is there with -v.
REMEDIES = 3
LEDGER_ROWS = 5
QUOTES = 2
COMMANDS = 3
NAMES = 3

# Under this confidence the report says what to look at next even where it has an answer.
SURE = 0.5

SHORTEST_QUOTE = 12  # what is cut to less of a line says nothing
WORTH_A_LINE = 64 * MIB
ROOMY = 60  # from this width on the ledger's rows say more than name and size
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
    tight: int = 0  # how much is left out so that it fits on the screen: 1, reasons beside the answer; 2, a remedy

    def some(self, number: int) -> int | None:
        """The end of a slice: so many on one screen, all of them with -v."""
        return None if self.verbose else number


def rendered(report: Report, *, width: int, color: bool, unicode: bool, verbose: bool) -> str:
    """The report as a string, for a terminal or a file of that width."""
    for tight in range(TIGHTEST + 1):
        text = drawn(renderables(report, Page(width, unicode, verbose, tight)), width=width, color=color)
        if verbose or width < WIDE or text.count("\n") <= SCREEN:
            break
    return text


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
    for number, incident in enumerate(report.incidents[: page.some(1)]):
        if number:
            yield Text()
        yield from _incident(report, incident, page)
    yield from _others(report, page)
    yield from _quotes("Printed advice that does not apply", report.advice_rejected, page)
    if page.verbose or not report.incidents:
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
    where = f" in {report.stats.files} files" if report.stats.files > 1 else ""
    yield _line(("NO MEMORY FAILURE", "bold green"), " in what could be read" if report.errors else where)


def _incident(report: Report, incident: Incident, page: Page) -> Iterator[RenderableType]:
    best = incident.diagnoses[0] if incident.diagnoses else None
    yield _verdict(report, incident, best)
    if best is not None:
        yield from _diagnosis(best, page)
    if page.verbose and incident.trajectory and incident.trajectory["points"]:
        yield _growth(incident.trajectory)
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
    head = "NOT SCHEDULED" if best.pool == "scheduling" else "OUT OF MEMORY"
    words = " ".join(part for part in (POOLS.get(best.pool, best.pool), STAGES.get(best.stage, "")) if part)
    return _line((head, "bold red"), f": {words}" if words else "", (where, "dim"))


def _diagnosis(diagnosis: Diagnosis, page: Page) -> Iterator[RenderableType]:
    sure = f"  [{diagnosis.cause}, {diagnosis.confidence:.0%} sure]"
    yield _line((diagnosis.title, "bold"), (sure, "dim"))
    yield _line(diagnosis.explanation, indent=2)
    for against in diagnosis.against:
        yield _line("Against it: ", against, indent=2)
    for evidence in diagnosis.evidence[: page.some(QUOTES)]:
        yield _quoted(evidence.file, evidence.line, evidence.text, page)


def _growth(trajectory: Mapping[str, Any]) -> RenderableType:
    first, last = trajectory["points"][0], trajectory["points"][-1]
    sizes = f"{show(first['bytes'])} at line {first['line']}, {show(last['bytes'])} at line {last['line']}"
    growth = trajectory.get("growth_bytes")
    rate = f", {show(growth)} per {trajectory['per']}" if growth else ""
    return _line(f"{trajectory['what']}: {sizes}{rate}", indent=2)


def _ledger(ledger: Ledger, page: Page) -> Iterator[RenderableType]:
    total = f"{show(ledger.total_bytes)} of " if ledger.total_bytes is not None else ""
    yield _line(("Where the memory was: ", "bold"), f"{total}{ledger.device}")
    shown, rest = _largest(ledger, page)
    fills = {row.what: _fill(number, row, page) for number, row in enumerate(shown)}
    if ledger.total_bytes:
        yield _bar(ledger.total_bytes, shown, fills, page)
    roomy = page.width >= ROOMY
    name_width = min(
        max((cell_len(row.what) for row in shown), default=0), page.width // 2 if roomy else page.width - 17
    )
    for row in shown:
        fill, color = fills[row.what]
        name = set_cell_size(sanitize(row.what), max(name_width, 1))
        yield _line((fill, color), f" {name}  {_size(row, ledger.total_bytes, page)}", indent=2)
    if rest:
        yield _line(
            (f"and {len(rest)} smaller ones, {show(sum(row.bytes or 0 for row in rest))} together", "dim"), indent=4
        )
    if ledger.unexplained_bytes and (page.verbose or abs(ledger.unexplained_bytes) >= WORTH_A_LINE):
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
    held = drawn_cells = 0
    for row in rows:
        held += row.bytes or 0
        end = min(round(held * cells / total), cells)
        fill, color = fills[row.what]
        bar.append(fill * (end - drawn_cells), color)
        drawn_cells = max(end, drawn_cells)
    bar.append(" " * (cells - drawn_cells) + ("]" if not page.unicode else ""))
    return bar


def _size(row: LedgerRow, total: int | None, page: Page) -> str:
    size = f"{'unknown' if row.bytes is None else show(row.bytes):>11}"
    if page.width < ROOMY or row.bytes is None:
        return size
    share = f" {row.bytes / total:>5.0%}" if total else ""
    basis = "" if row.basis == "printed" else f"  {row.basis}"
    line = f"  line {row.line}" if row.line is not None and page.verbose else ""
    return size + share + basis + line


def _remedies(remedies: Sequence[Remedy], page: Page) -> Iterator[RenderableType]:
    yield _heading("What to change")
    for number, remedy in enumerate(remedies[: page.some(REMEDIES - (page.tight == TIGHTEST))], start=1):
        yield _numbered(number, remedy.action, page)
        for line in (remedy.snippet or "").splitlines():
            yield _to_copy(line, indent=5)
        why = [remedy.derivation or "", f"Costs: {remedy.cost}" if remedy.cost not in ("", "none") else ""]
        if any(why):
            yield _line((". ".join(part.rstrip(".") for part in why if part), "dim"), indent=5)
        if page.verbose:
            for assumption in remedy.assumes:
                yield _line(("Assumes: " + assumption, "dim"), indent=5)
            if remedy.reference:
                yield _line((remedy.reference, "dim"), indent=5)


def _behind(incident: Incident, page: Page) -> Iterator[RenderableType]:
    """What stands behind the answer: the other causes that fit, and those that do not."""
    yield Text()
    also = incident.diagnoses[1:]
    if page.verbose:
        yield from _all_behind(incident, page)
        return
    if also:
        names = ", ".join(f"{d.cause} ({d.confidence:.0%})" for d in also[:NAMES])
        yield _line(("Also possible: ", "bold"), names)
    if incident.ruled_out:
        first = incident.ruled_out[0]
        others = "".join(f", {ruled.cause}" for ruled in incident.ruled_out[1 : NAMES + 1])
        others += f" and {len(incident.ruled_out) - 1 - NAMES} more" if len(incident.ruled_out) > NAMES + 1 else ""
        reason = "" if page.tight else f" ({first.why})"
        yield _line(("Ruled out: ", "bold"), f"{first.cause}{reason}{others}")


def _all_behind(incident: Incident, page: Page) -> Iterator[RenderableType]:
    for diagnosis in incident.diagnoses[1:]:
        yield from _diagnosis(diagnosis, page)
        if diagnosis.remedies:
            yield from _remedies(diagnosis.remedies, page)
        yield Text()
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
    if not page.verbose and len(quotes) == 1:
        yield _line((f"{title}: ", "bold"), (f"{quotes[0].file}:{quotes[0].line}", "dim"), f" {quotes[0].why}")
        return
    if quotes:
        yield _heading(title)
    for quote in quotes[: page.some(QUOTES)]:
        if page.verbose:
            yield _quoted(quote.file, quote.line, quote.text, page)
            yield _line(quote.why, indent=4)
        else:
            yield _line((f"{quote.file}:{quote.line}", "dim"), f" {quote.why}", indent=2)
    if len(quotes) > QUOTES and not page.verbose:
        yield _line((f"and {len(quotes) - QUOTES} more", "dim"), indent=2)


def _context(report: Report) -> Iterator[RenderableType]:
    frameworks = report.context.get("frameworks") or {}
    names = [f"{name} {version}" if version else name for name, version in frameworks.items()]
    yield Text()
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


def _numbered(number: int, action: str, page: Page) -> RenderableType:
    """Not rich.table: its import alone takes longer than all the rest of the rendering."""
    first, rest = f"  {number}. ", " " * 5
    lines = textwrap.wrap(
        sanitize(action), page.width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
    )
    return Text("\n".join(lines), style="bold")


def _to_copy(line: str, indent: int = 2) -> RenderableType:
    return Text(" " * indent + sanitize(line), style="cyan", no_wrap=True)


def _quoted(file: str, line: int, quote: str, page: Page) -> RenderableType:
    """A line of the log; on one screen it is cut to one line."""
    where = f"  {file}:{line}: "
    words = sanitize(quote.strip())
    room = page.width - cell_len(where)
    if not page.verbose and room < SHORTEST_QUOTE:
        return _line((where.strip().removesuffix(":"), "dim"), indent=2)
    if not page.verbose and cell_len(words) > room:
        words = set_cell_size(words, room - 3) + "..."
    return Text(sanitize(where) + words, style="dim", no_wrap=True)
