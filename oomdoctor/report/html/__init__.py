"""The report as one HTML file that needs nothing else: no script, no request, nothing but its own style."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from msgspec import Struct

from oomdoctor.job.names import figure
from oomdoctor.job.names import row as row_name
from oomdoctor.language import ENGLISH, in_use, listed, say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.report.contract import Diagnosis, EventRecord, Incident, Report
from oomdoctor.report.html.bars import bar
from oomdoctor.report.html.plot import Plot, plot
from oomdoctor.report.html.segments import drawings
from oomdoctor.report.next_step import next_step
from oomdoctor.report.vocabulary import POOL_NAMES
from oomdoctor.report.words import (
    Told,
    action,
    also_possible,
    commands,
    costs,
    enough,
    formula,
    growth,
    headline,
    how_it_ended,
    open_question,
    root_of,
    same_remedies,
    since,
    sure,
    who,
    worth_doing,
)
from oomdoctor.text import disarm
from oomdoctor.units import percent, show

# What one page holds; it says what it leaves out, and `--format json` has it.
MOST_INCIDENTS = 12
MOST_LISTED = 100  # incidents in the index
MOST_BARS = 16
MOST_DRAWINGS = 8
MOST_ROWS = 60  # of every list
MOST_POINTS = 24  # of a trajectory's table; the plot has them all
LONGEST_QUOTE = 1_200
LONGEST_TEXT = 4_000

FIRST_REMEDIES = 3

_JOINTS = late(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[/_.:\-])(?=\w)")


class Some(Struct, frozen=True):
    """The first of many, and how many are left out."""

    items: tuple[Any, ...]
    left_out: int


class Section(Struct, frozen=True, kw_only=True):
    """An incident, with what the template shows of it."""

    anchor: str
    incident: Incident
    told: Told
    root: EventRecord | None
    best: Diagnosis | None
    doubt: str | None
    unsure: bool  # what would tell more then stands before what to change
    bars: Some
    plot: Plot | None
    enough: Told | None
    commands: Some
    moments: Some
    rests_on: frozenset[str]  # the events of the timeline that are evidence
    evidence: Some  # the rest of it
    drawings: Some


def document(report: Report, *, redacted: bool = False) -> str:
    """The page of a report, which is redacted already where it is to be; of the same report the same page."""
    sections = [_section(report, number) for number in range(min(len(report.incidents), MOST_INCIDENTS))]
    style, error = _style(), report.last_error
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            report=report,
            redacted=redacted,
            sections=sections,
            ended=how_it_ended(report, error, error.text) if error is not None else None,
            step=next_step(report),
            index=some([headline(incident) for incident in report.incidents], MOST_LISTED),
            context=_context(report.context),
            style=Markup(style),  # noqa: S704  (our own file)
            policy=_policy(style),
        )
    )


def _section(report: Report, number: int) -> Section:
    incident = report.incidents[number]
    best = incident.diagnoses[0] if incident.diagnoses else None
    remedies = worth_doing(incident, best) if best is not None else ()
    by_id = {event.id: event for event in report.events}
    moments = some([(moment, by_id[moment.event]) for moment in incident.timeline if moment.event in by_id])
    told = frozenset(event.id for _, event in moments.items)
    evidence = best.evidence if best is not None else ()
    return Section(
        anchor=f"crash-{number + 1}",
        incident=incident,
        told=headline(incident),
        root=root_of(report, incident),
        best=best,
        doubt=open_question(incident),
        unsure=best is None or incident.cause_open,
        bars=some([bar(ledger) for ledger in incident.ledger[:MOST_BARS]], MOST_BARS, len(incident.ledger)),
        plot=plot(incident.trajectory, incident.ledger) if incident.trajectory else None,
        enough=enough(incident.gap, remedies),
        commands=some(commands(incident, remedies)),
        moments=moments,
        rests_on=told & {one.event for one in evidence},
        evidence=some(one for one in evidence if one.event not in told or one.line != by_id[one.event].line),
        drawings=some(drawings(by_id[name] for name in incident.events if name in by_id), MOST_DRAWINGS),
    )


def some(items: Iterable[Any], most: int = MOST_ROWS, of: int | None = None) -> Some:
    """At most so many of the items, which may be the first of a larger number already."""
    every = tuple(items)
    return Some(every[:most], (len(every) if of is None else of) - len(every[:most]))


def spread(items: Iterable[Any], most: int = MOST_POINTS) -> Some:
    """At most so many of the items, from the first to the last of them."""
    every = tuple(items)
    if len(every) <= most:
        return Some(every, 0)
    places = [round(number * (len(every) - 1) / (most - 1)) for number in range(most)]
    return Some(tuple(every[place] for place in places), len(every) - most)


def quote(text: str) -> str:
    """A line of the log, cut where it is endless."""
    return _cut(text.strip(), LONGEST_QUOTE)


def plain(value: object) -> str:
    """A value of the job's configuration on one line."""
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, (dict, list)) else str(value)


def _context(context: Mapping[str, Any]) -> list[tuple[str, Some]]:
    """What the log says of the job: each table with its title, the empty ones left out."""
    outside: Mapping[str, str] = context.get("outside") or {}

    def rows(pairs: Iterable[tuple[str, object]]) -> Some:
        return some([(name, plain(value), outside.get(name, "")) for name, value in pairs])

    frameworks = [(name, version or "") for name, version in (context.get("frameworks") or {}).items()]
    models = [(str(name), "") for name in context.get("models") or ()]
    codes = [(plain(code), "") for code in context.get("exit_codes") or ()]
    tables = [
        (say("Software"), rows(frameworks)),
        (say("Models"), rows(models)),
        (say("Hardware"), rows((context.get("hardware") or {}).items())),
        (say("Progress"), rows((context.get("progress") or {}).items())),
        (say("Exit codes"), rows(codes)),
        (say("Settings"), rows((context.get("settings") or {}).items())),
    ]
    return [(title, found) for title, found in tables if found.items]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return say("{text} … ({count} more characters are left out)", text=text[:limit], count=len(text) - limit)


def _printable(value: object) -> object:
    """Everything that a template prints comes through here, before it is escaped."""
    if value is None:
        raise TypeError("a template prints a value that is not there")
    if isinstance(value, str) and not isinstance(value, Markup):
        return _cut(disarm(value), LONGEST_TEXT)
    return value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("oomdoctor.report.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        auto_reload=False,
    )
    environment.globals.update(
        knobs=KNOBS,
        first_remedies=FIRST_REMEDIES,
        action=action,
        also_possible=also_possible,
        costs=costs,
        figure=figure,
        formula=formula,
        growth=growth,
        page_language=page_language,
        row_name=row_name,
        same_remedies=same_remedies,
        say=_say,
        since=since,
        sure=sure,
        translated=translated,
        who=who,
        worth_doing=worth_doing,
    )
    environment.filters.update(
        {
            "pools": _pools, "size": show, "percent": percent, "quote": quote, "some": some, "spread": spread,
            "breakable": _breakable,
        }
    )  # fmt: skip
    return environment


def page_language() -> str:
    """As HTML names it."""
    return "en" if in_use() == ENGLISH else "zh-Hans"


def _say(text: str, /, **values: object) -> Markup:
    """A text of ours, which may hold markup; what is filled in is escaped."""
    return Markup(translated(text)).format(  # noqa: S704  (our own text)
        **{name: _printable(value) for name, value in values.items()}
    )


def _breakable(name: str) -> Markup:
    """A name that may be broken where its words end: behind a dot, a slash or an underscore, before a capital."""
    return Markup("<wbr>").join(escape(part) for part in _JOINTS.split(str(_printable(name))))


def _pools(pools: Iterable[str]) -> str:
    return listed(translated(POOL_NAMES.get(pool, pool)) for pool in pools)


@cache
def _style() -> str:
    return resources.files(__name__).joinpath("style.css").read_text(encoding="utf-8").replace("\r\n", "\n")


def _policy(style: str) -> str:
    """Nothing is loaded and nothing runs; the page's own style is known by its hash."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


__all__ = ["document"]
