"""Which lines of a message to quote: the one that begins it, and the one that holds the headline's figures."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families.event import Place
from oomdoctor.patterns import late
from oomdoctor.units import BINARY, DECIMAL, UNITS

_FEW: Final = 1000  # a smaller number without a unit is a place in a row: "GPU 0", "step 12"
_LONGEST: Final = 4000  # characters of a line that are read
_SIZE: Final = late(r"(?i)(?<![\w.])(?P<number>\d[\d,]{0,20}(?:\.\d{1,12})?)[ ]?(?P<unit>[kmgt]i?b?\b|bytes?\b)?")
_TENTHS: Final = 10.0

Figure = tuple[float, float]  # from, to: as far as its digits say


def quoted(place: Place, headline: str, explanation: str) -> list[tuple[int, str]]:
    """The first line, and behind it the one that adds more of what the headline says than the first holds itself; where
    the headline says no figure, of what the explanation does."""
    first = (place.line, place.text)
    told = _figures(headline) or _figures(explanation)
    held = _held(place.text, told)
    best = max(place.below, key=lambda line: len(_held(line[1], told) - held), default=None)
    return [first, best] if best is not None and len(_held(best[1], told) - held) > len(held) else [first]


def _figures(words: str) -> dict[str, Figure]:
    """What a text says with a unit; large counts, of which a process's number may be one, where it says no size."""
    sizes, counts = {}, {}
    for match in _SIZE.finditer(words):
        unit, number = (match["unit"] or "").lower(), match["number"].replace(",", "")
        if unit:
            sizes[match[0]] = _range(number, BINARY[unit])
        elif float(number) >= _FEW:
            counts[match[0]] = _range(number, 1)
    return sizes or counts


def _range(number: str, factor: int) -> Figure:
    half = 0.5 / _TENTHS ** len(number.partition(".")[2]) if factor > 1 else 0.0
    return (float(number) - half) * factor, (float(number) + half) * factor


def _held(line: str, told: dict[str, Figure]) -> set[str]:
    """Those of the figures that a line holds, in whatever unit."""
    ranges = list(_ranges(line[:_LONGEST]))
    return {name for name, (low, high) in told.items() if any(a <= high and low <= b for a, b in ranges)}


def _ranges(line: str) -> Iterator[Figure]:
    for match in _SIZE.finditer(line):
        unit, number = (match["unit"] or "").lower(), match["number"].replace(",", "")
        if unit:
            factors = {BINARY[unit], DECIMAL[unit]}
        elif "." in number:  # its unit stands in front, as in "Free memory (GiB): 3.25"
            factors = {factor for factor, _ in UNITS}
        else:
            factors = {1} if float(number) >= _FEW else set()
        yield from (_range(number, factor) for factor in factors)


__all__ = ["quoted"]
