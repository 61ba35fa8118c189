"""A string of a program: what stands there, and where values go."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

Level = Literal["failure", "warning", "info", "print"]

# What a format leaves a place for: in C and Python, with Go's verbs, and in braces as in Python, fmt, Rust and slf4j.
PERCENT = re.compile(
    r"%(?:\(\w+\))?[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|z|j|t|L)?[diouxXeEfFgGscpvwqrTPm]|%%"
)
BRACES = re.compile(r"\{\{|\}\}|\{[\w.\[\]]*(?:![rsa])?(?::[^{}]*)?\}")
EITHER = re.compile(f"{PERCENT.pattern}|{BRACES.pattern}")
NAME = re.compile(r"(?:\{|%\()([A-Za-z_]\w*)")  # of the value, in the place itself
PLAIN = {"%%": "%", "{{": "{", "}}": "}"}


class Value(Struct, frozen=True):
    """A place for a value: the expression it comes from, where that is seen, and its format."""

    expression: str = ""
    format: str = ""


Piece = str | Value


class Printed(Struct, frozen=True, kw_only=True):
    """A string that a program prints, where, and as what."""

    path: str
    line: int
    frame: str  # of printers.toml
    level: Level
    pieces: tuple[Piece, ...]
    name: str = ""  # of what is raised, or how grave a log calls it
    function: str = "<module>"

    @property
    def template(self) -> str:
        return "".join(piece if isinstance(piece, str) else "{}" for piece in self.pieces).strip()


def formatted(literal: str, style: re.Pattern[str], expressions: Iterable[str] = ()) -> Iterator[Piece]:
    """A format with its places found, and the expressions whose values go there, in turn."""
    values = iter(expressions)
    end = 0
    for place in style.finditer(literal):
        yield literal[end : place.start()]
        name = NAME.match(place[0])
        yield PLAIN[place[0]] if place[0] in PLAIN else Value(name[1] if name else next(values, ""), place[0])
        end = place.end()
    yield literal[end:]


def joined(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """The same with neighbouring words in one piece."""
    whole: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and whole and isinstance(whole[-1], str):
            whole[-1] += piece
        elif piece != "":
            whole.append(piece)
    return tuple(whole)


def words(pieces: Sequence[Piece]) -> str:
    return "".join(piece for piece in pieces if isinstance(piece, str))
