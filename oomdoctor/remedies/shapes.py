"""Statements of Python by their shape, and how they are written anew. What a log shows is parsed and never run.

A shape is Python itself. A name in capitals of two letters and more stands for any expression, the same name for the
same expression; `...` for the arguments that are left; `(one | other)(...)` for a call of either; a minus for any
arithmetic. A shape of an expression may stand anywhere in the statement, a shape of a statement is all of it. What is
written instead is Python, too: `...` for those arguments, STATEMENT for the whole statement as it was.
"""

from __future__ import annotations

import ast
import copy
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct

from oomdoctor.patterns import late

LONGEST: Final = 300  # characters of a source line that are parsed
LONGEST_WRITTEN: Final = 400  # of what is written instead
DEEPEST: Final = 40  # nodes on the way down

_ANY: Final = late(r"[A-Z]{2,}\d?")
_STATEMENT: Final = "STATEMENT"
_HEADER: Final = late(r"(?:async )?(?:for|while|if|elif|with)\b.{1,300}:\Z")
_PROMPT: Final = late(r"\A(?:>>>|In \[\d{1,6}\]:|\.\.\.) ?")
# Strings that may be copied: names, paths, patterns of axes; nothing with quotation marks, markup or control characters
_PLAIN: Final = late(r"[\w ./:,*>+@-]{0,80}", re.ASCII)
_SECRET: Final = late(r"(?i)token|passw|secret|api_?key|credential|auth")
_MODULES: Final[Mapping[str, str]] = {
    "numpy": "np",
    "pandas": "pd",
    "torch.nn.functional": "F",
    "nn.functional": "F",
    "jax.numpy": "jnp",
    "tensorflow": "tf",
    "tf.keras": "keras",
    "torch.utils.data.DataLoader": "DataLoader",
    "data.DataLoader": "DataLoader",
    "datasets.load_dataset": "load_dataset",
    "datasets.Dataset": "Dataset",
    "xgboost": "xgb",
    "jax.lax": "lax",
}
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_REST: Final = "..."
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_QUOTES: Final = "\"'"

Bound = dict[str, object]
Allows = Callable[[str, ast.expr], bool]  # whether a name in capitals may stand for an expression


class Source(Struct, frozen=True):
    """A statement as the log shows it."""

    statement: ast.stmt
    whole: bool  # it is not cut off
    header: bool  # of a block, whose body is not shown


class Hit(Struct, frozen=True):
    """Where a shape is in a statement, and what its names stand for."""

    node: ast.AST
    bound: Bound


# --- Reading ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=512)
def source(code: str) -> Source | None:
    """The statement of a source line, None where it is none; a call that goes on below is closed."""
    text = _PROMPT.sub("", code).strip()
    if not text or len(text) > LONGEST or not text.isprintable():
        return None
    header = _HEADER.match(text) is not None
    if header:
        statement = _parsed(f"{text.removeprefix('el')} pass")
        return Source(statement, whole=True, header=True) if statement is not None else None
    statement = _parsed(text)
    if statement is not None:
        return Source(statement, whole=True, header=False)
    closed = _closed(text)
    statement = _parsed(closed) if closed is not None else None
    return Source(statement, whole=False, header=False) if statement is not None else None


def _parsed(text: str) -> ast.stmt | None:
    """The only statement of a text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes in strings
            body = ast.parse(text).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return body[0] if len(body) == 1 and _depth(body[0]) <= DEEPEST else None


def _depth(node: ast.AST) -> int:
    depth, level = 0, [node]
    while level and depth <= DEEPEST:
        depth, level = depth + 1, [child for one in level for child in ast.iter_child_nodes(one)]
    return depth


def _closed(text: str) -> str | None:
    """The text with its open brackets closed, each with a sign that something is missing."""
    opened = _open_brackets(text.partition(" #")[0])
    if not opened:
        return None
    bare = text.partition(" #")[0].rstrip()
    for bracket in reversed(opened):
        joint = "" if bare.endswith((",", bracket)) else ", "
        missing = "..." if bracket == "[" else "**..."
        bare = f"{bare}{joint}{missing}{_CLOSING[bracket]}"
    return bare


def _open_brackets(text: str) -> list[str] | None:
    """The brackets that are never closed, outermost first; None where a string is open or one closes too many."""
    opened: list[str] = []
    quote = ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in _QUOTES:
            quote = sign
        elif sign in _CLOSING:
            opened.append(sign)
        elif sign in _CLOSING.values() and (not opened or _CLOSING[opened.pop()] != sign):
            return None
    return None if quote else opened


# --- Shapes -----------------------------------------------------------------------------------------------------------


class Shape(Struct, frozen=True):
    """One shape: an expression, or a statement."""

    tree: ast.AST

    def find(self, statement: ast.stmt, allows: Allows) -> Hit | None:
        """The outermost place where it stands."""
        places = [statement] if isinstance(self.tree, ast.stmt) else ast.walk(statement)
        for node in places:
            bound: Bound = {}
            if _fits(self.tree, node, bound, allows):
                return Hit(node, bound)
        return None


def shape(text: str) -> Shape:
    (body,) = ast.parse(text).body
    return Shape(body.value if isinstance(body, ast.Expr) else body)


def _fits(want: object, node: object, bound: Bound, allows: Allows) -> bool:
    if isinstance(want, ast.Name) and _ANY.fullmatch(want.id):
        return isinstance(node, ast.expr) and _binds(want.id, node, bound, allows)
    if isinstance(want, ast.Call):
        return isinstance(node, ast.Call) and _calls(want, node, bound, allows)
    if isinstance(want, ast.Name | ast.Attribute) and (name := dotted(want)) is not None:
        return isinstance(node, ast.expr) and _same_name(name, dotted(node))
    if isinstance(want, ast.BinOp) and isinstance(want.op, ast.Sub):
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, _ARITHMETIC)
            and all(_fits(*pair, bound, allows) for pair in ((want.left, node.left), (want.right, node.right)))
        )
    if isinstance(want, ast.AST):
        return type(want) is type(node) and all(
            _fits(getattr(want, field), getattr(node, field), bound, allows)
            for field in want._fields
            if field not in ("ctx", "type_comment", "kind")
        )
    if isinstance(want, list):
        return (
            isinstance(node, list)
            and len(want) == len(node)
            and all(_fits(one, other, bound, allows) for one, other in zip(want, node, strict=True))
        )
    return type(want) is type(node) and want == node


def _binds(name: str, node: ast.expr, bound: Bound, allows: Allows) -> bool:
    known = bound.get(name)
    if isinstance(known, ast.expr):
        return ast.dump(known) == ast.dump(node)
    if not allows(name, node):
        return False
    bound[name] = node
    return True


def dotted(node: ast.AST) -> str | None:
    """The name that a chain of attributes is, of no name in capitals."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or _ANY.fullmatch(node.id):
        return None
    return ".".join((node.id, *reversed(parts)))


def _same_name(want: str, name: str | None) -> bool:
    """A module has other names; one that is imported by name has none."""
    return name is not None and want == _short(name)


def _short(name: str) -> str:
    for module, alias in _MODULES.items():
        if name == module or name.startswith(f"{module}."):
            return alias + name[len(module) :]
    return name


def _calls(want: ast.Call, node: ast.Call, bound: Bound, allows: Allows) -> bool:
    if not any(_fits(one, node.func, bound, allows) for one in _either(want.func)):
        return False
    wanted = [one for one in want.args if not _is_rest(one)]
    open_end = len(wanted) < len(want.args)
    given, named = list(node.args), list(node.keywords)
    missing = any(_is_rest(one) for one in given) or any(_is_rest(one.value) for one in named)
    if len(given) < len(wanted) and not missing:
        return False
    if any(isinstance(one, ast.Starred) for one in given[: len(wanted)]):
        return False
    if not all(_fits(one, other, bound, allows) for one, other in zip(wanted, given, strict=False)):
        return False
    rest = [one for one in named if one.arg is None or one.arg not in {key.arg for key in want.keywords}]
    if not _keywords_fit(want, named, bound, allows):
        return False
    left = given[len(wanted) :]
    if open_end:
        bound.setdefault(_REST, (left, rest))
    return open_end or missing or not (left or rest)


def _keywords_fit(want: ast.Call, named: Sequence[ast.keyword], bound: Bound, allows: Allows) -> bool:
    known = {key.arg: key.value for key in named}
    return all(key.arg in known and _fits(key.value, known[key.arg], bound, allows) for key in want.keywords)


def _either(function: ast.expr) -> Iterator[ast.expr]:
    if isinstance(function, ast.BinOp) and isinstance(function.op, ast.BitOr):
        yield from _either(function.left)
        yield from _either(function.right)
    else:
        yield function


def _is_rest(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


# --- Writing ----------------------------------------------------------------------------------------------------------


def written(template: str, found: Source, hit: Hit) -> str | None:
    """The statement with the template in the place of what was found; None where a part of it is missing or unfit."""
    tree = _template(template)
    expression = len(tree) == 1 and isinstance(tree[0], ast.Expr)
    if not found.whole or (found.header and not expression):
        return None
    filling = _Filling(hit.bound, found.statement)
    try:
        filled = [filling.visit(one) for one in copy.deepcopy(tree)]
    except KeyError:
        return None
    if expression and isinstance(hit.node, ast.expr):
        filled = [copy.deepcopy(found.statement, {id(hit.node): filled[0].value})]
    if not all(map(_plain, filled)):
        return None
    return _text(filled, found)


@lru_cache(maxsize=256)
def _template(text: str) -> list[ast.stmt]:
    return ast.parse(text).body


def _text(statements: Sequence[ast.stmt], found: Source) -> str | None:
    text = "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in statements)
    if found.header:
        text = text.removesuffix("\n    pass")
    before = ast.unparse(found.statement).removesuffix("\n    pass")
    fit = len(text) <= LONGEST_WRITTEN and text.isascii() and text.replace("\n", "").isprintable()
    return text if fit and text != before else None


class _Filling(ast.NodeTransformer):
    """Names in capitals give way to what they stand for."""

    def __init__(self, bound: Bound, statement: ast.stmt) -> None:
        self.bound, self.statement = bound, statement

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id == _STATEMENT:
            return copy.deepcopy(self.statement)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if not _ANY.fullmatch(node.id):
            return node
        filled = copy.deepcopy(self.bound[node.id])
        if isinstance(node.ctx, ast.Store) and hasattr(filled, "ctx"):
            filled.ctx = ast.Store()
        return filled  # type: ignore[return-value]

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Numbers are reckoned."""
        self.generic_visit(node)
        left, right = node.left, node.right
        numbers = isinstance(left, ast.Constant) and isinstance(right, ast.Constant)
        if numbers and isinstance(node.op, ast.FloorDiv) and isinstance(left.value, int) and left.value > 1:
            return ast.Constant(left.value // right.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        rest = any(map(_is_rest, node.args))
        node.args = [one for one in node.args if not _is_rest(one)]
        self.generic_visit(node)
        if rest:
            args, keywords = self.bound[_REST]  # type: ignore[misc]
            named = {one.arg for one in node.keywords}
            node.args += copy.deepcopy(args)
            node.keywords = [*copy.deepcopy([one for one in keywords if one.arg not in named]), *node.keywords]
        return node


def _plain(tree: ast.AST) -> bool:
    """Whether nothing in it is a text that the report may not show as a line to paste."""
    return all(_is_plain(node) for node in ast.walk(tree))


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        return isinstance(node.value, str) and _PLAIN.fullmatch(node.value) is not None
    if isinstance(node, ast.keyword):
        return node.arg is None or _SECRET.search(node.arg) is None
    return True


__all__ = ["Allows", "Hit", "Shape", "Source", "dotted", "shape", "source", "written"]
