"""Options that a program prints back below its launch line: a row for each, or all in one dict.

Such a list is one where several of its values repeat what the launch line says. The others are options, too: those that
were left at their defaults. An option of one letter is known by the name that the list has for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from msgspec import Struct

from oomdoctor.job.literals import entries, typed
from oomdoctor.job.model import Setting, Value
from oomdoctor.job.verbs import words_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line

WITHIN: Final = 120  # lines of the launch line
FEWEST: Final = 2  # that repeat it
_LONGEST: Final = 300  # characters of a row
_LONGEST_DICT: Final = 8000
_MOST: Final = 200  # of a dict
_ROW: Final = late(
    r"\s{0,40}(?:[-*•] )?(?:--)?(?P<name>[a-z][\w-]{0,60})(?:\s{0,40}[:=]\s{0,20}|\s?\.{2,60}\s?|\s{2,60})"
    r"(?P<value>\S.{0,200})\Z",
)
_DICT: Final = late(r"\{['\"]\w{1,60}['\"]: ")
_SHORT: Final = late(r"(?:^|\s)-(?P<letters>[a-zA-Z]{1,3}) (?P<value>[\w.+-]{1,60})(?=\s|$)")


class Printed(Struct, frozen=True):
    """One option of such a list."""

    name: str
    value: Value
    line: Line
    letters: str = ""  # by which the launch line has it


def defaults(below: Iterable[Line], launched: Mapping[str, Setting], launch: str) -> Iterator[Printed]:
    """The options in the lines below a launch line that it does not name, or by letters alone."""
    letters = {match["letters"]: typed(match["value"]) for match in _SHORT.finditer(launch)}
    if len(launched) + len(letters) < FEWEST:
        return
    for block in _blocks(below):
        known = {one.name for one in block if one.name in launched and launched[one.name].value == one.value}
        named = {one.name: short for one in block if (short := _letters_of(one, letters)) is not None}
        if len(known) + len(named) >= FEWEST:
            for one in block:
                if one.name not in launched:
                    yield Printed(one.name, one.value, one.line, named.get(one.name, ""))


def spelled(one: Printed, launched: str) -> str:
    """An option in the manner of the launch line, up to its value; a switch by its name alone, whose flag may be
    another."""
    if one.letters:
        return f"-{one.letters} "
    if one.value is None or isinstance(one.value, bool):
        return f"{one.name}="
    return f"--{one.name if '_' in launched else one.name.replace('_', '-')} "


def _blocks(below: Iterable[Line]) -> Iterator[list[Printed]]:
    """Rows that follow one another, and dicts."""
    for of_rows, lines in groupby(((_row(line), line) for line in below), key=lambda each: each[0] is not None):
        if of_rows:
            yield [row for row, _ in lines if row is not None]
        else:
            yield from (found for _, line in lines if (found := _dict(line)))


def _row(line: Line) -> Printed | None:
    match = _ROW.match(line.text.rstrip()) if len(line.text) <= _LONGEST else None
    return Printed(_plain(match["name"]), typed(match["value"].strip("\"'")), line) if match is not None else None


def _dict(line: Line) -> list[Printed]:
    match = _DICT.search(line.text) if len(line.text) <= _LONGEST_DICT else None
    found = [] if match is None else [Printed(_plain(e.name), e.value, line) for e in entries(line.text, match.start())]
    return found if len(found) <= _MOST else []


def _plain(name: str) -> str:
    return name.replace("-", "_")


def _letters_of(one: Printed, letters: Mapping[str, Value]) -> str | None:
    """The letters by which the launch line has it: the first of a word of its name, or of each."""
    words = words_of(one.name)
    short = ("".join(word[0] for word in words), *(word[0] for word in words))
    found = (each for each in letters if letters[each] == one.value and each.lower() in short)
    return next(found, None)


__all__ = ["FEWEST", "WITHIN", "Printed", "defaults", "spelled"]
