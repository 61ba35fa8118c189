"""Families whose messages are sentences with figures: a table of sentences and one of clauses make the reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from msgspec import Struct, field

from oomdoctor import grammars
from oomdoctor.families.event import Event, Read
from oomdoctor.families.lines import place_of, process_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size

LONGEST = 2000  # characters
_UP_TO_THE_MESSAGE = 5  # lines from a statement that raises, with its carets

Clause = Callable[[tuple[str, ...]], dict[str, Any]]

_OPENS_A_STRING = late(r"(?:^|[(,=]) {0,80}f?[\"']$")  # not after a colon: that is JSON
# Somebody's quotation of a whole line: code is indented where a traceback shows it, and has names for figures
_QUOTED = late(r"([\"'])[^\"'{}]{0,400}\d[^\"'{}]{0,400}\1[.,]?\s{0,8}")
_SIZE = late(r"(-?[\d,.]+)\s*([A-Za-z]*)")


class Sentence(Struct, frozen=True):
    """One message, known by the words it begins with."""

    head: str
    event: type[Event]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # what the wording itself says
    lines: int = 1  # how many records or wrapped lines it goes on over
    needs: str = ""  # the figure without which it is not this message; "" where any figure will do
    whole: str = ""  # the figure with which nothing is missing that the next lines could hold
    bare: bool = False  # worth an event without any figure
    ends: str = ""  # words that source code has on a line of its own: with both ends on one line it is the message


def _texts(lines: tuple[Line, ...], head: str) -> list[str]:
    """What each line holds of the sentence: from its head on, up to where it is printed again."""
    texts = [lines[0].text[lines[0].text.index(head) :]]
    for line in lines[1:]:
        if head in line.text:
            break
        texts.append(line.text.strip())
    return texts


def event_of(page: Page, index: int, sentence: Sentence, grammar: str, known: Mapping[str, Clause]) -> Event | None:
    """The event of the sentence whose head this line holds, where its figures are there."""
    lines = tuple(page.after(index, sentence.lines)[: sentence.lines])
    texts = _texts(lines, sentence.head)
    figures = _figures(texts[:1], sentence, grammar, known)
    if sentence.whole in figures:
        del texts[1:]
    elif len(texts) > 1:
        figures = _figures(texts, sentence, grammar, known)
    if sentence.needs not in {"", *figures} or not (figures or sentence.bare):
        return None
    # It ends where nothing more is learnt from the next line.
    shorter = range(1, len(texts))
    last = next((n for n in shorter if _figures(texts[:n], sentence, grammar, known) == figures), len(texts))
    first = lines[0]
    gpu = figures.pop("gpu", None)
    return sentence.event(
        at=place_of(page, first, lines[last - 1]),
        time=first.mark.time,
        process=process_of(first, gpu),
        **{**sentence.fixed, **figures},
    )


def _figures(texts: list[str], sentence: Sentence, grammar: str, known: Mapping[str, Clause]) -> dict[str, Any]:
    """The figures that the event has a field for; the first print of each counts."""
    kind: Any = sentence.event
    names = _names(kind)
    figures: dict[str, Any] = {}
    for clause, said in grammars.said(grammar, " ".join(texts)[:LONGEST]):
        for name, value in known[clause](said).items() if clause in known else ():
            if name in names and value is not None:
                figures.setdefault(name, value)
    return figures


@cache
def _names(kind: Any) -> frozenset[str]:
    return frozenset({"gpu", *kind.__struct_fields__})


def is_source(text: str, head: str) -> bool:
    """Whether the words stand in a line of source code: a traceback shows such lines without their figures.

    The line that raises is as good as the message: where a log is cut behind it, it is all there is.
    """
    before = text[: text.index(head)]
    if _QUOTED.fullmatch(text):
        return False
    return _OPENS_A_STRING.search(before) is not None and "raise " not in before


def _is_said_below(page: Page, index: int, head: str) -> bool:
    """Whether a line that raises is followed by the message itself, which is the line to show."""
    if "raise " not in page.lines[index].text:
        return False
    below = page.after(index, _UP_TO_THE_MESSAGE)[1:]
    return any(head in line.text and "raise " not in line.text for line in below)


def _in_one(text: str, sentence: Sentence) -> bool:
    return bool(sentence.ends) and sentence.ends in text and "raise " not in text


def reader(
    grammar: str, sentences: tuple[Sentence, ...], known: Mapping[str, Clause]
) -> Callable[[Page, int], Iterator[Read]]:
    """Reads the first sentence of the table that the line holds."""

    def read(page: Page, index: int) -> Iterator[Read]:
        text = page.lines[index].text
        for sentence in sentences:
            if (
                sentence.head in text
                and (_in_one(text, sentence) or not is_source(text, sentence.head))
                and not _is_said_below(page, index, sentence.head)
            ):
                event = event_of(page, index, sentence, grammar, known)
                if event is not None:
                    yield event
                    return

    return read


def bytes_of(text: str, unit: str = "") -> int | None:
    """A size with its unit, or with the unit that stands elsewhere, or in plain bytes."""
    match = _SIZE.match(text)
    return size(match[1].rstrip("."), match[2] or unit, BINARY) if match else None


def count_of(text: str) -> int | None:
    plain = text.replace(",", "").rstrip(".")
    return int(plain) if re.fullmatch(r"-?\d{1,18}", plain) else None


def number_of(text: str) -> float | None:
    plain = text.replace(",", "").rstrip(".")
    return float(plain) if re.fullmatch(r"-?\d{1,18}(?:\.\d{1,30})?", plain) else None


def counted_in(unit: int) -> Callable[[str], int | None]:
    """Of a number behind which no unit stands, or one that means something else there."""

    def bytes_in(text: str) -> int | None:
        number = number_of(text)
        return None if number is None else round(number * unit)

    return bytes_in


def share_of(text: str) -> float | None:
    """A share of something: none is negative."""
    share = number_of(text)
    return share if share is not None and share >= 0 else None


def device_of(text: str) -> int | None:
    """The card's number: "cuda:3"."""
    return count_of(text.rpartition(":")[2])


def values(**names: Callable[[str], Any]) -> Clause:
    """A clause whose values are these fields, in order."""

    def read(texts: tuple[str, ...]) -> dict[str, Any]:
        return {name: convert(text) for (name, convert), text in zip(names.items(), texts, strict=False)}

    return read


def of_which(*names: str) -> Clause:
    """A clause whose one value holds several sizes that share the unit of the last: "31.44/47.38 GiB"."""

    def read(texts: tuple[str, ...]) -> dict[str, Any]:
        if not texts:
            return {}
        parts = texts[0].split("/")
        unit = parts[-1].lstrip("-0123456789. ")
        return {name: bytes_of(part, unit) for name, part in zip(names, parts, strict=False)}

    return read
