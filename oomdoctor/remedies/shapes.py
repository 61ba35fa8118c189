"""Statements of Python by their shape, and how they are written anew. What a log shows is parsed and never run.

A shape is Python itself. A name in capitals of two letters and more stands for any expression, the same name for the
same expression; `...` for the arguments that are left; `(one / other)(...)` for a call of either; a minus for any
arithmetic. A shape of an expression may stand anywhere in the statement, a shape of a statement is all of it. What is
written instead is Python, too: `...` for those arguments, STATEMENT for the whole statement as it was, CALLED for which
of several is called.
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
_CALLED: Final = "CALLED"
_HEADER: Final = late(r"(?:async )?(?:for|while|if|elif|with)\b.{1,300}:\Z")
_PROMPT: Final = late(r"\A(?:>>>|In \[\d{1,6}\]:|\.\.\.) ?")
# Strings that may be copied: names, paths, axes; nothing with quotation marks, markup, escapes or control characters
_PLAIN: Final = late(r"[\w ./:,;|*=+?%#@()\[\]{}>-]{0,80}", re.ASCII)
_SECRET: Final = late(r"(?i)token\Z|passw|secret|api_?key|credential|\Aauth")
_ARITHMETIC: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div)
_CLOSING: Final = {"(": ")", "[": "]", "{": "}"}
_QUOTES: Final = "\"'"

Rest = tuple[list[ast.expr], list[ast.keyword]]


class Terms(Struct, frozen=True):
    """What shapes are read by."""

    allows: Callable[[str, ast.expr, bool], bool]  # whether a name in capitals may stand for that; is it called
    modules: Mapping[str, str]  # their names as shapes write them


class Bound(Struct):
    """What the names of a shape stand for, and its `...`."""

    names: dict[str, ast.expr] = {}
    rest: Rest | None = None


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
            # As typed at a prompt: for what stands in a file CPython would open the file to show the line of an error
            body = ast.parse(f"{text}\n", mode="single").body
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

    def find(self, statement: ast.stmt, terms: Terms) -> Hit | None:
        """The outermost place where it stands."""
        places = [statement] if isinstance(self.tree, ast.stmt) else ast.walk(statement)
        for node in places:
            bound = Bound()
            if _fits(self.tree, node, bound, terms):
                return Hit(node, bound)
        return None


def shape(text: str) -> Shape:
    (body,) = ast.parse(text.replace(", ...)", ", **...)")).body  # Python has nothing behind arguments by name
    return Shape(body.value if isinstance(body, ast.Expr) else body)


def _fits(want: object, node: object, bound: Bound, terms: Terms) -> bool:
    if isinstance(want, ast.Name) and _ANY.fullmatch(want.id):
        return isinstance(node, ast.expr) and _binds(want.id, node, bound, terms, called=False)
    if isinstance(want, ast.Call):
        return isinstance(node, ast.Call) and _calls(want, node, bound, terms)
    if isinstance(want, ast.Name | ast.Attribute) and (name := dotted(want)) is not None:
        return isinstance(node, ast.expr) and (its := dotted(node)) is not None and name == _short(its, terms)
    if isinstance(want, ast.BinOp) and isinstance(want.op, ast.Sub):
        return (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, _ARITHMETIC)
            and all(_fits(*pair, bound, terms) for pair in ((want.left, node.left), (want.right, node.right)))
        )
    if isinstance(want, ast.AST):
        return type(want) is type(node) and all(
            _fits(getattr(want, field), getattr(node, field), bound, terms)
            for field in want._fields
            if field not in ("ctx", "type_comment", "kind")
        )
    if isinstance(want, list):
        return (
            isinstance(node, list)
            and len(want) == len(node)
            and all(_fits(one, other, bound, terms) for one, other in zip(want, node, strict=True))
        )
    return type(want) is type(node) and want == node


def _binds(name: str, node: ast.expr, bound: Bound, terms: Terms, *, called: bool) -> bool:
    known = bound.names.get(name)
    if known is not None:
        return _equal(known, node)
    if not terms.allows(name, node, called):
        return False
    bound.names[name] = node
    return True


def _equal(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) == ast.unparse(other)


def dotted(node: ast.AST) -> str | None:
    """The name that a chain of attributes is, of no name in capitals."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or _ANY.fullmatch(node.id):
        return None
    return ".".join((node.id, *reversed(parts)))


def _short(name: str, terms: Terms) -> str:
    """The name as shapes write it: modules have several."""
    for module, alias in terms.modules.items():
        if name == module or name.startswith(f"{module}."):
            return alias + name[len(module) :]
    return name


def _calls(want: ast.Call, node: ast.Call, bound: Bound, terms: Terms) -> bool:
    if not any(_is_called(one, node.func, bound, terms) for one in _either(want.func)):
        return False
    if isinstance(want.func, ast.BinOp):
        bound.names.setdefault(_CALLED, node.func)
    wanted, by_name, open_end = _arguments(want)
    given, named, cut = _arguments(node)
    if len(given) < len(wanted) and not (cut and isinstance(want.func, ast.Attribute | ast.BinOp)):
        return False
    if any(isinstance(one, ast.Starred) for one in given[: len(wanted)]):
        return False
    if not all(_fits(one, other, bound, terms) for one, other in zip(wanted, given, strict=False)):
        return False
    known = {key.arg: key.value for key in named}
    if not all(key.arg in known and _fits(key.value, known[key.arg], bound, terms) for key in by_name):
        return False
    left = given[len(wanted) :]
    rest = [key for key in named if key.arg is None or key.arg not in {one.arg for one in by_name}]
    if open_end and bound.rest is None:
        bound.rest = (left, rest)
    return open_end or cut or not (left or rest)


def _is_called(want: ast.expr, node: ast.expr, bound: Bound, terms: Terms) -> bool:
    if isinstance(want, ast.Name) and _ANY.fullmatch(want.id):
        return _binds(want.id, node, bound, terms, called=True)
    return _fits(want, node, bound, terms)


def _arguments(call: ast.Call) -> tuple[list[ast.expr], list[ast.keyword], bool]:
    """The arguments by their place and by their name, and whether more may follow."""
    args = [one for one in call.args if not _is_rest(one)]
    keywords = [one for one in call.keywords if not _is_rest(one.value)]
    return args, keywords, len(args) + len(keywords) < len(call.args) + len(call.keywords)


def _either(function: ast.expr) -> Iterator[ast.expr]:
    if isinstance(function, ast.BinOp) and isinstance(function.op, ast.Div):
        yield from _either(function.left)
        yield from _either(function.right)
    else:
        yield function


def _is_rest(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is Ellipsis


# --- Writing ----------------------------------------------------------------------------------------------------------


def written(template: str, line: Source, hit: Hit) -> str | None:
    """The statement with the template in the place of what was line: None where it is so already, empty where a part
    is missing or is nothing to print."""
    tree = _template(template)
    if not line.whole or (isinstance(tree, list) and (line.header or not _may_repeat(tree, hit.bound))):
        return ""
    filling = _Filling(hit.bound, line.statement)
    try:
        if isinstance(tree, list):
            filled = [filling.visit(one) for one in copy.deepcopy(tree)]
        else:
            filled = [copy.deepcopy(line.statement, {id(hit.node): filling.visit(copy.deepcopy(tree))})]
    except KeyError:
        return ""
    return _text(filled, line) if all(map(_plain, filled)) else ""


@lru_cache(maxsize=256)
def _template(text: str) -> ast.expr | list[ast.stmt]:
    """An expression in the place of another; statements, or what ends in a semicolon, in the place of the whole."""
    body = ast.parse(text).body
    return body[0].value if isinstance(body[0], ast.Expr) and not text.endswith((";", "STATEMENT")) else body


def _may_repeat(statements: Sequence[ast.stmt], bound: Bound) -> bool:
    """Whether what the statements write more than once is a name, and no name is lost before it is read."""
    names = [node.id for one in statements for node in ast.walk(one) if isinstance(node, ast.Name)]
    again = [bound.names[name] for name in bound.names if names.count(name) > 1]
    out = bound.names.get("OUT")
    lost = out is not None and any(_equal(out, one) for name, one in bound.names.items() if name != "OUT")
    return not lost and all(isinstance(one, ast.Name | ast.Attribute) for one in again)


def _text(statements: Sequence[ast.stmt], line: Source) -> str | None:
    text = "\n".join(ast.unparse(ast.fix_missing_locations(one)) for one in statements)
    if line.header:
        text = text.removesuffix("\n    pass")
    before = ast.unparse(line.statement).removesuffix("\n    pass")
    fit = len(text) <= LONGEST_WRITTEN and text.isascii() and text.replace("\n", "").isprintable()
    return (text if fit else "") if text != before else None


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
        return copy.deepcopy(self.bound.names[node.id])

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """Numbers are reckoned."""
        self.generic_visit(node)
        left, right = node.left, node.right
        if isinstance(left, ast.Constant) and isinstance(right, ast.Constant) and isinstance(node.op, ast.FloorDiv):
            whole, parts = left.value, right.value
            if isinstance(whole, int) and isinstance(parts, int) and whole >= parts > 0:
                return ast.Constant(whole // parts)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        args, keywords, more = _arguments(node)
        node.args, node.keywords = args, keywords
        self.generic_visit(node)
        if more:
            given, named = self.bound.rest or ([], [])
            if keywords and any(one.arg is None for one in named):
                raise KeyError(node)  # what is unpacked may hold the same argument
            node.args += copy.deepcopy(given)
            node.keywords = list({one.arg or id(one): one for one in (*copy.deepcopy(named), *keywords)}.values())
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


__all__ = ["Hit", "Shape", "Source", "Terms", "dotted", "shape", "source", "written"]
