"""The Lark grammars: one file per message family, built when the first candidate of that family turns up."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from lark import Lark, Token, Tree
from lark.exceptions import LarkError

# In the wheel they travel inside the package; in a checkout, an sdist or an editable install they stand beside it.
_INSIDE = Path(__file__).parent / "_grammars"
FOLDER = _INSIDE if _INSIDE.is_dir() else Path(__file__).parent.parent / "grammars"

Parsed = Tree[Token]
Clause = tuple[str, tuple[str, ...]]


@cache
def _parser(name: str, start: str) -> Lark:
    path = FOLDER / f"{name}.lark"
    # Never cache=True: Lark would unpickle a file of predictable name from the shared temp folder.
    return Lark(
        path.read_text(encoding="utf-8"),
        parser="lalr",
        start=start,
        source_path=str(path),
        import_paths=[str(FOLDER)],
        maybe_placeholders=False,
    )


def parse(name: str, text: str, start: str = "start") -> Parsed | None:
    """The tree of the text under the grammar, or None where the text is not in its language."""
    parser = _parser(name, start)  # outside: a grammar that is wrong itself is no text that does not fit
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
