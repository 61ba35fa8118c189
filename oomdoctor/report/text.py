"""The report for a person at a terminal: one screen of it, or all of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor.columns import cells, sized, wrapped
from oomdoctor.job.names import EACH, SMALLER
from oomdoctor.job.names import row as row_name
from oomdoctor.language import counted, listed, mark, say, semicolons, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import Gap, Remedy
from oomdoctor.report.contract import Diagnosis, Evidence, Incident, Ledger, LedgerRow, Quote, Report
from oomdoctor.report.lines import Line, drawn
from oomdoctor.report.next_step import next_step
from oomdoctor.report.sparkline import sparkline
from oomdoctor.report.words import (
    WORTH_A_LINE,
    action,
    also_possible,
    commands,
    costs,
    crashes,
    enough,
    formula,
    growing,
    growth,
    headline,
    is_fallback,
    is_free,
    last_error,
    not_memory,
    nothing_found,
    of_other_ranks,
    open_question,
    particular,
    root_of,
    same_remedies,
    since,
    sure,
    tells_much,
    verdict,
    what_was_read,
    who,
    worth_doing,
)
from oomdoctor.text import sanitize
from oomdoctor.units import show

# One screen, on a terminal wide enough for it; a narrow one is scrolled anyway.
SCREEN = 24
WIDE = 80
TIGHTEST = 6

# What each degree of tightness leaves out, beside what the one before it does
WITHOUT_DOUBTS = 1  # what speaks against a sure cause, what later remedies assume, a message's first line
WITHOUT_SMALL_ROWS = 2  # of the ledger
WITHOUT_LATER_REASONS = 3  # how the second remedy and the third are computed, and what they cost
WITHOUT_GAPS = 4  # blank lines, and the ledger's bar
WITHOUT_THE_THIRD = 5  # remedy
WITHOUT_REASONS = 6

# How many of each the one screen holds; everything is there with -v.
REMEDIES = 3
_SHARED_MEMORY = "shm-too-small"  # a cause
GUESSES = 2  # remedies of what may not have been memory
LEDGER_ROWS = 5
LEAST_ROWS = 3
QUOTES = 1  # messages of the log
HINTS = 2
ENDING = 3  # lines of the error that a log ends with, and of where its output is
GROWN = 2  # figures of a log without a failure
COMMANDS = 1
CRASHES = 5
LINES_OF_A_REASON = 3

PREFIX = 24  # characters before the error that are worth to be left out
LONGEST_PREFIX = 120  # what stands further behind is a part of the sentence
_ERROR = late(
    r"(?P<name>(?:\w{1,40}\.){0,4}\w{0,40}(?:Error|Exception)\b)"
    r"|(?i:\bout of memory\b|\boom[- ]?kill|\bkilled process\b)"
)
# A bar that was not ended when the line's own words came: tqdm/std.py, format_meter
_BAR = late(r"[^\n]{0,400}\b\d{1,3}%\|[^|\n]{0,400}\| ?[\d.]{1,12}[kMG]?/[\d.]{1,12}[kMG]? \[[^\]\n]{0,200}\] ?(?=\S)")
# What says that memory was short, and the first size behind it: "out of memory. Tried to allocate 2.00 GiB"
_AMOUNT = late(
    r"(?i)\b(?:out of memory|alloc\w{0,8}|exhausted|oom[- ]?kill\w{0,4}|killed process)\b.{0,160}?"
    r"\d[\d.,]{0,20} ?(?:[kmgt](?:i?b)?|bytes)\b"
)
# How a process ended and which, what an error came of, what a kernel or a step needed of what there was
_PROOF = late(
    r"\bexit ?code[:= ]{1,3}-?\d{1,5}\)?(?: local_rank: \d{1,6} \(pid: \d{1,10}\))?"
    r"|(?i:\bexit(?:ed)? (?:with )?(?:status|code)) -?\d{1,5}\b|\bsignal[:= ]{1,3}(?:\d{1,2}\b|SIG[A-Z]{3,6})"
    r"|\bfailed with error:?(?: [\w'-]{1,30}){2,6}"
    r"|\bRequired: \d{1,12}, Hardware limit: \d{1,12}|\bexceeded [\w ]{1,40}\(\d{1,20} > \d{1,20}\)"
)
_USED = late(r"\b\d[\d.]{0,12} ?[KMGT]i?B / \d[\d.]{0,12} ?[KMGT]i?B\b")  # of what there was
_FIGURE = late(r"(?<!\w)\d[\d.,]{0,40}(?<=\d)")  # no part of an id
_ENDS = late(r"[.。](?=\s|$)|。")  # of sentences
SHORTEST_QUOTE = 12  # what is cut to less of a line says nothing
ROOMY = 60  # from this width on the ledger's rows say more than name and size
SPARK = 48  # characters of a figure's line
BAR = 60  # characters of the ledger's bar where there is room
_FILLS = ("█▓▒░▚▞", "#=+:%o")
_COLORS = ("red", "yellow", "blue", "magenta", "cyan", "white")
_FREE = ("·", ".")


class Page(Struct, frozen=True):
    """What the text is set on."""

    width: int
    unicode: bool
    verbose: bool
    tight: int = 0  # how much is left out so that it fits on the screen, as the functions below say by these names
    quoted: set[tuple[str, int]] = field(default_factory=set)  # the lines of the log that stand on it already

    def some(self, number: int) -> int | None:
        """The end of a slice: so many on one screen, all of them with -v."""
        return None if self.verbose else number


def rendered(report: Report, *, width: int, color: bool, unicode: bool, verbose: bool) -> str:
    """The report as a string, for a terminal or a file of that width."""
    tight = 0 if verbose else _tight(report, max(width, WIDE), unicode)
    return drawn(lines_of(report, Page(width, unicode, verbose, tight)), width=width, color=color)


def _tight(report: Report, width: int, unicode: bool) -> int:
    """How much to leave out so that one crash fits on one screen of that width."""
    one = replace(report, incidents=report.incidents[:1])
    for tight in range(TIGHTEST):
        text = drawn(lines_of(one, Page(width, unicode, verbose=False, tight=tight)), width=width, color=False)
        if text.count("\n") <= SCREEN:
            return tight
    return TIGHTEST


def lines_of(report: Report, page: Page) -> list[Line]:
    """The report's lines, top to bottom."""
    return list(_report(report, page))


def _report(report: Report, page: Page) -> Iterator[Line]:
    if not report.incidents:
        yield from _healthy(report, page)
    if count := crashes(report):
        yield _line((count, "bold"))
    for number, incident in enumerate(report.incidents[: page.some(CRASHES)]):
        if number:
            yield Line()
        yield from _incident(report, incident, page if not number or page.verbose else replace(page, tight=TIGHTEST))
    if not page.verbose and len(report.incidents) > CRASHES:
        yield _line(say("and {count} more (-v)", count=len(report.incidents) - CRASHES))
    yield from _quotes(say("Ignore this hint in the log"), report.advice_rejected, page)
    if page.verbose or not report.incidents:
        yield from _quotes(not_memory(report), report.lookalikes, page)
        yield from _only_trouble(report, page)
        yield from map(_to_copy, of_other_ranks(report))
    for note in report.notes:
        yield _line((say("Note: "), "bold"), note)
    if page.verbose:
        yield from _context(report)
    yield from _footer(report, page)


def _healthy(report: Report, page: Page) -> Iterator[Line]:
    told = nothing_found(report)
    yield _line(
        (told.verdict, "bold green" if report.verdict == "no-oom" else "bold yellow"),
        f" {told.words}" if told.words else "",
    )
    if error := last_error(report):
        yield _line(error, lines=page.some(ENDING))
        if step := next_step(report):
            yield _line(step.words)
            yield _to_copy(step.command)
    yield from (_line(words) for words in growing(report)[: page.some(GROWN)])


def _only_trouble(report: Report, page: Page) -> Iterator[Line]:
    """The one line that is called no memory failure, where nothing else tells what happened."""
    if len(report.lookalikes) == 1 and report.last_error is None and not page.verbose:
        only = report.lookalikes[0]
        yield _quoted(only.file, only.line, only.text, page)


def _incident(report: Report, incident: Incident, page: Page) -> Iterator[Line]:
    best = incident.diagnoses[0] if incident.diagnoses else None
    yield _verdict(incident)
    root = root_of(report, incident)
    if best is not None:
        yield from _diagnosis(incident, best, page)
    elif root is not None:
        yield _quoted(root.file, root.line, root.text, page)
    if incident.trajectory and incident.trajectory["points"] and (page.verbose or _rests_on_growth(best, page)):
        yield from _growth(incident.trajectory, page)
    for ledger in incident.ledger[: page.some(1)]:
        if page.verbose or tells_much(ledger):
            yield from _gap(page)
            yield from _ledger(ledger, page)
    told = _told(incident, best, page)
    if incident.verdict == "inconclusive":
        yield from _open(incident, told, page)
    if told:
        yield from _gap(page)
        yield from _remedies(incident, told, page)
        yield from _enough(incident.gap, told)
    if incident.verdict != "inconclusive":
        yield from _open(incident, told, page)
    if page.verbose:
        yield Line()
        yield from _all_behind(report, incident, page)


def _gap(page: Page) -> Iterator[Line]:
    if page.tight < WITHOUT_GAPS:
        yield Line()


def _told(incident: Incident, best: Diagnosis | None, page: Page) -> Sequence[Remedy]:
    """The remedies to print; on one screen of a death that nothing explains those with a value of the log."""
    if best is None or page.verbose:
        return worth_doing(incident, best) if best is not None else ()
    if incident.verdict == "inconclusive":
        stated = [
            one for n, one in enumerate(worth_doing(incident, best)) if one.current is not None or _names_it(best, n)
        ]
        return stated[: min(_remedies_shown(page), GUESSES)]
    return particular(best, incident.gap)[: _remedies_shown(page)]


def _names_it(best: Diagnosis, place: int) -> bool:
    """What a concrete cause names first, with an option to set, of the container for a larger /dev/shm: nobody halves a
    batch before."""
    first = best.remedies[0]
    named = first.setting is not None or best.cause == _SHARED_MEMORY
    return place == 0 and named and first.snippet is not None and not is_fallback(best.cause)


def _open(incident: Incident, told: Sequence[Remedy], page: Page) -> Iterator[Line]:
    """What the log leaves open, and what would settle it."""
    question = open_question(incident)
    first = incident.verdict == "inconclusive"  # what would tell stands before the remedies
    to_run = commands(incident, told) if question or page.verbose or not incident.diagnoses else []
    if question and to_run:
        yield _line(say("{question} This would tell:", question=question))
    elif question or to_run:
        yield _line(question or say("This would tell more:"))
    for command in to_run[: page.some(COMMANDS + first)]:
        yield _to_copy(command)


def _verdict(incident: Incident) -> Line:
    told = headline(incident)
    color = "bold yellow" if incident.verdict == "inconclusive" else "bold red"
    return _line((told.verdict, color), (verdict(told).removeprefix(told.verdict), "bold"))


def _diagnosis(incident: Incident, diagnosis: Diagnosis, page: Page) -> Iterator[Line]:
    """The cause with its figures, what speaks against it, and the lines that show it."""
    name = say("{cause} ({sure}):", cause=diagnosis.cause, sure=sure(incident, diagnosis))
    told = diagnosis.explanation if page.verbose else _whole(name, diagnosis.explanation, page)
    yield _line((name, "bold"), f" {told}", indent=2, lines=page.some(LINES_OF_A_REASON))
    if page.verbose or page.tight < (WITHOUT_REASONS if incident.cause_open else WITHOUT_DOUBTS):
        for against in diagnosis.against[: page.some(1)]:
            yield _line(say("Against it: {reason}", reason=against), indent=2)
    if page.verbose and diagnosis.ahead:
        yield _line(sanitize(diagnosis.ahead), indent=2)
    for evidence in _shown(diagnosis, page):
        yield _quoted(evidence.file, evidence.line, evidence.text, page)


def _shown(diagnosis: Diagnosis, page: Page) -> Sequence[Evidence]:
    """On one screen the first message: what it says and its figures, where it is tight the line with these alone."""
    if page.verbose:
        return diagnosis.evidence
    events = list(dict.fromkeys(one.event for one in diagnosis.evidence))[:QUOTES]
    lines = [one for one in diagnosis.evidence if one.event in events]
    return lines[-QUOTES:] if page.tight >= WITHOUT_DOUBTS else lines


def _whole(name: str, words: str, page: Page) -> str:
    """As many sentences as there is room for behind the name of the cause; all where not even one has it."""
    ends = [end.end() for end in _ENDS.finditer(words)]
    for end in reversed(ends):
        if len(wrapped(f"{name} {words[:end]}", page.width - 2, "", "")) <= LINES_OF_A_REASON:
            return words[:end]
    return words


def _ledger(ledger: Ledger, page: Page) -> Iterator[Line]:
    where = ledger.device
    if ledger.total_bytes is not None:
        where = say("{size} of {device}", size=show(ledger.total_bytes), device=ledger.device)
    yield _line((say("Where the memory was: "), "bold"), where)
    shown = _largest_first(ledger, page)
    fills = [_fill(number, row, page) for number, row in enumerate(shown)]
    if ledger.total_bytes and page.tight < WITHOUT_GAPS and not _overlaps(ledger):
        yield _bar(ledger.total_bytes, shown, fills, page)
    roomy = page.width >= ROOMY
    names = [sanitize(row_name(row.what)) for row in shown]
    name_width = min(max(map(cells, names), default=0), page.width // 2 if roomy else page.width - 17)
    for row, words, fill in zip(shown, names, fills, strict=True):
        name = sized(_cut(words, max(name_width, 1), page), max(name_width, 1))
        yield _line(fill, f" {name}  {_size(row, ledger.total_bytes, page)}", indent=2)
    if ledger.unexplained_bytes and (page.verbose or abs(ledger.unexplained_bytes) >= WORTH_A_LINE):
        size = show(abs(ledger.unexplained_bytes))
        more = say("not explained {size}", size=size)
        less = (
            say("together {size} more than there is: shared memory counts in each process", size=size)
            if _overlaps(ledger)
            else say("more than there is, by {size}", size=size)
        )
        yield _line((more if ledger.unexplained_bytes > 0 else less, "dim"), indent=4)


def _overlaps(ledger: Ledger) -> bool:
    """Whether processes' rows are together more than a node has, so that no sum and no bar of them is true."""
    return ledger.pool == "host_ram" and (ledger.unexplained_bytes or 0) <= -WORTH_A_LINE


def _largest_first(ledger: Ledger, page: Page) -> list[LedgerRow]:
    """The rows to print, what is free last; on one screen the smaller ones share a row before it."""
    free = [row for row in ledger.rows if is_free(row)]
    held = sorted((row for row in ledger.rows if not is_free(row)), key=lambda row: -(row.bytes or 0))
    most = LEAST_ROWS if page.tight >= WITHOUT_SMALL_ROWS else LEDGER_ROWS
    if page.verbose or len(ledger.rows) <= most + 1:
        return [*held, *free]
    kept = [row for row in held if not row.what.endswith(SMALLER)][: most - len(free)]
    rest = [row for row in held if row not in kept and row.bytes is not None]
    if len(rest) > 1 and _overlaps(ledger):
        what = say("{count} smaller ones, each at most", count=sum(map(_members, rest)))
        rest = [LedgerRow(what, max(row.bytes or 0 for row in rest), "printed", None)]
    elif len(rest) > 1:
        size = sum(row.bytes or 0 for row in rest)
        what = say("{count} smaller ones together", count=sum(map(_members, rest)))
        rest = [LedgerRow(what, size, "derived", None)]
    return [*kept, *rest, *free]


def _members(row: LedgerRow) -> int:
    """How many processes a row stands for: one for several begins with their number."""
    return int(row.what.split()[0]) if row.what.endswith((SMALLER, EACH)) else 1


def _fill(number: int, row: LedgerRow, page: Page) -> tuple[str, str]:
    """The row's sign in the bar, and its colour; what is in no bar has none."""
    style = 0 if page.unicode else 1
    if not row.bytes or row.bytes < 0:
        return " ", ""
    if is_free(row):
        return _FREE[style], "green"
    return _FILLS[style][number % len(_FILLS[style])], _COLORS[number % len(_COLORS)]


def _bar(total: int, rows: Sequence[LedgerRow], fills: Sequence[tuple[str, str]], page: Page) -> Line:
    wide = max(1, min(BAR, page.width - 4))
    widths = _widths(total, [max(row.bytes or 0, 0) for row in rows], wide)
    filled = [(fill * width, color) for (fill, color), width in zip(fills, widths, strict=True)]
    begin, end = ("  ", "") if page.unicode else ("  [", "]")
    return Line(((begin, ""), *filled, (" " * (wide - sum(widths)) + end, "")))


def _widths(total: int, sizes: Sequence[int], cells: int) -> list[int]:
    """So many characters for each size: one at least for what is not nothing, taken from the widest."""
    whole = max(total, sum(sizes))
    widths = [max(1, round(size * cells / whole)) if size else 0 for size in sizes]
    while sum(widths) > cells and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _cut(words: str, width: int, page: Page) -> str:
    """The words, with an ellipsis where they are longer than that."""
    ellipsis = "…" if page.unicode else "..."
    if cells(words) <= width or width <= cells(ellipsis):
        return words
    return sized(words, width - cells(ellipsis)) + ellipsis


def _size(row: LedgerRow, total: int | None, page: Page) -> str:
    size = _right(say("unknown") if row.bytes is None else show(row.bytes), 11)
    if page.width < ROOMY or row.bytes is None:
        return size
    share = f" {row.bytes / total:>5.0%}" if total else ""
    basis = "" if row.basis == "printed" else f"  {translated(row.basis)}"
    line = "  " + say("line {number}", number=row.line) if row.line is not None and page.verbose else ""
    return size + share + basis + line


def _right(words: str, width: int) -> str:
    return " " * (width - cells(words)) + words


def _remedies(incident: Incident, remedies: Sequence[Remedy], page: Page) -> Iterator[Line]:
    """What to change; of a death that may not be one of memory, what to change if it was."""
    guess = incident.verdict == "inconclusive"
    yield _heading(say("If it was memory") if guess else say("What to change"))
    for number, remedy in enumerate(remedies, start=1):
        yield from _numbered(number, action(remedy), page)
        for line in (remedy.snippet or "").splitlines():
            yield _to_copy(line, indent=5)
        if page.tight < (WITHOUT_LATER_REASONS if number > 1 else WITHOUT_REASONS):
            yield from _reasons(remedy, page, is_first=number == 1)


def _reasons(remedy: Remedy, page: Page, *, is_first: bool) -> Iterator[Line]:
    """How its value comes about, what it costs and takes for granted: whether what one tries first works may hang on
    that."""
    cost = say("Cost: {cost}", cost=remedy.cost) if costs(remedy) else ""
    assumed = remedy.assumes if is_first or page.verbose or page.tight < WITHOUT_DOUBTS else ()
    if why := formula(remedy):
        yield _line((why, "dim"), indent=5, lines=page.some(LINES_OF_A_REASON - bool(cost)))
    if cost:
        yield _line((cost, "dim"), indent=5, lines=page.some(1))
    if assumed:
        yield _line((say("Assumes: {assumption}", assumption=semicolons(assumed)), "dim"), indent=5)
    if page.verbose and remedy.reference:
        yield _line((remedy.reference, "dim"), indent=5)


def _enough(gap: Gap | None, remedies: Sequence[Remedy]) -> Iterator[Line]:
    told = enough(gap, remedies)
    if told is not None:
        yield _line((say("{title}: ", title=told.verdict), "bold"), told.words)


def _remedies_shown(page: Page) -> int:
    return 1 if page.tight >= TIGHTEST else REMEDIES - (page.tight >= WITHOUT_THE_THIRD)


def _all_behind(report: Report, incident: Incident, page: Page) -> Iterator[Line]:
    for diagnosis in also_possible(incident):
        if same_remedies(incident, diagnosis):
            yield _line((say("Also possible: "), "bold"), _in_a_line(incident, diagnosis))
            continue
        yield _line((say("Also possible: "), "bold"), diagnosis.headline)
        yield from _diagnosis(incident, diagnosis, page)
        if diagnosis.remedies:
            yield from _remedies(incident, worth_doing(incident, diagnosis), page)
        yield Line()
    for ruled in incident.ruled_out:
        yield _line((say("Ruled out: "), "bold"), say("{name}: {why}", name=ruled.cause, why=ruled.why))
    from oomdoctor.remedies.knobs import KNOBS  # noqa: PLC0415  (a table, for the long form alone)

    for rejected in incident.remedies_rejected:
        knob = KNOBS.get(rejected.knob)
        words = f"{translated(knob.action)} [{rejected.knob}]" if knob is not None else rejected.knob
        yield _line((say("Not advised: "), "bold"), say("{name}: {why}", name=words, why=rejected.why))
    yield from _timeline(report, incident)


def _in_a_line(incident: Incident, diagnosis: Diagnosis) -> str:
    names = {"headline": diagnosis.headline, "cause": diagnosis.cause, "sure": sure(incident, diagnosis)}
    return say("{headline} ({cause}, {sure}); same remedies", **names)


def _timeline(report: Report, incident: Incident) -> Iterator[Line]:
    """What failed first and what followed, each with its time where there is one."""
    events = {event.id: event for event in report.events}
    told = [(moment, events[moment.event]) for moment in incident.timeline if moment.event in events]
    if not told:
        return
    timed = any(moment.after_seconds is not None for moment, _ in told)
    yield _heading(say("What happened, by the times in the log") if timed else say("In the order of the log"))
    times = [sanitize(since(moment) or moment.time or "") for moment, _ in told]
    widest = max(map(cells, times))
    for (moment, event), time in zip(told, times, strict=True):
        repeated = [say("{count} times", count=event.repeats)] if event.repeats > 1 else []
        what = listed([event.kind, *who(event), *repeated])
        role = say("{title}: ", title=translated(moment.role))
        when = sized(time, widest) + "  " if widest else ""
        yield _line((when, "dim"), f"{event.file}:{event.line}  ", (role, "bold"), what, indent=2)


def _rests_on_growth(best: Diagnosis | None, page: Page) -> bool:
    return best is not None and best.cause.endswith("-leak") and page.tight < WITHOUT_GAPS


def _growth(trajectory: Mapping[str, Any], page: Page) -> Iterator[Line]:
    sizes = [point["bytes"] for point in trajectory["points"]]
    if line := sparkline(sizes, max(1, min(SPARK, page.width - 4)), unicode=page.unicode):
        yield _line((line, "cyan"), indent=2)
    yield _line(growth(trajectory), indent=2)


def _quotes(title: str, quotes: Sequence[Quote], page: Page) -> Iterator[Line]:
    if not page.verbose and len(quotes) == 1:
        yield _line(
            (say("{title}: ", title=title), "bold"), (f"{quotes[0].file}:{quotes[0].line}", "dim"), f" {quotes[0].why}"
        )
        return
    if quotes:
        yield _heading(title)
    for quote in quotes[: page.some(HINTS)]:
        if page.verbose:
            yield _quoted(quote.file, quote.line, quote.text, page)
            yield _line(quote.why, indent=4)
        else:
            yield _line((f"{quote.file}:{quote.line}", "dim"), f" {quote.why}", indent=2)
    if len(quotes) > HINTS and not page.verbose:
        yield _line((say("and {count} more", count=len(quotes) - HINTS), "dim"), indent=2)


def _context(report: Report) -> Iterator[Line]:
    frameworks = report.context.get("frameworks") or {}
    outside = report.context.get("outside") or {}
    from_outside = {name: f" ({source})" for name, source in outside.items()}
    names = [
        f"{name} {version}{from_outside.get(name, '')}" if version else f"{name}{from_outside.get(name, '')}"
        for name, version in frameworks.items()
    ]
    settings = (report.context.get("settings") or {}).items()
    models = report.context.get("models") or []
    yield Line()
    for title, found in (
        (say("Software"), names),
        (say("Models"), [f"{name}{from_outside.get(name, '')}" for name in models]),
        (say("Settings"), [f"{name}={value}{from_outside.get(name, '')}" for name, value in settings]),
    ):
        if found:
            yield _line((say("{title}: ", title=title), "bold"), listed(map(str, found)))


def _footer(report: Report, page: Page) -> Iterator[Line]:
    diagnoses = report.incidents[0].diagnoses if report.incidents else ()
    hints = [f"oomdoctor explain {diagnoses[0].cause}"] if diagnoses else []
    if report.incidents and not page.verbose:
        hints.append(_left_out(report.incidents[0], page) or say("all of it: -v"))
    if report.incidents and report.verdict == "inconclusive" and report.stats.bytes:
        yield _line((say("Read: {what}.", what=what_was_read(report)), "dim"))
    prints = list(dict.fromkeys(incident.fingerprint for incident in report.incidents))
    if hints:
        small = "" if page.verbose else f"  ({prints[0]})"  # on one screen it takes no line of its own
        yield _line((say("More: {hints}", hints=semicolons(hints)) + small, "dim"))
    if page.verbose and prints:
        yield _line((say("Fingerprint: {fingerprints}", fingerprints=listed(prints)), "dim"))


def _left_out(incident: Incident, page: Page) -> str | None:
    """How many remedies -v has besides those on the screen."""
    best = incident.diagnoses[0] if incident.diagnoses else None
    more = len(worth_doing(incident, best)) - len(_told(incident, best, page)) if best is not None else 0
    if more <= 0:
        return None
    return counted(
        more, mark("{count} more remedy and all the rest: -v"), mark("{count} more remedies and all the rest: -v")
    )


def _heading(title: str) -> Line:
    return _line((title, "bold"))


def _line(*parts: str | tuple[str, str], indent: int = 0, lines: int | None = None) -> Line:
    """Wrapped text, cut behind so many lines; a part is the text alone, or with its style."""
    told = ((part, "") if isinstance(part, str) else part for part in parts)
    return Line(tuple((sanitize(words), style) for words, style in told), indent, lines)


def _numbered(number: int, action: str, page: Page) -> Iterator[Line]:
    for line in wrapped(sanitize(action), page.width, f"  {number}. ", " " * 5):
        yield Line(((line, "bold"),), whole=True)


def _to_copy(line: str, indent: int = 2) -> Line:
    return Line(((" " * indent + sanitize(line), "cyan"),), whole=True)


def _shortened(words: str, room: int) -> str:
    """A line of the log cut to so many cells: behind a logger's prefix it begins where the error does, and where that
    would cut off the amount or the proof, as far behind that as it needs. It ends within no figure."""
    bar = _BAR.match(words)
    words = words[bar.end() :] if bar is not None else words
    begin = _begin(words, room - 3)
    used = _USED.search(words)  # half of it says nothing
    amount = _AMOUNT.search(words) or _PROOF.search(words) or (used if used and cells(used[0]) <= room - 6 else None)
    if amount is not None and cells(words[begin : amount.end()]) > room - (6 if begin else 3):
        begin = _up_to(words, amount.end(), room - 6)
    words = "..." + words[begin:] if begin or bar is not None else words
    return words if cells(words) <= room else _before_a_figure(words, sized(words, room - 3)) + "..."


def _before_a_figure(words: str, kept: str) -> str:
    """What is kept of the words, without the part of a figure that it ends with."""
    cut = next((figure for figure in _FIGURE.finditer(words) if figure.start() < len(kept) < figure.end()), None)
    return words[: cut.start()] if cut is not None else kept


def _begin(words: str, room: int) -> int:
    """Where the error begins behind a prefix; where its own words are few, or end the line, as many of those before it
    as there is room for."""
    error = _ERROR.search(words)
    if error is None or not PREFIX < error.start() <= LONGEST_PREFIX:
        return 0
    ends = error.end() == len(words) and error["name"] is None
    few = ends or cells(words[error.start() :]) < SHORTEST_QUOTE
    return _blank(words, error.start(), len(words), room) if few else error.start()


def _up_to(words: str, end: int, room: int) -> int:
    """Where to begin so that the words up to there fit: at an error's name, else at a word."""
    errors = (error.start() for error in _ERROR.finditer(words, 0, end) if error["name"] is not None)
    fits = next((start for start in errors if cells(words[start:end]) <= room), None)
    return fits if fits is not None else _blank(words, end, end, room)


def _blank(words: str, last: int, end: int, room: int) -> int:
    """The first word from which on what stands before the end fits."""
    nearest = range(max(end - room - 1, 0), last)  # further off there are more characters than cells
    blanks = (at + 1 for at in nearest if words[at] == " " and cells(words[at + 1 : end]) <= room)
    return next(blanks, last)


def _quoted(file: str, line: int, quote: str, page: Page) -> Line:
    """A line of the log; on one screen it is cut to one line, and a long one stands there once."""
    where = f"  {file}:{line}: "
    words = sanitize(quote.strip())
    room = page.width - cells(where)
    if not page.verbose and room < SHORTEST_QUOTE:
        return _line((where.strip().removesuffix(":"), "dim"), indent=2)
    if cells(words) > room and (file, line) in page.quoted:
        return _line((say("{place}, as above", place=where.strip().removesuffix(":")), "dim"), indent=2)
    page.quoted.add((file, line))
    if not page.verbose and cells(words) > room:
        words = _shortened(words, room)
    return Line(((sanitize(where) + words, "dim"),), whole=True)
