"""The Lark grammars: one file per message family, built when the first candidate of that family turns up."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from lark import Lark, Token, Tree
from lark.exceptions import LarkError

from oomdoctor import lalr

# In a checkout, an sdist or an editable install the grammars stand beside the package. In the wheel they travel inside
# it with the parsers' tables, in one file, which compresses well: a line per grammar with its name, text and parser.
FOLDER = Path(__file__).parent.parent / "grammars"
PACKED = Path(__file__).parent / "_packed" / "grammars.txt"
_SHARED = "common"  # what the others import

Parsed = Tree[Token]
Clause = tuple[str, tuple[str, ...]]


def names() -> list[str]:
    """Of the grammars that have a parser."""
    if PACKED.is_file():
        found = {line.partition("\t")[0] for line in PACKED.read_text(encoding="ascii").split("\n")}
    else:
        found = {path.stem for path in FOLDER.glob("*.lark")}
    return sorted(found - {_SHARED})


@cache
def _parser(name: str) -> Lark:
    return _ready(name) or build(name)


def build(name: str) -> Lark:
    """The parser, from the grammar's text."""
    # Never cache=True: Lark would unpickle a file of predictable name from the shared temp folder.
    return Lark(
        _text(name),
        parser="lalr",
        source_path=f"{name}.lark",
        import_paths=[_imported],
        maybe_placeholders=False,
    )


def _imported(_: object, path: str) -> tuple[str, str]:
    return path, _text(path.removesuffix(".lark"))


def _text(name: str) -> str:
    ready = _packed(name)
    return json.loads(ready[0]) if ready else (FOLDER / f"{name}.lark").read_text(encoding="utf-8")


def _ready(name: str) -> Lark | None:
    """The parser from the tables that the wheel brings along, which takes a sixth of the time; None without them, or
    where they are another Lark's."""
    ready = _packed(name)
    return lalr.read(ready[1]) if ready else None


def _packed(name: str) -> tuple[bytes, bytes] | None:
    """In the wheel, a grammar's text and its parser, both as JSON."""
    if PACKED.is_file():
        with PACKED.open("rb") as lines:  # as text it takes twice as long
            for line in lines:
                found, text, parser = line.split(b"\t")
                if found == name.encode():
                    return text, parser
    return None


def packed() -> str:
    """All grammars, as the wheel has them: without comments and empty lines."""
    lines = [(_SHARED, ""), *((name, lalr.written(build(name))) for name in names())]
    return "\n".join("\t".join((name, json.dumps(_bare(_text(name))), parser)) for name, parser in lines)


def _bare(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() and not line.startswith("//"))


def parse(name: str, text: str) -> Parsed | None:
    """The tree of the text under the grammar, or None where the text is not in its language."""
    parser = _parser(name)  # outside: a grammar that is wrong itself is no text that does not fit
    try:
        return parser.parse(text)
    except LarkError:
        return None


_KEPT = 1024  # messages
_LONGEST_KEPT = 4000  # characters; a kernel's report may be longer
_ANY_DIGIT = str.maketrans("123456789", "000000000")


def clauses(name: str, text: str) -> tuple[Clause, ...]:
    """The clauses of the text, in order, each with its name and the texts of its values; none where it is not in the
    language."""
    return _remembered(name, text) if len(text) <= _LONGEST_KEPT else _clauses(name, text)


def _clauses(name: str, text: str) -> tuple[Clause, ...]:
    tree = parse(name, text)
    return tuple(
        (child.data, tuple(str(value) for value in child.children))
        for child in (tree.children if tree else ())
        if isinstance(child, Tree)
    )


_remembered = lru_cache(_KEPT)(_clauses)


def said(name: str, text: str) -> list[Clause]:
    """The clauses of the text, as above.

    A message that stands thousands of times in a log, each time with other figures, is parsed once: what stands where
    does not depend on which digits they are. Only for grammars of which that is true: that name no digit.
    """
    places = _places(name, text.translate(_ANY_DIGIT))
    return [(clause, tuple([text[start:end] for start, end in values])) for clause, values in places]


class Part(NamedTuple):
    """A token that the grammar keeps."""

    clause: str  # in which it stands, "" outside of one
    terminal: str
    text: str
    end: int


def parts(name: str, text: str) -> tuple[Part, ...]:
    """The tokens of the text, in order; none where it is not in the language.

    As `said`, only for grammars that name no digit: texts with other figures are parsed once.
    """
    tokens = _tokens(name, text.translate(_ANY_DIGIT))
    return tuple([Part(clause, terminal, text[start:end], end) for clause, terminal, start, end in tokens])


@lru_cache(_KEPT)
def _tokens(name: str, shape: str) -> tuple[tuple[str, str, int, int], ...]:
    tree = parse(name, shape)
    found: list[tuple[str, str, int, int]] = []
    for child in tree.children if tree else ():
        clause, tokens = (child.data, child.scan_values(_is_token)) if isinstance(child, Tree) else ("", (child,))
        found += ((clause, token.type, token.start_pos or 0, token.end_pos or 0) for token in tokens)
    return tuple(found)


def _is_token(value: object) -> bool:
    return isinstance(value, Token)


@lru_cache(_KEPT)
def _places(name: str, shape: str) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
    """The clauses of a text, and where in it their values stand."""
    tree = parse(name, shape)
    return tuple(
        (
            child.data,
            tuple((value.start_pos or 0, value.end_pos or 0) for value in child.children if isinstance(value, Token)),
        )
        for child in (tree.children if tree else ())
        if isinstance(child, Tree)
    )
