"""Options that the job's own program has for a knob, whatever it calls them: by the words of their names.

A script of one's own has options that no table lists. Where its launch line states one whose name holds the words of a
knob, the remedy names that option and not a library's line of code. The words stand in own_options.txt.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import several_steps_went_by
from oomdoctor.job.frameworks import driven
from oomdoctor.job.model import Setting, Value
from oomdoctor.job.verbs import words_of
from oomdoctor.language import say, translated
from oomdoctor.patterns import late
from oomdoctor.remedies import cells, encodings
from oomdoctor.remedies.axes import lengths_of
from oomdoctor.remedies.counts import whole_of
from oomdoctor.remedies.held import that_fits
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Proposal
from oomdoctor.remedies.settings import typed
from oomdoctor.signs.address_space import a_loader_was_not_forked
from oomdoctor.signs.first_step import killed_bare_before_the_first_step, primitives_of
from oomdoctor.signs.printed_arrays import large_arrays, pairs_counted
from oomdoctor.units import cut_off

NUMBER: Final = "number"
HALF: Final = "half"
TENFOLD: Final = "tenfold"
PARTS: Final = "parts"
TWICE: Final = "twice"
_THOUSANDS: Final = "thousands"  # of rows, not of the nodes of a cluster
_FEW: Final = "few"  # at once
_MANY: Final = 1000
_SIZE: Final = late(r"([1-9]\d{0,8}(?:\.\d{1,3})?)\s?(?:[KMGT]i?B|[KMGTkmgt])")
_LIST: Final = late(r"\d{1,9}(?:[ ,x\u00d7]\d{1,9}){1,4}")  # "96 96 96", "100,720,1440", "512x512"
_LENGTH: Final = late(r"\d{1,9}")
_ALONE: Final = "="
_MOST: Final = "max"  # says of any size only which it is
_STATES: Final = {
    "off": (False, 0, None, "", "none", "false", "no", "off"),
    "on": (True, "true", "yes", "on"),
}
# Memory that a program writes files to, by its name or by a path below it
_IN_SHM: Final = late(r"(?i)(?:/dev|/run)/shm(?:/\S{0,200})?\Z")
_SHM: Final = "/dev/shm"  # noqa: S108  (a word of the table)
_DENSE: Final = "dense"
_SWITCHED: Final = ("True", "False")
_OF_BUFFERS: Final = "smaller-buffers"
_LEAST_OF_HALVES: Final = 2
# What a program splits into where it does not split at all yet
_FIRST_PIECES: Final = 64
# Things that are too small for a part of one
_FINE: Final = frozenset({
    "rows", "lines", "records", "samples", "examples", "tokens", "texts", "docs", "documents", "words", "items", "ids",
    "pairs", "queries", "rays", "pixels", "points", "frames", "events",
})  # fmt: skip
_TEN: Final = 10
_FIRST_PARTS: Final = 8
_OF_INPUTS: Final = "smaller-input"
_A_LONG_AXIS: Final = 100  # shorter ones are as long as many an option by chance
_OF_A_MODEL: Final = frozenset({"dim", "hidden", "embed", "embedding", "channels", "heads", "layers", "vocab", "seed"})
_OF_THE_BATCH: Final = "smaller-microbatch"
_OF_WORKERS: Final = "fewer-workers"
_WORKER: Final = "workers"  # what scripts call those of a data loader
_QUARTER: Final = 4
_OF_ITEMS: Final = frozenset({"shuffle", "prefetch", "queue", "cache"})  # of which a step takes a batch
_NEGATIONS: Final = frozenset({"no", "disable", "without"})  # the first word of a switch
_OF_PRIMITIVES: Final = "cap-primitives"
_OF_SIZES: Final = frozenset({"kb", "kib", "mb", "mib", "gb", "gib", "bytes"})


class Row(Struct, frozen=True):
    """One row of the table."""

    knob: str
    words: tuple[frozenset[str], ...]  # all of one of these
    alone: tuple[frozenset[str], ...]  # or these, and nothing else
    never: frozenset[str]
    now: frozenset[str]
    then: str


class OwnOption(Struct, frozen=True):
    """An option of the job's own program."""

    row: Row
    setting: Setting
    share: int = 2  # into how many parts a number goes of which less is to be; 0 where none is to be left
    pieces: int = _FIRST_PIECES  # how large each is, where the program does not split at all yet
    whole: int | None = None  # of how many that is a part

    @property
    def then(self) -> Value:
        """What to set it to; None where only the program knows its values."""
        number = self.setting.whole
        if self.row.then == HALF and (lengths := _list_of(self.setting)) is not None:
            return _LENGTH.sub(lambda one: str(max(int(one[0]) // 2, 1)), lengths)
        if (size := _size_of(self.setting)) is not None and self.row.then in (HALF, TWICE):
            return f"{size[0] / 2 if self.row.then == HALF else 2 * size[0]:g}{size[1]}"
        if number is None or self.row.then not in (HALF, TENFOLD, PARTS, TWICE):
            then = typed(self.row.then, "bool" if self.row.then in _SWITCHED else "int") if self.row.then else None
            return False if _negates(self.setting) else _in_the_case_of(self.setting.value, then)
        if self.row.then == HALF:
            return (number // self.share if self.share else 0) if number > 0 else self.pieces
        if self.row.then == TENFOLD:
            return number * _TEN
        return number * 2 if number > 1 or self.row.then == TWICE else _FIRST_PARTS

    @property
    def is_all_at_once(self) -> bool:
        """Whether the program cuts its work into no parts yet."""
        sizes = _size_of(self.setting) or _list_of(self.setting)
        few = (self.setting.whole or 0) < _LEAST_OF_HALVES and sizes is None
        return self.row.then in (HALF, PARTS) and few

    @property
    def formula(self) -> str | None:
        """How that comes of what it is now; None where it does not."""
        number, then = self.setting.whole, self.then
        if _list_of(self.setting) is not None:
            return say("half of each") if self.row.then == HALF else None
        if self.is_all_at_once and self.whole is not None:
            return encodings.part_of(self.whole)
        if (size := _size_of(self.setting)) is not None and self.row.then in (HALF, TWICE):
            return (
                f"{size[0]:g} / 2 = {size[0] / 2:g}" if self.row.then == HALF else f"2 x {size[0]:g} = {2 * size[0]:g}"
            )
        if number is None or number < 1 or (self.row.then == PARTS and number == 1):
            return None
        if self.row.then == HALF:
            return f"{number} / {self.share} = {then}" if self.share else say("0 is the minimum")
        doubled = f"2 x {number} = {then}"
        return {TENFOLD: f"{_TEN} x {number} = {then}", PARTS: doubled, TWICE: doubled}.get(self.row.then)


@cache
def table() -> tuple[Row, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(
        Row(knob, _names_of(words, alone=False), _names_of(words, alone=True), _set(never), _set(now), then)
        for knob, words, never, now, then in rows
    )


def _names_of(cell: str, *, alone: bool) -> tuple[frozenset[str], ...]:
    names = (name for name in cell.split() if name.startswith(_ALONE) is alone)
    return tuple(frozenset(name.removeprefix(_ALONE).split("+")) for name in names)


def _set(cell: str) -> frozenset[str]:
    return frozenset(cell.split())


def own_option(knob: str, crash: Crash) -> OwnOption | None:
    """The option on the job's launch line that turns the knob; None where a framework's program has the options."""
    rows = [row for row in table() if row.knob == knob]
    if not rows or driven(crash.job.frameworks):
        return None
    stated = [one for one in crash.context.settings.values() if one.written]
    if knob == _OF_INPUTS and (axis := _of_an_axis(crash, stated)) is not None:
        return axis
    turned = ((row, one) for row in rows for one in stated if _turns(row, one))
    return next((_turned(row, one, crash) for row, one in turned), None)


def _turned(row: Row, setting: Setting, crash: Crash) -> OwnOption:
    if row.knob == _OF_PRIMITIVES and not row.then and (held := primitives_of(crash)) is not None:
        return OwnOption(replace(row, then=HALF), setting, pieces=max(held.count // 2, 1))
    whole = whole_of(setting.name, crash)
    part = cut_off(whole // encodings.PIECES, 1) if whole is not None else _least_part(setting.name)
    pieces = encodings.rows_at_a_time(setting.name, crash) or part
    return OwnOption(row, setting, _share(row.knob, setting, crash), pieces, whole)


def _least_part(name: str) -> int:
    """How many a first part has of what nobody counts: "--stores-per-chunk" may be of three stores."""
    things, *rest = words_of(name)
    return 1 if rest[:1] == ["per"] and things not in _FINE else _FIRST_PIECES


def _of_an_axis(crash: Crash, stated: list[Setting]) -> OwnOption | None:
    """The only option that is as large as an axis of the array which was refused, or of the largest that is printed."""
    refused = lengths_of(crash.root.shape or "") if isinstance(crash.root, HostAllocation) else []
    arrays = () if refused else large_arrays(crash)[:1] or filter(None, [pairs_counted(crash)])
    lengths = refused or [length for array in arrays for length in array.shape]
    alike = [one for one in stated if one.whole in lengths and (one.whole or 0) >= _A_LONG_AXIS]
    counts = [one for one in alike if _OF_A_MODEL.isdisjoint(words_of(one.name))]
    return OwnOption(Row(_OF_INPUTS, (), (), frozenset(), frozenset(), HALF), counts[0]) if len(counts) == 1 else None


def parts(crash: Crash) -> bool:
    """Whether an option says into how many parts a graph or a table is cut, of which one is computed at a time."""
    option = own_option("smaller-partitions", crash)
    return option is not None and option.row.then == PARTS


def _share(knob: str, setting: Setting, crash: Crash) -> int:
    """A half, and a quarter where a kill has left no size: half is often too little for what nobody knows. None of the
    workers that could not be forked: each is as large as its parent."""
    if knob == _OF_WORKERS and _WORKER in words_of(setting.name) and a_loader_was_not_forked(crash) is not None:
        return 0
    if (setting.whole or 0) < 2 * _QUARTER:
        return 2
    bare = isinstance(crash.root, Kill) and not crash.proven
    timid = (
        bare if knob == _OF_BUFFERS else knob == _OF_THE_BATCH and killed_bare_before_the_first_step(crash) is not None
    )
    return _QUARTER if timid else 2


def _in_the_case_of(now: Value, then: Value) -> Value:
    """ "Float64" becomes "Float32": such names are told apart."""
    if not isinstance(now, str) or not isinstance(then, str) or not now[:1].isupper():
        return then
    return then.upper() if now.isupper() else then.capitalize()


def is_switched(knob: str, crash: Crash) -> bool:
    """Whether the option is one for what is kept at all, whatever the job does: it is on, or bounds nothing."""
    option = own_option(knob, crash)
    return option is not None and (isinstance(option.setting.value, bool) or option.setting.whole == 0)


def is_at_its_least(knob: str, crash: Crash) -> bool:
    """The program has the option, whatever it calls it, and it is 1: there is no half of it."""
    rows = [row for row in table() if row.knob == knob]
    stated = crash.context.settings.values()
    named = [one for row in rows for one in stated if _names(row, one) and one.whole is not None]
    return bool(named) and all(one.whole == 1 for one in named)


def _turns(row: Row, setting: Setting) -> bool:
    return _names(row, setting) and _is_now(row, setting) and (_says_only(row, setting) or _is_meant(row, setting))


def _is_meant(row: Row, setting: Setting) -> bool:
    return KNOBS[row.knob].is_meant(setting.value)


def _says_only(row: Row, setting: Setting) -> bool:
    """Whether the name says nothing else: then no value is too small for what the knob is about."""
    return frozenset(words_of(setting.name)) - {_MOST} in {each - {_MOST} for each in (*row.words, *row.alone)}


def _names(row: Row, setting: Setting) -> bool:
    words = frozenset(words_of(setting.name)) - (_NEGATIONS if _negates(setting) else frozenset())
    named = any(each <= words for each in row.words) or words - {_MOST} in row.alone
    return named and words.isdisjoint(row.never)


def _negates(setting: Setting) -> bool:
    """Whether it is a switch that takes something away: "--no-remat"."""
    return setting.value is True and not _NEGATIONS.isdisjoint(words_of(setting.name)[:1])


def _size_of(setting: Setting) -> tuple[float, str] | None:
    """A number and its unit: "4GB", "512 MiB", "64m"."""
    match = _SIZE.fullmatch(setting.value) if isinstance(setting.value, str) else None
    return (float(match[1]), match[0][len(match[1]) :]) if match is not None else None


def _list_of(setting: Setting) -> str | None:
    """Several lengths, of a tile or a chunk."""
    return setting.value if isinstance(setting.value, str) and _LIST.fullmatch(setting.value) else None


def _is_now(row: Row, setting: Setting) -> bool:
    value: Value = False if _negates(setting) else setting.value
    several = _list_of(setting) is not None and row.then == HALF
    if NUMBER in row.now and ((setting.whole or 0) >= _LEAST_OF_HALVES or _size_of(setting) is not None or several):
        return True
    if _THOUSANDS in row.now and (setting.whole or 0) >= _MANY:
        return True
    if _FEW in row.now and _LEAST_OF_HALVES <= (setting.whole or 0) < _MANY:
        return True
    if _SHM in row.now and _IN_SHM.match(str(value)):
        return True
    if any(value in _STATES[state] for state in row.now & _STATES.keys()):
        return True
    return str(value).lower() in row.now - _STATES.keys()


def proposal(knob: str, action: str, crash: Crash) -> Proposal | None:
    """The remedy by the program's own option."""
    option = own_option(knob, crash)
    if option is None:
        return None
    setting, then = option.setting, option.then
    fits = _of_a_buffer(setting, crash) if knob == _OF_BUFFERS and option.row.then == HALF else None
    if fits is not None:
        then = fits[0]
    flag = setting.flag
    if then is None:
        action = say("Keep it sparse") if setting.value == _DENSE else translated(action)
        return Proposal(
            action=say("{action}: {name} is {value} now", action=action, name=flag, value=setting.value),
            current=setting.value,
            setting=flag,
        )
    if then is False and setting.is_switch:
        return Proposal(action=say("Leave out {name}", name=flag), current=True, suggested=False, setting=flag)
    formula = option.formula
    return Proposal(
        action=say("Set {name} from {now} to {then}", name=flag, now=setting.value, then=then)
        if setting.value not in (None, "")
        else say("Set {name} to {then}", name=flag, then=then),
        current=setting.value,
        suggested=then,
        setting=flag,
        derivation=fits[1] if fits is not None else formula,
        snippet=f"{setting.written}{then}",
        assumes=_assumed(option, flag, fits is not None),
    )


def workers_that_fit(crash: Crash, answer: Proposal) -> Proposal | None:
    """The program's option for its workers with the number that fits by their sizes, where that is less than half."""
    option, fit = own_option(_OF_WORKERS, crash), answer.suggested
    if (
        option is None
        or not isinstance(fit, int)
        or isinstance(fit, bool)
        or not 0 < fit < (option.setting.whole or 0) // 2
    ):
        return None
    setting = option.setting
    return replace(
        answer,
        action=say("Set {name} from {now} to {then}", name=setting.flag, now=setting.value, then=fit),
        current=setting.value,
        setting=setting.flag,
        snippet=f"{setting.written}{fit}",
    )


def _assumed(option: OwnOption, flag: str, fits: bool) -> tuple[str, ...]:
    if fits:
        return ()
    if option.formula is None or option.row.then == PARTS or option.is_all_at_once:
        return (say("the program takes this value for {name}", name=flag),)
    return (
        (say("a quarter is a guess: the log has no size"),)
        if option.share == _QUARTER and option.row.then == HALF
        else ()
    )


def _of_a_buffer(setting: Setting, crash: Crash) -> tuple[int, str] | None:
    """A size that fits, and how it was found: from what the buffer held, or from the steps that it did not outlast."""
    fits = that_fits(crash, setting.value)
    if fits is not None or not (_OF_SIZES | _OF_ITEMS).isdisjoint(words_of(setting.name)):
        return fits
    steps, now = crash.context.progress.get("step", 0), setting.whole or 0
    if not 2 <= steps < now or not several_steps_went_by(crash):
        return None
    return steps // 2, say("memory ran out at step {steps}, before {now} were reached: {steps} / 2 = {then}", now=now,
                           steps=steps, then=steps // 2)  # fmt: skip


__all__ = [
    "HALF",
    "NUMBER",
    "PARTS",
    "TENFOLD",
    "TWICE",
    "OwnOption",
    "Row",
    "is_at_its_least",
    "is_switched",
    "own_option",
    "parts",
    "proposal",
    "table",
    "workers_that_fit",
]
