"""A stretch of the text that is to be taken out."""

from __future__ import annotations

from msgspec import Struct


class Stretch(Struct, frozen=True):
    start: int
    end: int
    rank: int  # of two that overlap, the lower one names both
    kind: str
    put: str  # "" for what goes on from another stretch; for what is personal, the word of its pseudonym
    secret: bool = True
    value: str = ""  # whom a pseudonym stands for
