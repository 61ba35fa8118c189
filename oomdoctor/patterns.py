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

LONG: Final = 8192  # characters; lines longer than this are dumps and attacks
PATIENCE: Final = 0.5  # seconds for one search in one long text

if TYPE_CHECKING:
    from re import compile as late
else:

    class late:  # noqa: N801  (it is called as `re.compile` is)
        """As `re.compile`, later. A long text on which a search loses its patience does not match."""

        def __init__(self, text, flags=0):
            self._text = text
            self._flags = flags
            self._patient = None

        def __getattr__(self, name: str) -> Any:
            # Only what is not there yet comes here: the methods that know both engines are put in its place.
            compiled = re.compile(self._text, self._flags)
            for method in ("search", "match", "fullmatch"):
                setattr(self, method, self._first(getattr(compiled, method), method))
            self.finditer = self._each(compiled.finditer)
            self.findall = self._all(compiled.findall)
            self.sub, self.split, self.pattern = compiled.sub, compiled.split, compiled.pattern
            return self.__dict__[name] if name in self.__dict__ else getattr(compiled, name)

        def _first(self, plain, method):
            def find(text, *where):
                if len(text) <= LONG:
                    return plain(text, *where)
                try:
                    return getattr(self._with_patience(), method)(text, *where, timeout=PATIENCE)
                except TimeoutError:
                    return None

            return find

        def _each(self, plain):
            def find(text, *where):
                return plain(text, *where) if len(text) <= LONG else self._patiently(text, *where)

            return find

        def _all(self, plain):
            def find(text, *where):
                if len(text) <= LONG:
                    return plain(text, *where)
                try:
                    return self._with_patience().findall(text, *where, timeout=PATIENCE)
                except TimeoutError:
                    return []

            return find

        def _patiently(self, text, *where):
            try:
                yield from self._with_patience().finditer(text, *where, timeout=PATIENCE)
            except TimeoutError:
                return

        def _with_patience(self):
            if self._patient is None:
                import regex  # noqa: PLC0415  (few logs need it)

                self._patient = regex.compile(self._text, self._flags)
            return self._patient


_Answer = TypeVar("_Answer")
_KEPT: Final = 4096  # answers: more than the longest window has lines
_SHORT: Final = 1000  # characters: some megabytes of texts are kept


def remembered(look: Callable[[str], _Answer]) -> Callable[[str], _Answer]:
    """The function of a text with its last answers kept: the lines around every hit are looked through again."""
    kept = lru_cache(_KEPT)(look)
    return lambda text: kept(text) if len(text) <= _SHORT else look(text)


__all__ = ["late", "remembered"]
