"""Options that the job's own program has for a knob, whatever it calls them: by the words of their names.

A script of one's own has options that no table lists. Where its launch line states one whose name holds the words of a
knob, the remedy names that option and not a library's line of code. The words stand in own_options.txt.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor.incident.model import Crash
from oomdoctor.job.frameworks import driven
from oomdoctor.job.model import Setting, Value
from oomdoctor.job.verbs import words_of
from oomdoctor.language import say, translated
from oomdoctor.remedies import cells
from oomdoctor.remedies.held import that_fits
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.remedies.proposal import Proposal
from oomdoctor.remedies.settings import typed

NUMBER: Final = "number"
HALF: Final = "half"
_STATES: Final = {
    "off": (False, 0, None, "", "none", "false", "no", "off"),
    "on": (True, "true", "yes", "on"),
}
_OF_BUFFERS: Final = "smaller-buffers"
_LEAST_OF_HALVES: Final = 2
# What a program splits into where it does not split at all yet
_FIRST_PIECES: Final = 64


class Row(Struct, frozen=True):
    """One row of the table."""

    knob: str
    words: tuple[frozenset[str], ...]  # all of one of these
    never: frozenset[str]
    now: frozenset[str]
    then: str


class OwnOption(Struct, frozen=True):
    """An option of the job's own program."""

    row: Row
    setting: Setting

    @property
    def then(self) -> Value:
        """What to set it to; None where only the program knows its values."""
        number = self.setting.value
        if self.row.then != HALF:
            return typed(self.row.then, "bool" if self.row.then == "True" else "str") if self.row.then else None
        assert isinstance(number, int)
        return number // 2 if number > 0 else _FIRST_PIECES


@cache
def table() -> tuple[Row, ...]:
    rows = cells.rows(Path(__file__).with_suffix(".txt"))
    return tuple(
        Row(knob, tuple(frozenset(each.split("+")) for each in words.split()), _set(never), _set(now), then)
        for knob, words, never, now, then in rows
    )


def _set(cell: str) -> frozenset[str]:
    return frozenset(cell.split())


def own_option(knob: str, crash: Crash) -> OwnOption | None:
    """The option on the job's launch line that turns the knob; None where a framework's program has the options."""
    rows = [row for row in table() if row.knob == knob]
    if not rows or driven(crash.job.frameworks):
        return None
    stated = [one for one in crash.context.settings.values() if one.written and one.written.startswith("-")]
    return next((OwnOption(row, one) for row in rows for one in stated if _turns(row, one)), None)


def is_at_its_least(knob: str, crash: Crash) -> bool:
    """The program has the option, and it is 1: there is no half of it."""
    rows = [row for row in table() if row.knob == knob]
    stated = [one for one in crash.context.settings.values() if one.written and one.written.startswith("-")]
    named = [one for row in rows for one in stated if _names(row, one) and one.whole is not None]
    return bool(named) and all(one.whole == 1 for one in named)


def _turns(row: Row, setting: Setting) -> bool:
    return _names(row, setting) and _is_now(row, setting) and KNOBS[row.knob].is_meant(setting.value)


def _names(row: Row, setting: Setting) -> bool:
    words = frozenset(words_of(setting.name))
    return any(each <= words for each in row.words) and words.isdisjoint(row.never)


def _is_now(row: Row, setting: Setting) -> bool:
    value = setting.value
    if NUMBER in row.now and (setting.whole or 0) >= _LEAST_OF_HALVES:
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
    fits = that_fits(crash, setting.value) if knob == _OF_BUFFERS else None
    if fits is not None:
        then = fits[0]
    flag = (setting.written or "").strip().rstrip("=")
    if then is None:
        return Proposal(
            action=say("{action}: {name} is {value} now", action=translated(action), name=flag, value=setting.value),
            current=setting.value,
            setting=flag,
        )
    half = option.row.then == HALF and setting.value not in (0, -1)
    return Proposal(
        action=say("Set {name} from {now} to {then}", name=flag, now=setting.value, then=then)
        if setting.value not in (None, "")
        else say("Set {name} to {then}", name=flag, then=then),
        current=setting.value,
        suggested=then,
        setting=flag,
        derivation=fits[1] if fits is not None else f"{setting.value} / 2 = {then}" if half else None,
        snippet=f"{setting.written}{then}",
        assumes=() if half else (say("the program takes this value for {name}", name=flag),),
    )


__all__ = ["HALF", "NUMBER", "OwnOption", "Row", "is_at_its_least", "own_option", "proposal", "table"]
