"""The Lark grammars: one file per message family, built when the first candidate of that family turns up."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import lark
from lark import Lark, Token, Tree
from lark.exceptions import LarkError
from lark.grammar import Rule
from lark.lexer import TerminalDef

# In the wheel they travel inside the package; in a checkout, an sdist or an editable install they stand beside it.
_INSIDE = Path(__file__).parent / "_grammars"
FOLDER = _INSIDE if _INSIDE.is_dir() else Path(__file__).parent.parent / "grammars"

Parsed = Tree[Token]
Clause = tuple[str, tuple[str, ...]]


@cache
def _parser(name: str) -> Lark:
    return _ready(name) or build(name)


def build(name: str) -> Lark:
    """The parser, from the grammar's text."""
    path = FOLDER / f"{name}.lark"
    # Never cache=True: Lark would unpickle a file of predictable name from the shared temp folder.
    return Lark(
        path.read_text(encoding="utf-8"),
        parser="lalr",
        source_path=str(path),
        import_paths=[str(FOLDER)],
        maybe_placeholders=False,
    )


def _ready(name: str) -> Lark | None:
    """The parser from the tables that the wheel brings along, which takes a third of the time; None without them, or
    where they are another Lark's."""
    path = FOLDER / f"{name}.json"
    return loaded(path.read_text(encoding="ascii")) if path.is_file() else None


def tables(parser: Lark) -> str:
    """A parser as JSON: what Lark would pickle."""
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] |= {"source_path": None, "import_paths": []}
    return json.dumps({"lark": lark.__version__, "data": data, "memo": memo}, separators=(",", ":"))


def loaded(text: str) -> Lark | None:
    """A parser from its tables, None where another version of Lark wrote them."""
    found = json.loads(text, object_pairs_hook=_with_numbers)
    if found["lark"] != lark.__version__:
        return None
    generated: Any = Lark  # the parsers that Lark generates load themselves so; no published type says it
    parser: Lark = generated._load_from_dict(found["data"], found["memo"])  # noqa: SLF001
    return parser


def _with_numbers(pairs: list[tuple[str, Any]]) -> dict[str | int, Any]:
    """JSON's keys are strings; those of states, symbols and objects were numbers."""
    return {int(key) if key.isdecimal() else key: value for key, value in pairs}


def parse(name: str, text: str) -> Parsed | None:
    """The tree of the text under the grammar, or None where the text is not in its language."""
    parser = _parser(name)  # outside: a grammar that is wrong itself is no text that does not fit
    try:
        return parser.parse(text)
    except LarkError:
        return None


def clauses(tree: Parsed) -> list[Clause]:
    """The clauses of an island grammar's tree, in order: each with its name and the texts of its values."""
    return [
        (child.data, tuple(str(value) for value in child.children))
        for child in tree.children
        if isinstance(child, Tree)
    ]


_SHAPES = 1024  # of messages, none longer than a few thousand characters
_ANY_DIGIT = str.maketrans("123456789", "000000000")


def said(name: str, text: str) -> list[Clause]:
    """The clauses of the text; none where it is not in the language.

    A message that stands thousands of times in a log, each time with other figures, is parsed once: what stands where
    does not depend on which digits they are. Only for grammars of which that is true: that name no digit.
    """
    places = _places(name, text.translate(_ANY_DIGIT))
    return [(clause, tuple([text[start:end] for start, end in values])) for clause, values in places]


@lru_cache(_SHAPES)
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
