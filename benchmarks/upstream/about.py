"""Whether a string is about memory at all, and whether it says that memory is short (words.toml)."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

BLANKS = re.compile(r"\s+|[-=*#_]{3,}")  # and what is drawn with letters
LONGEST = 1000  # letters of a string that are looked at
UNITS = re.compile(r"\b(?:gib|gb|mib|mb|kib|kb|bytes?|tokens?|blocks?|pages?|slots?)\b")


class Row(Struct, frozen=True):
    pattern: str
    why: str
    units: bool = False  # whether it counts only beside memory or a unit of it


class Words(Struct, frozen=True):
    stems: tuple[str, ...]
    memory: str
    about: tuple[Row, ...]
    never: tuple[Row, ...]


@cache
def table() -> Words:
    return msgspec.toml.decode((Path(__file__).parent / "words.toml").read_bytes(), type=Words)


@cache
def memory() -> str:
    return f"(?:{table().memory.replace(chr(92) + chr(10), '')})"


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace("MEM", memory()))


def touches(source: bytes) -> bool:
    """Whether any stem stands in a file: one that has none needs no parsing."""
    small = source.lower()
    return any(stem.encode() in small for stem in table().stems)


def mentions(text: str) -> bool:
    """Whether a stem begins a word of a string: one that has none needs no reading."""
    return compiled(f"(?<![a-z])(?:{'|'.join(table().stems)})").search(text.lower()) is not None


def shortage(text: str) -> bool:
    """Whether a string, its values filled in, says that memory ran out or was refused."""
    plain = BLANKS.sub(" ", text.lower().replace("’", "'"))[:LONGEST]
    return any(holds(row, plain) for row in table().about) and not any(
        compiled(row.pattern).search(plain) for row in table().never
    )


def holds(row: Row, text: str) -> bool:
    if not compiled(row.pattern).search(text):
        return False
    return not row.units or bool(UNITS.search(text) or compiled(r"\bMEM\b").search(text))
