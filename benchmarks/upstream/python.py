"""What a Python file prints, by its syntax tree."""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from benchmarks.upstream.rendered import module, table
from benchmarks.upstream.text import BRACES, PERCENT, Level, Piece, Printed, Value, formatted, joined

LOGGER = re.compile(r"log|rank_zero|accelerator\.print", re.IGNORECASE)
# What prints though no logger does: a function's name says how grave it is.
NAMED = re.compile(
    r"(?:^|[._])(?:log|logger|logging|rank_?zero|print|master|main|dist|warn)?_?"
    r"(?P<level>error|warning|warn|info|debug|critical|print)(?:_once|_rank_?0|_rank|_main)?$"
)
PRINTS = {"print", "click.echo", "typer.echo", "sys.stderr.write", "sys.stdout.write", "console.print", "tqdm.write"}
ENDS = {"sys.exit", "exit", "SystemExit"}
DEEPEST = 6  # names behind a name

Scope = dict[str, ast.expr]


def printed(path: str, source: bytes) -> list[Printed]:
    """All of a file; nothing where it is no Python of this version."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a compiler says of other people's escapes
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    reader = Reader(path, tree)
    reader.visit(tree)
    return reader.printed


class Reader(ast.NodeVisitor):
    """Collects what is raised, asserted, logged and printed."""

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.printed: list[Printed] = []
        self.functions = ["<module>"]
        self.origins = dict(_origins(tree, module(path)))
        self.scopes: list[Scope] = [dict(_assigned(tree.body))]

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self.functions.append(node.name)
        self.scopes.append({})
        self.generic_visit(node)
        self.scopes.pop()
        self.functions.pop()

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        self.scopes[-1].update(_assigned([node]))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name) and isinstance(node.op, ast.Add):
            before = self.scopes[-1].get(node.target.id)
            if before is not None:
                self.scopes[-1][node.target.id] = ast.BinOp(left=before, op=ast.Add(), right=node.value)

    def visit_Raise(self, node: ast.Raise) -> None:
        self.generic_visit(node)
        if isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func)
            # `raise self.failure(...)`: what is raised is not said
            name = self.origins.get(name, name) if re.fullmatch(r"[\w.]+", name) else "RuntimeError"
            self._add(node, "traceback", "failure", name, _arguments(node.exc))

    def visit_Assert(self, node: ast.Assert) -> None:
        self.generic_visit(node)
        if node.msg is not None:
            self._add(node, "traceback", "failure", "AssertionError", [node.msg])

    def visit_Call(self, node: ast.Call) -> None:
        self.generic_visit(node)
        name = ast.unparse(node.func) if isinstance(node.func, ast.Name | ast.Attribute) else ""
        if name in ("warnings.warn", "warn"):
            category = next((ast.unparse(it) for it in node.args[1:] if isinstance(it, ast.Name)), "UserWarning")
            self._add(node, "warning", "warning", category, _arguments(node))
        elif name in PRINTS:
            self._add(node, "print", "print", "print", _arguments(node))
        elif name in ENDS:
            self._add(node, "print", "failure", "error", _arguments(node))
        elif level := _level(name):
            self._add(node, "logging", table().levels[level], level, _arguments(node))

    def _add(self, node: ast.stmt | ast.expr, frame: str, level: Level, name: str, arguments: list[ast.expr]) -> None:
        for number, argument in enumerate(arguments):
            pieces = self._pieces(argument)
            if any(isinstance(piece, str) and piece.strip() for piece in pieces):
                if frame == "logging":  # whose other arguments go into the first
                    values = [ast.unparse(other) for other in arguments[number + 1 :]]
                    pieces = _interpolated(pieces, values)
                self.printed.append(
                    Printed(
                        path=self.path,
                        line=node.lineno,
                        frame=frame,
                        level=level,
                        pieces=joined(pieces),
                        name=name,
                        function=self.functions[-1],
                    )
                )
                return

    def _pieces(self, node: ast.expr, depth: int = 0) -> list[Piece]:
        """What a string is made of; one value where it is no string that stands here."""
        if depth < DEEPEST:
            if isinstance(node, ast.Constant):
                return [node.value] if isinstance(node.value, str) else [Value(str(node.value))]
            if isinstance(node, ast.JoinedStr):
                return [piece for part in node.values for piece in self._of_joined(part, depth)]
            if isinstance(node, ast.BinOp):
                return self._of_operator(node, depth)
            if isinstance(node, ast.Call):
                return self._of_call(node, depth)
            if isinstance(node, ast.IfExp):
                return self._pieces(node.body, depth + 1)
            if isinstance(node, ast.Name) and (value := self._value(node.id)) is not None:
                return self._pieces(value, depth + 1)
        return [Value(_source(node))]

    def _value(self, name: str) -> ast.expr | None:
        return next((scope[name] for scope in reversed(self.scopes) if name in scope), None)

    def _of_joined(self, part: ast.expr, depth: int) -> list[Piece]:
        if isinstance(part, ast.Constant):
            return [str(part.value)]
        assert isinstance(part, ast.FormattedValue)
        inside = self._pieces(part.value, depth + 1)
        if any(isinstance(piece, str) for piece in inside) and part.format_spec is None:
            return inside
        spec = _source(part.format_spec).strip("f'\"") if part.format_spec is not None else ""
        return [Value(_source(part.value), f"{{:{spec}}}" if spec else "{}")]

    def _of_operator(self, node: ast.BinOp, depth: int) -> list[Piece]:
        if isinstance(node.op, ast.Add):
            return [*self._pieces(node.left, depth + 1), *self._pieces(node.right, depth + 1)]
        left = self._pieces(node.left, depth + 1)
        if isinstance(node.op, ast.Mod) and any(isinstance(piece, str) for piece in left):
            return _interpolated(left, _expressions(node.right))
        return [Value(_source(node))]

    def _of_call(self, node: ast.Call, depth: int) -> list[Piece]:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "format":
            values = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords if keyword.arg}
            return _interpolated(self._pieces(node.func.value, depth + 1), map(ast.unparse, node.args), BRACES, values)
        inside = [self._pieces(argument, depth + 1) for argument in node.args[:1]]
        if inside and any(isinstance(piece, str) for piece in inside[0]):
            return inside[0]  # a text that is translated, coloured or dedented
        return [Value(_source(node))]


def _interpolated(
    pieces: Iterable[Piece],
    values: Iterable[str],
    style: re.Pattern[str] = PERCENT,
    names: Mapping[str, str] = MappingProxyType({}),
) -> list[Piece]:
    expressions = iter(values)
    parts = ([*formatted(it, style, expressions)] if isinstance(it, str) else [it] for it in pieces)
    return [_with_name(it, names) for part in parts for it in part]


def _with_name(piece: Piece, names: Mapping[str, str]) -> Piece:
    """A value that has a name in the format, by the expression of that name."""
    if isinstance(piece, str) or piece.expression not in names:
        return piece
    return Value(names[piece.expression], piece.format)


def _expressions(node: ast.expr) -> list[str]:
    if isinstance(node, ast.Tuple):
        return [ast.unparse(one) for one in node.elts]
    return [ast.unparse(one) for one in node.values] if isinstance(node, ast.Dict) else [ast.unparse(node)]


def _arguments(node: ast.Call) -> list[ast.expr]:
    return [*node.args, *(keyword.value for keyword in node.keywords if keyword.arg in ("message", "msg", "detail"))]


def _level(name: str) -> str | None:
    """How grave a log line is that a function of this name writes; None where it writes none."""
    receiver, _, method = name.rpartition(".")
    method = method.removesuffix("_once").lower()
    if receiver and LOGGER.search(receiver) and method in table().levels:
        return method
    match = NAMED.search(name.lower()) if not receiver or LOGGER.search(name) else None
    return match["level"] if match and name != "print" else None


def _assigned(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Texts that have a name."""
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _is_text(node.value):
            yield node.targets[0].id, node.value


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "format" and _is_text(node.func.value)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _origins(tree: ast.Module, own: str) -> Iterator[tuple[str, str]]:
    """Where names come from that are raised: Python prints an exception with its module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not hasattr(builtins, node.name):
            yield node.name, f"{own}.{node.name}"
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _source(node: ast.expr) -> str:
    try:
        return ast.unparse(node)
    except (ValueError, RecursionError):
        return ""
