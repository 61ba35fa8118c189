"""The smallest excerpt of logs that still gets the same diagnosis.

Lines are taken away as long as the diagnosis stays what it is (delta debugging), beginning with what the diagnosis
rests on: the spans of its events, the lines that its evidence and its ledger quote, the settings it read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from oomdoctor import street
from oomdoctor.language import say
from oomdoctor.report.contract import Incident, Report
from oomdoctor.sources import InMemory

if TYPE_CHECKING:
    from oomdoctor.street import Facts

MOST = 240  # diagnoses; each takes as long as reading the excerpt does
CUT = "~~~ lines cut: {count} ~~~"
NEAR = (0, 3, 20, 100, 400)  # lines around what the diagnosis rests on, tried in this order

Told = Callable[[int, int], None]  # called with the diagnoses made and the lines that are left
Answer = tuple[object, ...]


class ReduceError(Exception):
    """There is nothing to reduce, or it would not say the same; the text says why."""


class Log(Struct, frozen=True):
    """One log as its lines, whole and as they may be shared."""

    name: str
    lines: Sequence[str]
    shared: Sequence[str]


class Excerpt(Struct, frozen=True):
    text: str
    kept: int
    of: int
    diagnoses: int
    is_smallest: bool  # no line can be taken away alone; else the diagnoses were used up before


def answer(report: Report) -> Answer:
    """What of a report has to stay."""
    if not report.incidents:
        return (report.verdict,)
    first = report.incidents[0]
    best = first.diagnoses[0] if first.diagnoses else None
    if best is None:
        return report.verdict, first.verdict, first.fingerprint
    remedy = best.remedies[0] if best.remedies else None
    values = (remedy.knob, remedy.current, remedy.suggested) if remedy else ()
    quoted = {quote.event for quote in best.evidence}
    shown = sorted(
        {f"{event.family} {event.kind} {dict(event.usage)}" for event in report.events if event.id in quoted}
    )
    return report.verdict, first.verdict, first.fingerprint, best.cause, best.pool, best.stage, *values, *shown


def reduce(logs: Sequence[Log], facts: Facts, told: Told) -> Excerpt:
    """The excerpt of these logs, of which the facts were read."""
    report = street.report_of(facts)
    if not report.incidents:
        raise ReduceError(say("the log shows no failure: nothing to keep in an excerpt"))
    search = _Search(logs, answer(report), told)
    lines = search.start(_wanted(logs, facts, report.incidents[0]))
    smallest = search.shrunk(lines, _root(logs, facts))
    text = search.rendered(smallest)
    return Excerpt(text, len(smallest), search.total, search.made, search.made < MOST)


def _wanted(logs: Sequence[Log], facts: Facts, incident: Incident) -> tuple[set[int], set[int]]:
    """The lines that the diagnosis rests on, and those that tell of the job, counted through all logs."""
    offsets: dict[str, int] = {}
    total = 0
    for log in logs:
        offsets[log.name] = total
        total += len(log.lines)
    rests: set[int] = set()
    for crash in facts.crashes[:1]:
        for event in crash.events:
            rests |= _span(offsets, event.at.file, event.at.line, event.at.end_line)
    for diagnosis in incident.diagnoses[:1]:
        for quote in diagnosis.evidence:
            rests |= _span(offsets, quote.file, quote.line, quote.line)
    root = facts.crashes[0].root.at.file
    for ledger in incident.ledger:
        for row in ledger.rows:
            rests |= _span(offsets, root, row.line, row.line)
    job: set[int] = set()
    for setting in facts.context.settings.values():
        job |= _span(offsets, setting.file, setting.line, setting.line)
    return {n for n in rests if n < total}, {n for n in job if n < total}


def _root(logs: Sequence[Log], facts: Facts) -> set[int]:
    """The lines of the message that says what happened: an excerpt without it tells a person nothing."""
    offset = 0
    for log in logs:
        at = facts.crashes[0].root.at
        if log.name == at.file:
            return set(range(offset + at.line - 1, offset + at.end_line))
        offset += len(log.lines)
    return set()


def _span(offsets: dict[str, int], file: str, first: int | None, last: int | None) -> set[int]:
    if file not in offsets or not first:
        return set()
    return set(range(offsets[file] + first - 1, offsets[file] + (last or first)))


class _Search:
    def __init__(self, logs: Sequence[Log], wanted: Answer, told: Told) -> None:
        self._lines = [line for log in logs for line in log.shared]
        self._whole = [line for log in logs for line in log.lines]
        self._wanted, self._told = wanted, told
        self.total = len(self._lines)
        self.made = 0

    def start(self, wanted: tuple[set[int], set[int]]) -> list[int]:
        """An excerpt that gets the diagnosis: little around what it rests on, or more, or all of it."""
        rests, job = wanted
        head = set(range(min(self.total, 40)))
        tail = set(range(max(0, self.total - 40), self.total))
        for near in NEAR:
            around = {m for n in rests for m in range(max(0, n - near), min(self.total, n + near + 1))}
            for lines in (around, around | job, around | job | head | tail):
                if self._holds(sorted(lines)):
                    return sorted(lines)
        everything = list(range(self.total))
        if self._holds(everything):
            return everything
        if self._lines != self._whole:
            raise ReduceError(
                say(
                    "the diagnosis changes when secrets and names are taken out; add `--no-redact` to keep them, "
                    "and read the excerpt before you share it"
                )
            )
        raise ReduceError(say("the diagnosis changes when the logs are joined into one; reduce one log"))

    def shrunk(self, lines: list[int], kept: set[int]) -> list[int]:
        """The lines without those that can go, taken away in pieces at first, one by one at last."""
        free = [line for line in lines if line not in kept]
        size = max(1, len(free) // 2)
        while self.made < MOST and free:
            smaller = self._without_pieces(free, size, kept.intersection(lines))
            if size == 1 and len(smaller) == len(free):
                break
            free = smaller
            size = max(1, min(size // 2, len(free) // 2))
        return sorted({*free, *kept.intersection(lines)})

    def _without_pieces(self, free: list[int], size: int, kept: set[int]) -> list[int]:
        at = 0
        while at < len(free) and self.made < MOST:
            rest = free[:at] + free[at + size :]
            if self._holds(sorted({*rest, *kept})):
                free = rest
            else:
                at += size
        return free

    def _holds(self, lines: Sequence[int]) -> bool:
        self.made += 1
        self._told(self.made, len(lines))
        log = InMemory("log", None, data=self.rendered(lines).encode())
        return answer(street.report_on([log], ())) == self._wanted

    def rendered(self, lines: Iterable[int]) -> str:
        return "".join(f"{line}\n" for line in self._marked(lines))

    def _marked(self, lines: Iterable[int]) -> Iterator[str]:
        done = 0
        for number in lines:
            if number > done:
                yield CUT.format(count=number - done)
            yield self._lines[number]
            done = number + 1
        if done < self.total:
            yield CUT.format(count=self.total - done)
