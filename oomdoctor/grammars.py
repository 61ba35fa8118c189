"""The Lark grammars: one file per message family, built when the first candidate of that family turns up."""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:  # most healthy logs need none of it
    from lark import Lark

    from oomdoctor.lalr import Node, Parser

# In a checkout, an sdist or an editable install the grammars stand beside the package. The wheel has them inside it,
# each with its parser's table.
INSIDE: Final = Path(__file__).parent / "_grammars"
FOLDER: Final = INSIDE if INSIDE.is_dir() else Path(__file__).parent.parent / "grammars"
_SHARED: Final = "common"  # what the others import

Clause = tuple[str, tuple[str, ...]]


def names() -> list[str]:
    """Of the grammars that have a parser."""
    return sorted({path.stem for path in FOLDER.glob("*.lark")} - {_SHARED})


@cache
def _parser(name: str) -> Parser:
    """By the table that the wheel brings along, or else by one made now, which takes ten times as long."""
    from oomdoctor.lalr import Parser  # noqa: PLC0415

    path = table(name)
    return Parser(path.read_bytes() if path.is_file() else written(name))


def build(name: str) -> Lark:
    """Lark's parser, from the grammar's text."""
    from lark import Lark  # noqa: PLC0415

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
    return (FOLDER / f"{name}.lark").read_text(encoding="utf-8")


def table(name: str, folder: Path = FOLDER) -> Path:
    """Where the wheel has the parser's table."""
    return folder / f"{name}.json"


def written(name: str) -> bytes:
    """The parser's table, as the wheel has it."""
    from oomdoctor import tables  # noqa: PLC0415

    return tables.written(build(name))


def parse(name: str, text: str) -> Node | None:
    """The tree of the text under the grammar, or None where the text is not in its language."""
    return _parser(name).parse(text)


def _nodes(name: str, text: str) -> list[Node]:
    """The clauses of the text, in order; none where it is not in the language."""
    from oomdoctor.lalr import Node  # noqa: PLC0415

    tree = parse(name, text)
    return [child for child in tree.children if isinstance(child, Node)] if tree else []


_KEPT = 1024  # messages
_LONGEST_KEPT = 4000  # characters; a kernel's report may be longer
_ANY_DIGIT = str.maketrans("123456789", "000000000")


def clauses(name: str, text: str) -> tuple[Clause, ...]:
    """The clauses of the text, in order, each with its name and the texts of its values; none where it is not in the
    language."""
    return _remembered(name, text) if len(text) <= _LONGEST_KEPT else _clauses(name, text)


def _clauses(name: str, text: str) -> tuple[Clause, ...]:
    return tuple((node.name, tuple(token.text for token in node.tokens())) for node in _nodes(name, text))


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
    from oomdoctor.lalr import Node  # noqa: PLC0415

    tree = parse(name, shape)
    found: list[tuple[str, str, int, int]] = []
    for child in tree.children if tree else ():
        clause, tokens = (child.name, child.tokens()) if isinstance(child, Node) else ("", iter((child,)))
        found += ((clause, token.type, token.start, token.end) for token in tokens)
    return tuple(found)


@lru_cache(_KEPT)
def _places(name: str, shape: str) -> tuple[tuple[str, tuple[tuple[int, int], ...]], ...]:
    """The clauses of a text, and where in it their values stand."""
    return tuple(
        (node.name, tuple((token.start, token.end) for token in node.tokens())) for node in _nodes(name, shape)
    )
