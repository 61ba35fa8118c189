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
from oomdoctor.job.frameworks import files_by_world, framework
from oomdoctor.job.own_line import OwnLine, called_by, own_lines
from oomdoctor.job.verbs import classes_of_words, words_of
from oomdoctor.language import say, translated
from oomdoctor.remedies import Remedy, cells, shapes
from oomdoctor.remedies.proposal import Case
from oomdoctor.remedies.settings import Spelling
from oomdoctor.remedies.shapes import Shape, Terms
from oomdoctor.versions import Versions, version_of, versions

COLUMNS: Final = (
    "shapes", "worlds", "tasks", "sides", "knob", "of", "does", "instead", "write", "since", "beside", "unless",
    "source",
)  # fmt: skip
WORDS: Final = "words"  # the rows at the head: what a name in capitals may stand for
MODULE: Final = "module"  # and which other names a module has
_ALTERNATIVE: Final = " ;; "
_LINES: Final = r"\n"
_NUMBERS: Final = frozenset({0, 1, 2})  # in a line to paste: no values that somebody has to choose
_CALLED_LIKE: Final = {"TRAINS": "training", "PASSES": "inference"}  # names at the head of the table
_STARTS: Final = "STARTS"  # the same, of the script
_RESHAPES: Final = "RESHAPES"
_OF_STAGE: Final[Mapping[str, str]] = {
    "eval": "inference",
    "serving": "inference",
    "backward": "training",
    "optimizer_step": "training",
}
# What goes before any line: it says that the line is not at fault
_FIRST: Final = frozenset(
    ["fix-shape", "fix-environment", "fix-placement", "free-the-gpu", "pin-version", "bigger-shm", "chunked-logits"]
)
_IN_CODE_ALONE: Final = frozenset({"clear-references"})  # a knob that no library has a general line for
_OF_BATCHES: Final = "smaller-microbatch"
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
    snippet: str  # the line as it would be; empty where only words say it


# --- The table --------------------------------------------------------------------------------------------------------


@cache
def table() -> tuple[Row, ...]:
    return tuple(map(_row, _cells()))


@cache
def words() -> Mapping[str, tuple[tuple[frozenset[str], ...], tuple[frozenset[str], ...]]]:
    """What a name in capitals may stand for: by words that the name of an expression holds, and that it never does."""
    rows = (line.split("|") for line in _lines() if line.startswith(WORDS))
    return {name.strip(): (_listed(hold), _listed(never)) for _, name, hold, never in rows}


@cache
def _terms() -> Terms:
    rows = (line.split("|") for line in _lines() if line.startswith(MODULE))
    return Terms(_allows, {other: alias.strip() for _, alias, others in rows for other in others.split()})


def _listed(cell: str) -> tuple[frozenset[str], ...]:
    """For each entry the words that a name has to hold one of; a plus stands between several that it holds all of."""
    return tuple(entry for text in cell.split() for entry in _entries(text))


def _entries(text: str) -> Iterator[frozenset[str]]:
    if text in classes_of_words():
        yield from (frozenset({word}) for word in classes_of_words()[text])
    elif "+" in text:
        yield frozenset(text.split("+"))
    else:
        yield from (frozenset({text}), frozenset({f"{text}s"}))


def _cells() -> Iterator[dict[str, str]]:
    for line in _lines():
        if not line.startswith((WORDS, MODULE)):
            yield dict(zip(COLUMNS, cells.split(line), strict=True))


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
    return known


def _readings(crash: Crash) -> Iterator[Reading]:
    around = crash.root.around
    lines = own_lines(around.trace, cut=around.cut)
    task = task_of(crash) if lines else ""
    rows = [row for row in table() if _is_of(row, crash, task)] if lines else []
    for line in lines:
        for row in rows:
            if (
                (line.innermost or "pass" in row.of)
                and (text := _read(line.code, row)) is not None
                and _holds(row, crash)
            ):
                yield Reading(line, row, text if _may_change(line, crash) and _of_its_world(text, crash) else "")


def _is_of(row: Row, crash: Crash, task: str) -> bool:
    """Whether the row is about jobs of this world and task, and about the memory that ran out."""
    if (row.worlds and crash.job.world not in row.worlds) or (row.tasks and task not in row.tasks):
        return False
    return not row.sides or SIDES.get(crash.pool) in row.sides or crash.pool in row.sides


def _may_change(line: OwnLine, crash: Crash) -> bool:
    return line.owner == "user" or (line.owner == "nobody" and not crash.job.in_engine)


def _of_its_world(snippet: str, crash: Crash) -> bool:
    """Whether what is to be pasted calls no library whose arrays the job, as far as the log shows, does not have."""
    return all(world == crash.job.world for world, calls in _calls() if calls.search(snippet))


@cache
def _calls() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """How calls of a world's library begin."""
    names = {world: {world, *_aliases(world)} for world in files_by_world()}
    return tuple((world, re.compile(rf"\b(?:{'|'.join(sorted(its))})\.")) for world, its in names.items())


def _aliases(library: str) -> Iterator[str]:
    yield from (alias for module, alias in _terms().modules.items() if module.partition(".")[0] == library)


def _read(code: str, row: Row) -> str | None:
    """The line as it would be after the change, empty where only words say it; None where the row is about another."""
    return _written(code, row.shapes, row.write)


@lru_cache(maxsize=4096)  # causes ask for each of their knobs
def _written(code: str, wanted: tuple[Shape, ...], write: str) -> str | None:
    line = shapes.source(code)
    if line is None:
        return None
    hit = next((hit for one in wanted if (hit := one.find(line.statement, _terms())) is not None), None)
    if hit is None:
        return None
    return shapes.written(write, line, hit) if write else ""


def _allows(name: str, node: ast.expr, called: bool) -> bool:
    """Whether a name in capitals may stand for an expression: by the words of its name; a class makes what it names."""
    its = _called(node)
    if called and its[:1].isupper():
        return False
    return name not in words() or _has_one(frozenset(words_of(its)), name)


def _called(node: ast.expr) -> str:
    """The last name of an expression: of a call the function's, or whose method it is where that only reshapes; of an
    element its list's."""
    while not isinstance(node, ast.Name | ast.Attribute):
        if not isinstance(node, ast.Call | ast.Subscript):
            return ""
        node = node.func if isinstance(node, ast.Call) else node.value
        if isinstance(node, ast.Attribute) and frozenset({node.attr}) in words()[_RESHAPES][0]:
            node = node.value
    return node.id if isinstance(node, ast.Name) else node.attr


def _holds(row: Row, crash: Crash) -> bool:
    """Whether the log shows the library, names no release that does not know it, and nothing says that it is so."""
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
    called = [frozenset(words_of(name)) for name in called_by(crash.root.around.trace)]
    said = (task for has in called for name, task in _CALLED_LIKE.items() if _has_one(has, name))
    passes = bool(called) and _has_one(called[-1], _STARTS)
    return next(said, "inference" if passes else "unknown")


def _has_one(has: frozenset[str], name: str) -> bool:
    hold, never = words()[name]
    return any(one <= has for one in hold) and not any(one <= has for one in never)


# --- What the remedies say of it --------------------------------------------------------------------------------------


def in_front(knobs: Sequence[str], crash: Crash) -> Sequence[str]:
    """The knobs, before them the one that the line itself proves."""
    shown = next((one for one in readings(crash) if _proves(one)), None)
    if shown is None or shown.row.knob in knobs[:1]:
        return knobs
    others = [knob for knob in knobs if knob != shown.row.knob]
    first = 1 if others and others[0] in _FIRST else 0
    return (*others[:first], shown.row.knob, *others[first:])


def _proves(reading: Reading) -> bool:
    return "first" in reading.row.of and bool(reading.snippet) and reading.line.owner == "user"


def shows(knob: str, crash: Crash) -> bool:
    """Whether a line of the job shows where this knob is turned."""
    return any(one.row.knob == knob and one.snippet for one in readings(crash))


def referring(remedy: Remedy, case: Case) -> Remedy:
    """The remedy with the job's own line: what it does, and how it is changed where no program has an option."""
    reading = next((one for one in readings(case.crash) if one.row.knob == remedy.knob), None)
    if reading is None:
        return remedy
    in_code = (remedy.current is None or remedy.snippet is None) and (case.row is None or of_a_library(case.row))
    by_size = _by_the_size(remedy, reading)
    if in_code and reading.snippet and not by_size and not _has_a_value(remedy, reading.row):
        return _changed(remedy, reading, case.crash)
    of_a_framework = reading.line.owner == "framework"
    if of_a_framework and reading.row.of == "pass":
        return remedy  # every job that trains with it goes through that line
    if remedy.knob in _IN_CODE_ALONE and (remedy.snippet is not None or of_a_framework):
        return remedy
    is_known = remedy.current is not None and remedy.suggested is not None  # the log prints it, under its own name
    in_words = in_code and not by_size and not is_known and remedy.snippet is None and not of_a_framework
    action = _sentence(reading, translated(reading.row.instead) if in_words else remedy.action)
    line = reading.line
    subject = remedy.subject or (f"{line.file}:{line.line}" if line.file else None)
    return replace(remedy, action=action, subject=None if remedy.snippet or remedy.setting else subject)


def _by_the_size(remedy: Remedy, reading: Reading) -> bool:
    """Whether the batch comes from elsewhere and is simply made smaller there, not cut in the line that passes it."""
    return remedy.knob == _OF_BATCHES and reading.row.of == "pass" and bool(reading.snippet) and remedy.snippet is None


def _has_a_value(remedy: Remedy, row: Row) -> bool:
    """Whether an argument of any program has a number that serves as well: that ends it sooner than halves do."""
    number = isinstance(remedy.suggested, int | float) and not isinstance(remedy.suggested, bool)
    return row.of == "pass" and number and remedy.snippet is not None


def _changed(remedy: Remedy, reading: Reading, crash: Crash) -> Remedy:
    return replace(
        remedy,
        action=_sentence(reading, translated(reading.row.instead)),
        subject=None,
        setting=None,
        current=None,
        suggested=None,
        beside=(),
        snippet=reading.snippet,
        derivation=None,
        assumes=tuple(_assumed(reading.row, crash)),
    )


def _sentence(reading: Reading, action: str) -> str:
    line, does = reading.line, translated(reading.row.does)
    if not line.file:
        return say("{action} (the innermost line in the log {does})", does=does, action=action)
    return say("{action} (line {line} of {file} {does})", line=line.line, file=line.file, does=does, action=action)


def of_a_library(row: Spelling) -> bool:
    """Whether it is a line for any program, and no option of one, as the flags of a library's examples are."""
    own = framework(row.framework)
    if row.beside and row.setting.startswith("--"):
        return False
    return row.is_code or (own is not None and (own.style == "code" or own.layer == "base"))


def _assumed(row: Row, crash: Crash) -> Iterator[str]:
    """The release that the line needs, where none is printed, and its values."""
    if row.since is not None and not crash.context.frameworks.get(row.since[0]):
        yield say("{package} {releases} (not in the log)", package=row.since[0], releases=row.since[1])
    for value in _values(row.write):
        yield say("{value} is a usual start value", value=value)


@cache
def _values(write: str) -> tuple[int, ...]:
    numbers = (node.value for node in ast.walk(ast.parse(write)) if isinstance(node, ast.Constant))
    return tuple(dict.fromkeys(value for value in numbers if type(value) is int and value not in _NUMBERS))


__all__ = [
    "COLUMNS",
    "Reading",
    "Row",
    "in_front",
    "of_a_library",
    "readings",
    "referring",
    "shows",
    "table",
    "task_of",
    "words",
]
