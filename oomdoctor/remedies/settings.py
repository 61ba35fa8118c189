"""How a knob is spelled for a framework: the table in its file (`job/frameworks/`), one row per line.

The columns of a row, separated by `|`; what is left empty says nothing:

    knob      an id of knobs.txt, or `dates`: what stands under `write` is no knob, but a name that dates the log
    write     the line to copy, `{}` where the value goes: a flag, a key, `export X={}`, a line of YAML or JSON
    type      of the value: float, int, bool, str, size; `switch` for a flag that is there or is not; `line` of code
              and `command`, where there is no option
    set       what to set, where the knob has one right value
    default   what holds where nobody says: `0.9`, or by version `0.9 <0.20; 0.92 >=0.20`
    versions  which releases know it: `>=0.5.8 <0.10.2`
    needs     what has to be there beside it: another framework (`deepspeed`; with a `!` before it, which must not be
              there), some releases of one, where it is there (`vllm>=0.10`), or a setting (`enforce_eager=True`);
              between quotation marks expressions without blanks, of which a line or a frame near the failure holds one:
              it shows that the job calls what takes the option; with a `!` before it, none does
    excludes  a setting that it does not go together with
    spends    the pools that it spends here, where they are not the knob's; `none`
    source    where upstream it was looked up: a file of its repository, a page, a release

The rows stand with the newest spelling first. Only what was looked up upstream goes in: a missing row is better than
a guessed one. The first lines of the file say what was read, and when.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from oomdoctor import spellings
from oomdoctor.job.frameworks import among, engines
from oomdoctor.job.frameworks import framework as known_framework
from oomdoctor.job.model import Context, Setting, Value
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.regressions import Releases
from oomdoctor.remedies import cells, pythons
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.spellings import COLUMNS, frameworks, title
from oomdoctor.versions import ALL, Version, Versions, version_of, versions

DATES: Final = "dates"
AHEAD: Final = 60  # days: who builds from a checkout has an option before its release
NO_OPTION: Final = ("line", "command")  # types
_PLAIN_BATCH: Final = "batch_size"
_QUOTE: Final = '"'
_NOT: Final = "!"
_EMPTY: Final = "|" * len(COLUMNS)  # what a row leaves out at its end
_OFF: Final = frozenset({"", "none", "null", "false", "no", "off", "0"})
_OF_RELEASES: Final = late(r"([a-z][\w.-]{1,40})(>=\d[\d.]{0,12})")
_FLAG: Final = late(r"--[a-z][\w-]{1,60}(?: \{\})?")
_VALUED: Final = late(r"--?[a-zA-Z][\w.-]{1,80}[ =]\{\}")
# With a word that the reader fills in: nobody can paste it as it is
_OF_A_COMMAND: Final = late(
    r"[a-z][\w.-]{1,40} (?:[\w.-]{1,40} ){0,3}?[A-Z]{3,20} (?P<flag>--[a-z][\w-]{1,80})[ =]\{\}"
)
_KEY_OF_A_FILE: Final = late(r"[a-z]\w{1,60}: \{\}")
# `f(a, b={})`, `f().b={}`: the argument or attribute that takes the value, else what is called
_CALL: Final = late(
    r"(?:\w{1,20} = )?(?P<function>[a-z_]\w{0,40}(?:\.\w{1,40}){0,6})"
    r"\((?:(?:.{0,200}[ (.\"])?(?P<argument>\w{1,60})='?\Z)?"
)
_ITEM: Final = late(r"\w{1,40}(?:\[[\w']{1,40}\]){0,4}\['(\w{1,60})'\] = ")  # of a dictionary
# `"section": {"name": {"device": "cpu"}}`, of JSON
_PATH: Final = late(r'(?:"\w{1,60}": \{?){1,4}')
_KEY: Final = late(r'"(\w{1,60})": ')
_OF_ANY_SECTION: Final = ("enabled", "stage", "device", "pin_memory")  # keys that say nothing without their section
_PAIR: Final = late(r" ([a-z]\w{1,60}):\{\}\Z")  # behind a script
# Commands that set what is named behind them
_SETS: Final = late(r"(?:sudo sysctl|redis-cli CONFIG SET|ALTER SYSTEM SET|SET|SHOW|PRAGMA) ([\w.-]{1,80})")
# The same option serves both directions.
_SAME_AS: Final = {"raise-engine-reservation": "lower-engine-reservation"}


class Spelling(NamedTuple):
    """One row of a framework's table; many are read to print a few."""

    knob: str
    framework: str
    write: str
    type: str
    set: str
    defaults: tuple[tuple[str, Versions], ...]
    versions: Versions
    needs: tuple[str, ...]
    excludes: tuple[str, ...]
    spends: tuple[str, ...] | None  # None: what the knob spends

    @property
    def setting(self) -> str:
        """The option's name as it is written: "--zero_stage", "trainer.nnodes"."""
        if path := _PATH.match(self.write):
            keys: list[str] = _KEY.findall(path[0])
            return next((key for key in reversed(keys) if key not in _OF_ANY_SECTION), keys[0])
        if call := _CALL.match(self.write.partition("{}")[0]):
            return call["argument"] or call["function"]
        if item := _ITEM.match(self.write):
            return item[1]
        if sets := _SETS.match(self.write):
            return sets[1]
        if pair := _PAIR.search(self.write):
            return pair[1]
        before = self.write.split("{")[0].split()
        flags = [word for word in before if word.startswith("-")]
        name = (flags[-1] if self.takes_value else flags[0]) if flags else before[-1 if self.is_export else 0]
        return re.split(r"[=(]", name)[0].strip("+:'\"")

    @property
    def key(self) -> str:
        """The name under which the log's settings hold it."""
        return self.setting.lstrip("-+").replace("-", "_")

    @property
    def is_export(self) -> bool:
        return self.write.startswith("export ")

    @property
    def is_switch(self) -> bool:
        """A flag that is there or is not."""
        return self.type == "switch"

    @property
    def is_code(self) -> bool:
        """What a program says, for which a launch line has no place."""
        return self.type in NO_OPTION or "(" in self.write or self.write[0].isupper()

    @property
    def is_call(self) -> bool:
        """A line of the job's own code."""
        return not self.is_command and (self.type == "line" or "(" in self.write)

    @property
    def is_command(self) -> bool:
        """What one does with the program itself, such as a box that is ticked."""
        return self.type == "command"

    @property
    def is_argument(self) -> bool:
        """A library's argument, for which the job's own program may have an option: "batch_size={}"."""
        return self.write.replace("'", "") == f"{self.key}={{}}" and "." not in self.key

    @property
    def as_argument(self) -> Spelling:
        """A flag as the argument of the same name, for who calls the program's code."""
        if not _FLAG.fullmatch(self.write):
            return self
        value = ("'{}'" if self.type == "str" else "{}") if self.takes_value else "True"
        return self._replace(write=f"{self.key}={value}")

    @property
    def as_flag(self) -> Spelling:
        """A key of a file as the flag of the same name."""
        return self._replace(write=f"--{self.key} {{}}") if _KEY_OF_A_FILE.fullmatch(self.write) else self

    @property
    def takes_value(self) -> bool:
        return "{}" in self.write

    @property
    def words(self) -> tuple[str, ...]:
        """Of which the log has to show one, where not every job calls what takes the option."""
        return tuple(word for word in self._words() if not word.startswith(_NOT))

    @property
    def never(self) -> tuple[str, ...]:
        """Of which the log shows none, where another program of the same name has other options."""
        return tuple(word.removeprefix(_NOT) for word in self._words() if word.startswith(_NOT))

    @property
    def beside(self) -> tuple[str, ...]:
        """The frameworks and settings that it needs."""
        return tuple(need for need in self.needs if not need.startswith(_QUOTE))

    def as_launched(self, context: Context) -> Spelling:
        """A flag as the launch line spells it: with dashes or underscores, and with its own sign before the value."""
        stated = context.settings.get(self.key)
        written = (stated.written or "") if stated is not None else ""
        if stated is None or stated.is_switch or not written.startswith("-"):
            return self
        if (command := _OF_A_COMMAND.fullmatch(self.write)) is not None and command["flag"] == stated.flag:
            return self._replace(write=f"{written}{{}}")  # a script hands it on to what the command would start
        if stated.flag == self.setting or not _VALUED.fullmatch(self.write):
            return self
        return self._replace(write=f"{written}{{}}")

    def _words(self) -> Iterator[str]:
        for need in self.needs:
            if need.startswith(_QUOTE):
                yield from need.strip(_QUOTE).split()

    @property
    def shown(self) -> str:
        """The line for a table: with what to set, or what kind of value it takes."""
        return self.write.replace("{}", self.set or self.type.upper())

    @property
    def value(self) -> Value:
        """What to set, as the setting would be read."""
        return typed(self.set, self.type)

    @property
    def goal(self) -> Value:
        """What the option holds once it is set; None where a number or an address is only a value to begin with."""
        value = None if self.is_code else True if self.is_switch else self.value
        return value if isinstance(value, bool | str) else None

    def default(self, version: Version | None) -> Value:
        """What holds where nobody says; None where that is not known, or hangs on a version that is not."""
        fitting = [text for text, where in self.defaults if version is not None and where.holds(version)]
        only = [self.defaults[0][0]] if len(self.defaults) == 1 and self.defaults[0][1] == ALL else []
        return typed((fitting or only or [""])[0], self.type)

    def smallest_default(self, version: Version | None, known: Versions = ALL) -> float | None:
        """The number that holds where nobody says; of those releases that it may be the smallest, where no version is
        known."""
        only = self.default(version)
        possible = [text for text, where in self.defaults if where.overlaps(known)]
        values = [only] if only is not None else [typed(text, self.type) for text in possible]
        numbers = [one for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
        return min(numbers, default=None) if len(numbers) == len(values) else None

    def snippet(self, value: Value) -> str | None:
        """What to copy; None where there is no value to put in."""
        if not self.takes_value:
            return self.write
        if value is None:
            return None
        written = self.set if self.set and value == self.value else _written(value)
        if written.startswith("'") and "'" in self.write:
            return None  # one quotation inside another would end it
        return self.write.replace("{}", written)


def _written(value: Value) -> str:
    return shlex.quote(value) if isinstance(value, str) else str(value)


def typed(text: str, kind: str) -> Value:
    """The value as the log's settings would hold it."""
    if not text or text == "null":
        return None
    if kind in ("bool", "switch"):
        return text.lower() == "true"
    if kind in ("int", "size") and re.fullmatch(r"-?\d+", text):
        return int(text)
    if kind == "float" and re.fullmatch(r"-?[\d.]+", text):
        return float(text)
    return text[1:-1] if text[0] == text[-1] and text[0] in "'\"" else text


# reading the files


@cache
def rows(framework: str) -> tuple[Spelling, ...]:
    """The rows of one framework's file; none where it has no file."""
    return tuple(_row(framework, line) for line in spellings.lines(framework))


def _row(framework: str, line: str) -> Spelling:
    knob, write, kind, value, defaults, where, needs, excludes, spends, *_ = map(str.strip, (line + _EMPTY).split("|"))
    return Spelling(
        knob=knob,
        framework=framework,
        write=write,
        type=kind or "str",
        set=value,
        defaults=tuple(_defaults(defaults)) if defaults else (),
        versions=_range(where),
        needs=_words(needs) if needs else (),
        excludes=_words(excludes) if excludes else (),
        spends=None if not spends else () if spends == "none" else tuple(spends.split()),
    )


def _defaults(text: str) -> Iterator[tuple[str, Versions]]:
    for era in filter(None, (part.strip() for part in text.split(";"))):
        value, _, where = era.partition(" ")
        yield value, _range(where)


_range = cache(versions)  # the same few in many rows


def _words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


# choosing


def _anywhere(_: Spelling) -> bool:
    return True


def spelling(
    knob: str, context: Context, layer: str | None = None, in_sight: Callable[[Spelling], bool] = _anywhere
) -> Spelling | None:
    """How the outermost framework of the log that owns the knob spells it; an option before a line of code."""
    layers = [layer] if layer else _layers(context)
    chosen = [row for framework in layers if (row := _best(knob, framework, context, in_sight))]
    return next((row for row in chosen if not row.is_code), chosen[0] if chosen else None)


def of_call(
    row: Spelling, context: Context, names: Iterable[str], in_sight: Callable[[Spelling], bool] = _anywhere
) -> Spelling:
    """The framework's row of the knob whose option is named after what was called; the row itself where none is."""
    if row.key in context.settings:
        return row
    known = known_versions(row.framework, context)
    others = [one for one in of_knob(row.knob, row.framework) if one.takes_value and not one.is_code]
    fitting = [one for one in others if is_there(one, context) and one.versions.overlaps(known)]
    by_name = (one for name in names for one in fitting if name in one.key.replace(".", "_") and in_sight(one))
    return next(by_name, row)


def _layers(context: Context) -> Iterator[str]:
    """The frameworks of the log, outermost first, without what a fork has left behind."""
    left = left_behind(context)
    return (name for name in context.frameworks if name not in left)


def left_behind(context: Context) -> frozenset[str]:
    """The frameworks whose spellings a fork or a binding in the log does not have."""
    return frozenset(name for each in among(context.frameworks) for name in each.replaces)


def _best(knob: str, framework: str, context: Context, in_sight: Callable[[Spelling], bool]) -> Spelling | None:
    """The first row of a framework's file that fits the log; one that the log itself spells out before others."""
    known = known_versions(framework, context)
    fitting = [row for row in of_knob(knob, framework) if is_there(row, context) and row.versions.overlaps(known)]
    stated = next((row for row in fitting if row.key in context.settings and in_sight(row)), None)
    return stated or next(filter(in_sight, fitting), None)


def of_knob(knob: str, framework: str) -> Iterator[Spelling]:
    """The framework's rows of a knob, whichever way it is turned."""
    wanted = _SAME_AS.get(knob, knob)
    return (row for row in rows(framework) if row.knob == wanted)


def _options(knob: str, framework: str) -> list[Spelling]:
    return [row for row in of_knob(knob, framework) if row.type not in NO_OPTION]


def is_there(row: Spelling, context: Context) -> bool:
    """Whether the frameworks are there that the row stands on, and no setting speaks against it."""
    for need in row.beside:
        if of_another_release(need, context):
            return False
        name, stated, _ = need.partition("=")
        if not stated and (name.removeprefix(_NOT) in context.frameworks) is name.startswith(_NOT):
            return False
        if stated and context.setting(name) is not None and setting_of(need, context) is None:
            return False
    return True


def known_versions(framework: str, context: Context) -> Versions:
    """The version that is printed, else those that know every name of the framework that the log shows."""
    exact = Versions.exactly(context.frameworks.get(framework) or pin_of(framework, context))
    if exact is not None:
        return exact
    narrowed = _by_its_python(framework, context)
    if (told := context.releases.get(framework)) is not None:
        narrowed = narrowed.both(versions(told)) or narrowed
    for name, when in _dated(framework).items():
        is_set = name in context.settings and not _is_of_an_engine(name, framework, context)
        if is_set or name in context.processes:
            narrowed = narrowed.both(when) or narrowed
    return narrowed


def _by_its_python(framework: str, context: Context) -> Versions:
    """Those that were out when the log was written, and that its Python runs: of what is a package of Python."""
    python, own = context.frameworks.get("python"), known_framework(framework)
    is_package = own is not None and bool(own.packages)
    days = (context.day, pythons.until(python) if is_package else "")
    known = by_then(framework, min(filter(None, days), default=""))
    return known.both(pythons.releases(framework, python)) or known


def by_flags(row: Spelling, context: Context) -> bool:
    """Whether every release that the log may be of takes flags, where later ones take a file."""
    own = known_framework(row.framework)
    if own is None or not own.flags:
        return False
    return versions(own.flags).covers(known_versions(row.framework, context))


def comes_later(knob: str, framework: str, context: Context) -> bool:
    """Whether every release of the framework that the log may be of lacks the knob."""
    known = known_versions(framework, context)
    return not any(row.versions.overlaps(known) for row in of_knob(knob, framework))


def _is_of_an_engine(name: str, framework: str, context: Context) -> bool:
    """Whether an engine of the job has an option of that name, too: such a setting may be the engine's."""
    others = context.frameworks.keys() & engines() - {framework}
    return any(name == key for other in others for key, _ in _keyed(other))


@cache
def by_then(framework: str, day: str) -> Versions:
    """The versions that were out when the log was written, and those that were about to come."""
    try:
        last = (date.fromisoformat(day) + timedelta(days=AHEAD)).isoformat()
    except ValueError:  # none is known, or the 30th of February
        return ALL
    later = min((since for since, out in _releases().get(framework, ()) if out > last), default=None)
    return ALL if later is None else Versions(before=later)


@cache
def _releases() -> Mapping[str, Sequence[tuple[Version, str]]]:
    found: dict[str, list[tuple[Version, str]]] = {}
    for name, release, out, *_ in cells.rows(Path(__file__).with_name("releases.txt")):
        found.setdefault(name, []).append((versions(f">={release}").since, out))
    return found


def pin_of(framework: str, context: Context) -> str | None:
    """The release of it that another framework of the job runs with, which the log does not print: "0.2"."""
    pins = (pin.partition(" ") for each in among(context.frameworks) for pin in each.pins)
    return next((release for name, _, release in pins if name == framework), None)


@cache
def _dated(framework: str) -> Mapping[str, Versions]:
    """The names that not every version of the framework knows, with all of those that do."""
    when: dict[str, Versions] = {}
    for row in rows(framework):
        name = row.write if row.knob == DATES else row.key
        when[name] = when[name].either(row.versions) if name in when else row.versions
    return {name: versions for name, versions in when.items() if versions != ALL}


def assumptions(row: Spelling, context: Context) -> tuple[str, ...]:
    """What was taken for granted about the version when the row was picked."""
    if row.versions.covers(known_versions(row.framework, context)):
        return ()
    return (assumed_releases(row.framework, row.versions, context),)


def assumed_releases(framework: str, wanted: Versions, context: Context) -> str:
    """That the job runs one of these; of a log that is older than the first of them, when that came out."""
    releases = f"{title(framework)} {wanted}"
    day = next((out for since, out in _releases().get(framework, ()) if since == wanted.since), "")
    if not context.day or day <= context.day:
        return say("{releases} (version not in the log)", releases=releases)
    return say(
        "{releases} (version not in the log, which is of {then}; the first of them came out on {day})",
        releases=releases, then=context.day, day=day,
    )  # fmt: skip


def excluded_by(row: Spelling, context: Context) -> Setting | None:
    """The setting of the log that the row does not go together with."""
    return next((found for one in row.excludes if (found := setting_of(one, context)) is not None), None)


def missing(row: Spelling, context: Context) -> tuple[str, ...]:
    """The settings that have to be there beside it, are not in the log, and do not hold by default."""
    version = version_of(context.frameworks.get(row.framework))
    needed = [need for need in row.beside if "=" in need and not _is_met(need, context)]
    return tuple(need for need in needed if not _holds_by_default(need, row.framework, version))


def _is_met(need: str, context: Context) -> bool:
    """By a setting of the log, or by a release; which of a framework that is not in the log, nobody has to know."""
    of = _release_needed(need)
    if of is None:
        return setting_of(need, context) is not None
    return of.package not in context.frameworks or of.versions.covers(known_versions(of.package, context))


def of_another_release(need: str, context: Context) -> bool:
    """Whether it asks for releases that the log's framework of that name is none of."""
    of = _release_needed(need)
    if of is None or of.package not in context.frameworks:
        return False
    return not of.versions.overlaps(known_versions(of.package, context))


@cache
def _release_needed(need: str) -> Releases | None:
    """The releases of another framework that a row stands on: "vllm>=0.10"."""
    found = _OF_RELEASES.fullmatch(need)
    return None if found is None else Releases(found[1], versions(found[2]))


def _holds_by_default(need: str, framework: str, version: Version | None) -> bool:
    name, _, wanted = need.partition("=")
    named = (row for key, row in _keyed(framework) if key == name or key.endswith(f".{name}"))
    return any(str(row.default(version)).lower() == wanted.lower() for row in named)


@cache
def _keyed(framework: str) -> tuple[tuple[str, Spelling], ...]:
    return tuple((row.key, row) for row in rows(framework))


def setting_of(condition: str, context: Context) -> Setting | None:
    """The setting that meets a condition ("enforce_eager=True")."""
    name, _, wanted = condition.partition("=")
    found = context.setting(name)
    return found if found is not None and wanted.lower() in str(found.value).lower() else None


def current(knob: str, row: Spelling | None, context: Context) -> Setting | None:
    """What the log says the knob is set to now."""
    if row is not None and (finer := _finer(knob, row, context)) is not None:
        return finer
    if row is not None:
        exact = context.settings.get(row.key)
        if exact is not None:
            return exact
    names = (*([row.key] if row is not None else []), *KNOBS[knob].settings)
    stated = (context.setting(name) for name in names)
    return next((one for one in stated if one is not None and KNOBS[knob].is_meant(one.value)), None)


def _finer(knob: str, row: Spelling, context: Context) -> Setting | None:
    """The piece that is computed at once, where the option is the plain `batch_size` and the log states both."""
    settings = KNOBS[knob].settings
    if row.key != _PLAIN_BATCH or _PLAIN_BATCH not in settings:
        return None
    pieces = (name for name in settings[: settings.index(_PLAIN_BATCH)] if "micro" in name and "rollout" not in name)
    stated = (context.setting(name) for name in pieces)
    return next((one for one in stated if one is not None and (one.whole or 0) > 1), None)


def done(knob: str, context: Context) -> Setting | None:
    """The setting by which the log has done already what the knob would: as its own frameworks spell it, or as any
    framework does where the log names none that knows the knob."""
    if not context.settings:
        return None
    unheard = replace(context, heard=None)
    own = [row for framework in _layers(context) for row in _options(knob, framework)]
    known = own or [row for framework in frameworks() for row in _options(knob, framework)]
    stated = ((unheard.setting(name), row.goal, name) for row in known for name in _names(row))
    generic = KNOBS[knob].settings
    return next((one for one, goal, name in stated if one and _reached(one.value, goal, is_own=name in generic)), None)


def _names(row: Spelling) -> tuple[str, ...]:
    """The option's whole name, and its last part where that alone says what it is."""
    last = row.key.rsplit(".", 1)[-1]
    return (row.key, last) if last in KNOBS[row.knob].settings else (row.key,)


def _reached(now: Value, goal: Value, *, is_own: bool) -> bool:
    """A switch is on by other words too ("gradient_checkpointing: unsloth"), and an option that is about nothing but
    this knob where it is simply on."""
    if goal is True and isinstance(now, str):
        return now.lower() not in _OFF
    return same(now, goal) or (is_own and now is True and isinstance(goal, str))


def same(now: Value, then: Value) -> bool:
    """Whether both say the same, however they are written."""
    if then is None or now is None:
        return False
    return now == then or str(now).lower() == str(then).lower()
