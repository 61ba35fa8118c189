"""Regular expressions that are compiled when they are first used, and that no text can keep busy.

A pattern takes 0.1 to 1 ms to compile, there are hundreds, and most logs need a dozen. They are bounded, but a bound of
some thousand characters is still a long time to a pattern that tries every way to match them: long texts go to the
`regex` package, which gives up when asked to. Its import and its patterns cost several times those of `re`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from oomdoctor.needed import needed

LONG: Final = 8192  # characters; lines longer than this are dumps and attacks
PATIENCE: Final = 0.5  # seconds for one search in one long text

if TYPE_CHECKING:
    from re import compile as late
else:
    # What each method says of a text in which the pattern is not
    _NOTHING: Final = {
        "search": lambda: None,
        "match": lambda: None,
        "fullmatch": lambda: None,
        "findall": list,
        "finditer": lambda: iter(()),
    }

    class late:  # noqa: N801  (it is called as `re.compile` is)
        """As `re.compile`, later. A long text on which a search loses its patience does not match."""

        def __init__(self, pattern, flags=0):
            self.pattern = pattern
            self.asked_flags = int(flags)

        def __getattr__(self, name: str) -> Any:
            # Only what is not there yet comes here, and is put in its place.
            if name in _NOTHING:
                words = needed(self.pattern, self.asked_flags)
                found = self._either(name) if words is None else self._where_needed(words, name)
            elif name == "_compiled":
                found = re.compile(self.pattern, self.asked_flags)
            elif name == "_patient":
                import regex  # noqa: PLC0415  (few logs need it)

                found = regex.compile(self.pattern, self.asked_flags)
            else:
                found = getattr(self._compiled, name)
            setattr(self, name, found)
            return found

        def _where_needed(self, needed, method):
            """The method, for texts that hold a needed word: the pattern is compiled for the first of them."""
            words, nothing = needed.words, _NOTHING[method]
            asked = None

            def find(text, *where):
                nonlocal asked
                for word in words:
                    if word in text:
                        asked = asked or self._either(method)
                        return asked(text, *where)
                return nothing()

            def find_small(text, *where):
                nonlocal asked
                small = text.lower()
                if not text.isascii() or any(word in small for word in words):
                    asked = asked or self._either(method)
                    return asked(text, *where)
                return nothing()

            return find_small if needed.small else find

        def _either(self, method):
            """The method of the engine that suits the text."""
            plain, nothing = getattr(self._compiled, method), _NOTHING[method]

            def find(text, *where):
                if len(text) <= LONG:
                    return plain(text, *where)
                if method == "finditer":
                    return self._patiently(text, *where)
                try:
                    return getattr(self._patient, method)(text, *where, timeout=PATIENCE)
                except TimeoutError:
                    return nothing()

            return find

        def _patiently(self, text, *where):
            try:
                yield from self._patient.finditer(text, *where, timeout=PATIENCE)
            except TimeoutError:
                return


class AnyOf:
    """Searches as one pattern of these alternatives does; each is compiled for itself, when a text holds its word."""

    def __init__(self, *patterns: str) -> None:
        self._each = [late(pattern) for pattern in patterns]

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in the text; of two at one place, that of the first pattern."""
        found = (match for pattern in self._each if (match := pattern.search(text)) is not None)
        return min(found, key=re.Match.start, default=None)


_Answer = TypeVar("_Answer")
_KEPT: Final = 4096  # answers: more than the longest window has lines
_SHORT: Final = 1000  # characters: some megabytes of texts are kept


def remembered(look: Callable[[str], _Answer]) -> Callable[[str], _Answer]:
    """The function of a text with its last answers kept: the lines around every hit are looked through again."""
    kept = lru_cache(_KEPT)(look)
    return lambda text: kept(text) if len(text) <= _SHORT else look(text)


__all__ = ["AnyOf", "late", "remembered"]
