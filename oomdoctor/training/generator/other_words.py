"""A message as the next version might print it: a word swapped for one of a like meaning, left out, or put in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.patterns import late
from oomdoctor.training.generator.draw import Draw

SWAPPED: Final = 0.6
_LIKE: Final = {
    "allocate": ("acquire", "reserve"), "memory": ("mem", "RAM"), "failed": ("was not able",), "unable": ("not in a position",),
    "cannot": ("could not",), "tried": ("asked",), "exceeds": ("goes beyond",), "requested": ("asked for",),
    "available": ("left over",), "enough": ("adequate",), "insufficient": ("not enough",), "larger": ("greater",),
    "device": ("accelerator",), "error": ("failure",), "buffer": ("region",), "process": ("program",), "node": ("host",),
    "threshold": ("mark",), "running": ("going",), "low": ("down",), "died": ("went away",), "space": ("room",),
}  # fmt: skip
_PUT_IN: Final = (" now", " (attempt two)", " for this rank", " here", ", says the driver,")
_WORD = late(r"(?<![\w./_-])[A-Za-z][a-z]{2,20}(?![\w./_-])")


def in_other_words(draw: Draw, lines: Sequence[str]) -> tuple[str, ...]:
    """The lines with one change in the last one of them, where it has words to change."""
    *before, last = lines
    words = list(_WORD.finditer(last[:300]))
    if not words:
        return tuple(lines)
    known = [word for word in words if word[0].lower() in _LIKE]
    if known and draw.often(SWAPPED):
        word = draw.one(known)
        new = draw.one(_LIKE[word[0].lower()])
    else:
        word = draw.one(words)
        new = draw.one(("", word[0] + draw.one(_PUT_IN)))
    return (*before, last[: word.start()] + new + last[word.end() :])


__all__ = ["in_other_words"]
