"""The figures that stand around a failure, by the names printed with them: those that no reader knows are kept, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice, zip_longest
from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.patterns import late
from oomdoctor.text import sanitize
from oomdoctor.units import LARGEST_NUMBER, size

NEAREST: Final = 20  # lines above and below
MOST: Final = 64  # figures of one failure
CHARACTERS: Final = 600  # of a line
_OF_NOTHING: Final = ("", "%")  # without a name these say nothing
# A number of its own: no part of a time, a date, a version, an address, a path or a name
_NUMBER: Final = late(
    r"(?<![\w.:/\\#@+-])(?P<number>-?(?:\d{1,3}(?:,\d{3}){1,6}|\d{1,20})(?:\.\d{1,12})?(?:[eE][+-]?\d{1,2})?)"
    r"(?:(?:/|\s{1,9}(?:out )?of\s{1,9})(?P<whole>\d{1,20}(?:\.\d{1,12})?(?![\d/])))?"
    r"(?P<unit>\s?(?:[KMGT]i?B|[kmg]b|[KMGT]i|[Bb]ytes|B|%|ms|s|tokens?|pages?|blocks?|K|M|G)(?![\w/-]))?"
    r"(?![\w:@\\]|-\d|/\d{1,2}/|\.\d)"
)
# The words right before it, and what joins them to it
_NAME: Final = late(
    r"(?P<name>[A-Za-z_](?:[\w.%()/-]|\[\w|\]|(?<=\w) (?=[A-Za-z_(])){0,60}?)[\"']?\s{0,12}"
    r"(?:==?|:|\(|\bis|\bof|\bwas|\bout of)?\s{0,12}[\"'(\[]?\Z"
)
_NOUN: Final = late(r"\s(?P<name>[A-Za-z_]\w{1,30}(?: [A-Za-z_]\w{1,30}){0,2})")
_LINKS: Final = frozenset({"a", "and", "at", "by", "for", "from", "in", "is", "of", "on", "out", "the", "to", "with"})
_SIZE_IN_A_NAME: Final = late(r"[(\[_ ]([KMGTkmgt]i?[Bb]|[Bb]ytes)[)\]]?\Z")
_IN_A_ROW: Final = late(r"\A\s{0,2}[,x/]\s{0,2}\Z")


def nearby(event: Event) -> dict[str, tuple[float, ...]]:
    """The figures of the message and of the lines around it by their names, each once, the nearest first; of sizes the
    bytes."""
    above, below = reversed(event.around.before[-NEAREST:]), event.around.below[:NEAREST]
    lines = (event.at.text, *(line for pair in zip_longest(above, below, fillvalue="") for line in pair))
    found: dict[str, tuple[float, ...]] = {}
    for name, value in islice(dict.fromkeys(_of_lines(lines)), MOST):
        found[name] = (*found.get(name, ()), value)
    return found


def _of_lines(lines: Iterable[str]) -> Iterator[tuple[str, float]]:
    for line in lines:
        yield from _of_line(sanitize(line[:CHARACTERS]))


def _of_line(text: str) -> Iterator[tuple[str, float]]:
    name, end = "", 0
    for match in _NUMBER.finditer(text):
        between = text[end : match.start()]
        if not (name and _IN_A_ROW.match(between)):
            name = _name(between, text[match.end() :])
        end, unit = match.end(), (match["unit"] or "").strip()
        if name or unit not in _OF_NOTHING:
            values = (_value(name, number, unit) for number in (match["number"], match["whole"]) if number)
            yield from ((name or unit, value) for value in values if abs(value) < LARGEST_NUMBER)


def _name(before: str, behind: str) -> str:
    match, noun = _NAME.search(before), _NOUN.match(behind)
    words = match["name"].strip(" ([") if match is not None else ""
    return noun["name"] if noun is not None and words in ("", *_LINKS) else words


def _value(name: str, number: str, unit: str) -> float:
    inside = _SIZE_IN_A_NAME.search(name)
    unit = inside[1] if inside is not None and not unit else unit
    size_bytes = size(number, unit) if unit else None
    plain = float(number.replace(",", "")) if size_bytes is None else size_bytes
    return int(plain) if plain == int(plain) else plain
