"""The words without which a pattern matches nothing: a text that holds none of them need not be searched.

Most lines that a pattern is asked of hold none, and many patterns are never asked of a line that holds one: these are
not even compiled. The words are worked out from the pattern as `re` parses it, which takes as long as compiling it
does: a wheel has those of its patterns in a table, and a checkout goes without.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec

TABLE: Final = Path(__file__).with_name("needed.json")
SHORTEST: Final = 2  # characters; nearly every line has any one
LONG: Final = 6  # a word of so many is as rare as a longer one
MOST: Final = 40  # words that are looked for one by one
MOST_TEXTS: Final = 24  # that a piece of a pattern may stand for

Texts = frozenset[str]
Part = tuple[Any, Any]  # of a parsed pattern: what it is, and what of


class Needed(msgspec.Struct, frozen=True, array_like=True):
    """Words, one of which stands in every text that the pattern matches."""

    words: tuple[str, ...]
    small: bool = False  # they stand in the text in small letters


Table = dict[int, dict[str, Needed]]  # by the flags of a pattern and its text


@cache
def _table() -> Table:
    return msgspec.json.decode(TABLE.read_bytes(), type=Table) if TABLE.is_file() else {}


def needed(pattern: str | bytes, flags: int) -> Needed | None:
    """What a pattern needs; None where it needs nothing, or where no table knows the pattern."""
    return None if isinstance(pattern, bytes) else _table().get(flags, {}).get(pattern)


def written(patterns: Iterable[tuple[str, int]]) -> bytes:
    """What these patterns need, as a wheel has it."""
    table: Table = {}
    for pattern, flags in sorted(set(patterns)):
        if found := worked_out(pattern, flags):
            table.setdefault(flags, {})[pattern] = found
    return msgspec.json.encode(table)


def worked_out(pattern: str, flags: int) -> Needed | None:
    """What the pattern needs; None where it needs nothing that could be looked for."""
    parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
    parsed = parser.parse(pattern, flags)
    small = bool(parsed.state.flags & re.IGNORECASE)
    found = None if small else _Reader(small=False).needs(parsed)
    if found is None:  # as a whole, or a part of it, in letters of either case
        small, found = True, _Reader(small=True).needs(parsed)
    if found is None or not (small <= all(map(str.isascii, found))):
        return None  # beyond ASCII there are letters with several small ones
    return Needed(tuple(sorted(word for word in found if not any(other in word for other in found - {word}))), small)


class _Reader:
    """Reads a parsed pattern, where words in letters of either case may stand in small ones, or tell nothing."""

    def __init__(self, *, small: bool) -> None:
        self._small = small

    def needs(self, parts: Iterable[Part]) -> Texts | None:
        """The best words of which a match of all these parts has one."""
        found: list[Texts | None] = []
        together: Texts = _NOTHING  # what the parts just read stand for, one behind the other
        for name, value in ((str(name), value) for name, value in parts):
            texts = self._texts(name, value)
            longer = _joined(together, texts) if texts else None
            if longer is None:
                found.append(together)
            together = longer or texts or _NOTHING
            found.append(self._inside(name, value))
        words = (each for each in (*found, together) if each and len(each) <= MOST and min(map(len, each)) >= SHORTEST)
        return max(words, key=_worth, default=None)

    def _inside(self, name: str, value: Any) -> Texts | None:
        """The words that a part needs."""
        if name == "BRANCH":
            each = [self.needs(branch) for branch in value[1]]
            known = [words for words in each if words]
            return frozenset().union(*known) if len(known) == len(each) else None
        if name in _REPEATS:
            least, _, repeated = value
            return self.needs(repeated) if least else None
        if name == "ASSERT":
            return self.needs(value[1])
        inside = self._group(name, value)
        return self.needs(inside) if inside is not None else None

    def _texts(self, name: str, value: Any) -> Texts | None:
        """The few texts that a part stands for; None where it may be another one."""
        if name in _WITHOUT_WIDTH:
            return _NOTHING
        if name == "LITERAL":
            return frozenset({chr(value).lower() if self._small else chr(value)})
        if name == "IN":
            return _of_all(self._texts(str(kind), sign) for kind, sign in value)
        if name == "BRANCH":
            return _of_all(map(self._all, value[1]))
        if name in _REPEATS:
            least, most, repeated = value
            return self._repeated(repeated, least, most) if most <= _OFTEN else None
        inside = self._group(name, value)
        return self._all(inside) if inside is not None else None

    def _repeated(self, parts: Sequence[Part], least: int, most: int) -> Texts | None:
        return _of_all(self._all([part for _ in range(times) for part in parts]) for times in range(least, most + 1))

    def _all(self, parts: Iterable[Part]) -> Texts | None:
        """The texts that these parts stand for, one behind the other."""
        found: Texts | None = _NOTHING
        for name, value in parts:
            texts = self._texts(str(name), value)
            found = _joined(found, texts) if found and texts else None
        return found

    def _group(self, name: str, value: Any) -> Sequence[Part] | None:
        """What a group holds; None where it changes what letters mean, or is none."""
        if name not in _GROUPS:
            return None
        added, removed, inside = (0, 0, value) if name == "ATOMIC_GROUP" else value[1:]
        parts: Sequence[Part] = inside
        return parts if self._small or not (added | removed) & re.IGNORECASE else None


_NOTHING: Final[Texts] = frozenset({""})
_WITHOUT_WIDTH: Final = frozenset({"AT", "ASSERT", "ASSERT_NOT"})
_REPEATS: Final = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_GROUPS: Final = frozenset({"SUBPATTERN", "ATOMIC_GROUP"})
_OFTEN: Final = 4  # times


def _of_all(each: Iterable[Texts | None]) -> Texts | None:
    """The texts of any of them; None where one of them may be anything."""
    every = list(each)
    known = [texts for texts in every if texts]
    return _few(frozenset().union(*known)) if len(known) == len(every) else None


def _joined(one: Texts, other: Texts) -> Texts | None:
    return _few(frozenset(before + behind for before in one for behind in other))


def _few(texts: Texts) -> Texts | None:
    return texts if len(texts) <= MOST_TEXTS else None


def _worth(words: Texts) -> tuple[int, int, int, list[str]]:
    shortest = min(map(len, words))
    return min(shortest, LONG), -len(words), shortest, sorted(words)


__all__ = ["TABLE", "Needed", "needed", "worked_out", "written"]
