"""Sizes on lines that speak of memory, in the words of any program: what no family reads still stands there."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import ahocorasick_rs

from oomdoctor.patterns import late
from oomdoctor.units import BINARY, DECIMAL, MIB, size

NAME: Final = "size_bytes"
WORDS: Final = (
    "iB",
    "GB",
    "MB",
    "KB",
    "gb",
    "mb",
    "kb",
    "bytes",
    "ize",
    "emory",
    "heap",
    "-mem",
    "old_space",
    "old-space",
)
LATEST: Final = 24
LINES: Final = 120  # of a file, its last that hold one of the words
CHARACTERS: Final = 2000
FEWEST: Final = 6  # digits of a number without a unit that is a size

_ABOUT = (
    r"(?:mem(?:ory)?|v?ram|pool|heap|cache|alloc\w*|buffers?|swap|rss|vss|pss|hbm|shm|weights|model|overhead|budget"
    r"|reserved?|requir\w*|limit|free|avail\w*|capacity|segment|workspace|arena)"
)
_SPEAKS = late(rf"(?i)(?<![a-z]){_ABOUT}(?![a-z])|\dMiB {{0,2}}/ {{0,8}}\d")
_SIZE = late(r"(?<![\w.,/:-])(\d[\d,]{0,18}(?:\.\d{1,14})?) {0,10}([KMGTkmgt]i?[Bb]|[KMGT]i|bytes)(?![\w/]|ps\b)")
# "153 of 1023 MiB": the first has the second one's unit
_OF = late(r"(?<![\w.,/:-])(\d{1,12}(?:\.\d{1,6})?) ?(?:of|out of|/) {0,8}\d{1,12}(?:\.\d{1,6})? ?([KMGT]i?B)\b")
# "--rmm-pool-size 100GB", "memory_limit = \"4GB\"": whoever sets it means the decimal ones
_SET = late(
    rf"(?i)(?:--?|\bset )(?:[a-z]\w*[_.-])*{_ABOUT}(?:[_.-]\w+)*(?: ?= ?| )[\"']?"
    r"(\d{1,12}(?:\.\d{1,3})?)([KMGT](?:B|i|iB)?)\b"
)
# "'memory(GiB)': 75.22", "Target maximum memory (GB)      3"
_KEY_UNIT = late(
    rf"(?i)(?<![a-z]){_ABOUT}[\w ]{{0,24}}?[\[(]([KMGT]i?B)[\])][\"']?\s{{0,4}}[:= ]\s{{0,60}}"
    r"(\d{1,12}(?:\.\d{1,12})?)(?![\w.])"
)
# "[size:2147483648]", "byte size 102236160", "Global memory: 536543232"
_BARE = late(
    rf"(?i)(?<![a-z])(?:{_ABOUT}|size|nbytes|bytes)(?:[_ ](?:size|bytes))?[\"']?\s{{0,3}}[:=( ]\s{{0,12}}"
    rf"(\d{{{FEWEST},18}})(?![\w.]|,\d)"
)
# V8 counts it in MiB
_OLD_SPACE = late(r"\bmax[-_]old[-_]space[-_]size[= ](\d{1,7})\b")


class LastLines:
    """Keeps the last lines that may state one; they are read when somebody asks."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=LINES)

    def add(self, texts: Iterable[str]) -> None:
        """Take these lines of a page."""
        self._lines.extend(text[:CHARACTERS] for text in texts if _words().find_matches_as_indexes(text))

    def join(self, later: LastLines) -> None:
        """Take those of another file of the job."""
        self._lines.extend(later._lines)

    def latest(self) -> tuple[int, ...]:
        """The last sizes that differ, in the order of the log."""
        found: dict[int, None] = {}
        for text in self._lines:
            for value in sizes(text):
                found.pop(value, None)
                found[value] = None
        return tuple(found)[-LATEST:]


@cache
def _words() -> ahocorasick_rs.AhoCorasick:
    return ahocorasick_rs.AhoCorasick(WORDS, matchkind=ahocorasick_rs.MatchKind.LeftmostFirst)


def sizes(text: str) -> Iterator[int]:
    """The sizes in bytes that the line states of memory."""
    yield from (value for value in _read(text) if value)


def _read(text: str) -> Iterator[int | None]:
    if match := _OLD_SPACE.search(text):
        yield int(match[1]) * MIB
    if _SPEAKS.search(text) is None:
        return
    for match in _SET.finditer(text):
        yield size(match[1], match[2], DECIMAL if match[2].lower().endswith("b") else BINARY)
    for match in _SIZE.finditer(text):
        yield size(match[1], match[2], BINARY)
    for match in _OF.finditer(text):
        yield size(match[1], match[2], BINARY)
    for match in _KEY_UNIT.finditer(text):
        yield size(match[2], match[1], BINARY)
    for match in _BARE.finditer(text):
        yield size(match[1])


__all__ = ["LATEST", "NAME", "LastLines", "sizes"]
