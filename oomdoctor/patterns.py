"""Regular expressions that are compiled when they are first used.

A pattern takes 0.1 to 1 ms to compile, there are hundreds, and most logs need a dozen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as late
else:

    class late:  # noqa: N801  (it is called as `re.compile` is)
        """As `re.compile`, later."""

        def __init__(self, text, flags=0):
            self._text = text
            self._flags = flags

        def __getattr__(self, name: str) -> Any:
            # Only what is not there yet comes here: the compiled pattern's own methods are put in its place.
            compiled = re.compile(self._text, self._flags)
            for method in _USED:
                setattr(self, method, getattr(compiled, method))
            return getattr(compiled, name)


_USED = ("search", "match", "fullmatch", "finditer", "findall", "sub", "split", "pattern")

__all__ = ["late"]
