"""A plausible figure for each value of a string (figures.toml)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from benchmarks.upstream.text import Piece, Value, words

NEAR = 60  # letters before a value that say what it is
NEED = "need"  # what a value is of where nothing says
SIZE = "SIZE"  # in `says`: an amount with its unit
DECIMALS = re.compile(r"[%:].*\.(\d)[fgeFGE]?\}?$")
NUMBER = re.compile(r"[%:].*[dioufFgGeEn]\}?$")
LETTER = re.compile(r"[%:].*([pxXm])\}?$")


class Role(Struct, frozen=True):
    role: str
    after: str
    word: str


class Name(Struct, frozen=True):
    says: str
    expression: str = ""
    before: str = ""

    def fits(self, wanted: str) -> bool:
        """Whether a format takes it: those of numbers take no words."""
        return self.says.isdigit() or not NUMBER.search(wanted)


class Unit(Struct, frozen=True):
    gigabytes: float
    decimals: int
    after: str = ""
    expression: str = ""
    before: str = ""


class Table(Struct, frozen=True):
    roles: Mapping[str, float]
    letters: Mapping[str, str]
    role: tuple[Role, ...]
    name: tuple[Name, ...]
    unit: tuple[Unit, ...]


@cache
def table() -> Table:
    return msgspec.toml.decode((Path(__file__).parent / "figures.toml").read_bytes(), type=Table)


class Place(Struct, frozen=True):
    """A value and the words around it."""

    value: Value
    before: str
    after: str

    def matches(self, row: Name | Unit) -> bool:
        looked = ((row.expression, self.value.expression), (row.before, self.before))
        return self.is_before(row) or any(
            pattern and re.search(pattern, text, re.IGNORECASE) for pattern, text in looked
        )

    def is_before(self, row: Name | Unit) -> bool:
        """Whether the row's unit stands right behind the value."""
        return isinstance(row, Unit) and bool(row.after) and re.search(row.after, self.after, re.IGNORECASE) is not None

    @property
    def role(self) -> str | None:
        """What it is an amount of: asked for, free, in use, or there at all."""
        behind = (row.role for row in table().role if re.search(row.after, self.after, re.IGNORECASE))
        return next(behind, None) or nearest(self.value.expression) or nearest(self.before)


def filled(pieces: tuple[Piece, ...]) -> str:
    """The string as a user may see it."""
    texts: list[str] = []
    unit: Unit | None = None
    for number, piece in enumerate(pieces):
        if isinstance(piece, str):
            texts.append(piece)
            continue
        before, after = "".join(texts)[-NEAR:], words(pieces[number + 1 : number + 2])[:NEAR]
        place = Place(piece, before, after)
        unit = unit_of(place) or unit
        texts.append(as_words(place) or sized(place, unit_of(place) or (unit if place.role else None)))
    return "".join(texts).strip()


def unit_of(place: Place) -> Unit | None:
    """What a value is counted in: what stands behind it tells more than its expression does."""
    units = [row for row in table().unit if place.matches(row)]
    return next((row for row in units if place.is_before(row)), units[0] if units else None)


def as_words(place: Place) -> str:
    """What stands for a value that is no figure of memory; "" for one that is."""
    wanted = place.value.format
    if letter := LETTER.search(wanted):
        return table().letters[letter[1]]
    unit = unit_of(place)
    if DECIMALS.search(wanted) or (unit is not None and place.is_before(unit)):
        return ""
    names = (name.says for name in table().name if place.matches(name) and name.fits(wanted))
    said = next(names, "")
    return f"{table().roles[place.role or NEED]:.2f} GiB" if said == SIZE else said


def sized(place: Place, unit: Unit | None) -> str:
    """The amount in its unit; a small count where nothing tells one."""
    decimals = DECIMALS.search(place.value.format)
    amount = table().roles[place.role or NEED]
    if unit is None:
        return f"{amount:.{decimals[1]}f}" if decimals else "8"
    places = int(decimals[1]) if decimals else unit.decimals
    return f"{amount * unit.gigabytes:.{places}f}"


def nearest(text: str) -> str | None:
    """The role whose word stands last."""
    ends = [
        (match.end(), row.role)
        for row in table().role
        for match in re.finditer(rf"(?<![^\W_])(?:{row.word})(?![^\W_])", text, re.IGNORECASE)
    ]
    return max(ends)[1] if ends else None
