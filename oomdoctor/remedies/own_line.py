"""What a line of the job's own code allocates, and how that line is changed: the remedies refer to it.

The shapes of the lines stand in own_lines.txt, whose head says what its columns mean.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.event import SIDES
from oomdoctor.incident.model import Crash
from oomdoctor.job.own_line import OwnLine, called_by, own_lines
from oomdoctor.job.verbs import classes_of_words, words_of
from oomdoctor.language import say, translated
from oomdoctor.remedies import Remedy, shapes
from oomdoctor.remedies.shapes import Shape
from oomdoctor.versions import Versions, version_of, versions

COLUMNS: Final = (
    "shapes", "worlds", "tasks", "sides", "knob", "of", "does", "instead", "write", "since", "beside", "unless", "source",
)  # fmt: skip
WORDS: Final = "words"  # the rows at the head: what a name in capitals may stand for
_ALTERNATIVE: Final = " ;; "
_LINES: Final = r"\n"
_NUMBERS: Final = frozenset({0, 1, 2})  # in a line to paste: no values that somebody has to choose
_CALLED_LIKE: Final[Mapping[str, frozenset[str]]] = {
    "training": frozenset({"train", "training", "trainer", "finetune", "fit", "backward", "loss", "pretrain", "sft"}),
    "inference": frozenset(
        "eval evaluate evaluation test validate validation val infer inference predict prediction predictor generate"
        " sample demo detect segment extract embed encode transcribe caption serve".split()
    ),
}
_OF_STAGE: Final[Mapping[str, str]] = {
    "eval": "inference",
    "serving": "inference",
    "backward": "training",
    "optimizer_step": "training",
}
_AFTER_TRAINING: Final = frozenset({"eval"})  # stages in which a job that trains does not


class Row(Struct, frozen=True):
    """One row of the table."""

    shapes: tuple[Shape, ...]
    worlds: tuple[str, ...]
    tasks: tuple[str, ...]
    sides: tuple[str, ...]
    knob: str
    of: str  # `line`, which allocates itself; `pass`, which runs what does; with `first`, it is what ended the job
    does: str
    instead: str
    write: str
    since: tuple[str, Versions] | None
    beside: tuple[str, ...]
    unless: re.Pattern[str] | None


class Reading(Struct, frozen=True):
    """A line of the job, as a row reads it."""

    line: OwnLine
    row: Row
    snippet: str | None


# --- The table --------------------------------------------------------------------------------------------------------


@cache
def table() -> tuple[Row, ...]:
    return tuple(map(_row, _cells()))


@cache
def words() -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
    """What a name in capitals may stand for: words that the name of an expression holds, and such that it never does."""
    rows = (line.split("|") for line in _lines() if line.startswith(WORDS))
    return {name.strip(): (_listed(hold), _listed(never)) for _, name, hold, never in rows}


def _listed(cell: str) -> frozenset[str]:
    classes = classes_of_words()
    return frozenset(form for word in cell.split() for form in classes.get(word, (word, f"{word}s")))


def _cells() -> Iterator[dict[str, str]]:
    for line in _lines():
        if not line.startswith(WORDS):
            yield dict(zip(COLUMNS, (cell.strip() for cell in line.replace("(or)", "|").split(" | ")), strict=True))


@cache
def _lines() -> tuple[str, ...]:
    text = Path(__file__).with_name("own_lines.txt").read_text(encoding="utf-8")
    return tuple(line for line in text.splitlines() if line and not line.startswith(("#", "shapes ")))


def _row(cell: Mapping[str, str]) -> Row:
    package, _, bounds = cell["since"].partition(" ")
    return Row(
        shapes=tuple(shapes.shape(text) for text in cell["shapes"].split(_ALTERNATIVE)),
        worlds=tuple(cell["worlds"].split()),
        tasks=tuple(cell["tasks"].split()),
        sides=tuple(cell["sides"].split()),
        knob=cell["knob"],
        of=cell["of"],
        does=cell["does"],
        instead=cell["instead"],
        write=cell["write"].replace(_LINES, "\n"),
        since=(package, versions(bounds)) if package else None,
        beside=tuple(cell["beside"].split()),
        unless=re.compile(cell["unless"]) if cell["unless"] else None,
    )


# --- Which row reads the line -----------------------------------------------------------------------------------------


def readings(crash: Crash) -> tuple[Reading, ...]:
    """What the lines of the job say, the innermost of the user's first: one for each knob."""
    known = crash.seen.get(readings)
    if known is None:
        found: dict[str, Reading] = {}
        for reading in _readings(crash):
            found.setdefault(reading.row.knob, reading)
        known = crash.seen[readings] = tuple(found.values())
    return known  # type: ignore[no-any-return]


def _readings(crash: Crash) -> Iterator[Reading]:
    around = crash.root.around
    rows = [row for row in table() if _holds(row, crash)] if around.trace else []
    for line in own_lines(around.trace, cut=around.cut):
        for row in rows:
            if (line.innermost or "pass" in row.of) and (reading := _read(line.code, row)) is not None:
                yield Reading(line, row, reading if _may_change(line, crash) else None)


def _may_change(line: OwnLine, crash: Crash) -> bool:
    return line.owner == "user" or (line.owner == "nobody" and not crash.job.in_engine)


def _read(code: str, row: Row) -> str | None:
    """The line as it would be after the change, empty where only words say it; None where the row is about another."""
    return _written(code, row.shapes, row.write)


@lru_cache(maxsize=4096)  # causes ask for each of their knobs
def _written(code: str, wanted: tuple[Shape, ...], write: str) -> str | None:
    found = shapes.source(code)
    if found is None:
        return None
    hit = next((hit for one in wanted if (hit := one.find(found.statement, _allows)) is not None), None)
    if hit is None:
        return None
    if not write:
        return ""
    text = shapes.written(write, found, hit)
    return text if text is not None else None if shapes.is_so_already(write, found, hit) else ""


def _allows(name: str, node: ast.expr) -> bool:
    """Whether a name in capitals may stand for an expression: by the words of what it is called."""
    held = words().get(name.rstrip("0123456789"))
    if held is None:
        return True
    has = frozenset(words_of(_called(node)))
    return not has.isdisjoint(held[0]) and has.isdisjoint(held[1])


def _called(node: ast.expr) -> str:
    """The last name of an expression: of a call the function's, of an element its list's."""
    while not isinstance(node, ast.Name | ast.Attribute):
        inner = getattr(node, "func", None) or (getattr(node, "value", None) if isinstance(node, ast.Subscript) else None)
        if not isinstance(inner, ast.expr):
            return ""
        node = inner
    return node.id if isinstance(node, ast.Name) else node.attr


def _holds(row: Row, crash: Crash) -> bool:
    job = crash.job
    if row.worlds and job.world not in (*row.worlds, "none"):
        return False
    if row.tasks and task_of(crash) not in row.tasks:
        return False
    if row.sides and SIDES.get(crash.pool) not in row.sides and crash.pool not in row.sides:
        return False
    if row.beside and not _is_beside(row, crash):
        return False
    return _of_release(row, crash) and (row.unless is None or crash.in_trace(row.unless.pattern) is None)


def _is_beside(row: Row, crash: Crash) -> bool:
    return any(name in crash.job.frameworks or crash.in_trace(rf"\b{name}\b") is not None for name in row.beside)


def _of_release(row: Row, crash: Crash) -> bool:
    if row.since is None:
        return True
    version = version_of(crash.context.frameworks.get(row.since[0]))
    return version is None or row.since[1].holds(version)


def task_of(crash: Crash) -> str:
    """What the job does here: it trains, or passes forward only; by the stage, by what it is, by what is called."""
    job, stage = crash.job, _OF_STAGE.get(crash.stage, "")
    if stage and (crash.stage in _AFTER_TRAINING or job.task == "unknown"):
        return stage
    if job.task != "unknown":
        return job.task
    for name in called_by(crash.root.around.trace):
        said = frozenset(words_of(name))
        task = next((task for task, like in _CALLED_LIKE.items() if not said.isdisjoint(like)), "")
        if task:
            return task
    return "unknown"


# --- What the remedies say of it --------------------------------------------------------------------------------------


def in_front(knobs: Sequence[str], crash: Crash) -> Sequence[str]:
    """The knobs, before them the one that the line itself proves and nobody has named."""
    shown = next((one for one in readings(crash) if _proves(one)), None)
    return (shown.row.knob, *knobs) if shown is not None and shown.row.knob not in knobs else knobs


def _proves(reading: Reading) -> bool:
    return "first" in reading.row.of and bool(reading.snippet) and reading.line.owner == "user"


def referring(remedy: Remedy, crash: Crash) -> Remedy:
    """The remedy with the job's own line: what it does, and where nothing else is there to copy, how it is changed."""
    reading = next((one for one in readings(crash) if one.row.knob == remedy.knob), None)
    if reading is None:
        return remedy
    line, row = reading.line, reading.row
    own = remedy.snippet is None and remedy.setting is None and remedy.suggested is None
    figures = {"does": translated(row.does), "action": translated(row.instead) if own else remedy.action}
    action = (
        say("Line {line} of {file} {does}: {action}", line=line.line, file=line.file, **figures)
        if line.file
        else say("The line that failed {does}: {action}", **figures)
    )
    if not own:
        return replace(remedy, action=action)
    return replace(
        remedy,
        action=action,
        snippet=reading.snippet or None,
        assumes=(*remedy.assumes, *(_assumed(row, crash) if reading.snippet else ())),
    )


def _assumed(row: Row, crash: Crash) -> Iterator[str]:
    """The release that the line needs, where none is printed, and its values."""
    if row.since is not None and not crash.context.frameworks.get(row.since[0]):
        yield say("{package} {releases} (not printed)", package=row.since[0], releases=row.since[1])
    for value in _values(row.write):
        yield say("{value} is a usual value to begin with, not computed", value=value)


@cache
def _values(write: str) -> tuple[int, ...]:
    numbers = (node.value for node in ast.walk(ast.parse(write)) if isinstance(node, ast.Constant))
    return tuple(value for value in numbers if type(value) is int and value not in _NUMBERS)


__all__ = ["COLUMNS", "Reading", "Row", "in_front", "readings", "referring", "table", "task_of", "words"]
