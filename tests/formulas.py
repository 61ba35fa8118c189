"""Reads the formulas that reports show and computes them again.

"floor((80% of 62.79 GiB at the threshold - 5.20 GiB of others) / 375 MiB each) = 120": words fall away, sizes become
bytes, what is left is evaluated and held against what stands behind the equals sign, within what the printed digits
leave open. A bracket behind a figure says where that comes from ("59.65 GiB (0.95 x 62.79 GiB)"): an equation too.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterator
from typing import Final

ENDINGS: Final = ("iB", "i")
BINARY: Final[dict[str, int]] = {f"{letter}{end}": 1024**n for n, letter in enumerate("KMGTPE", 1) for end in ENDINGS}
UNITS: Final[dict[str, float]] = {"bytes": 1, "%": 0.01, **BINARY}
TOKEN: Final = re.compile(
    r"(?P<digits>, \d digits|, to \d+|, \d 位|, \d+ 的倍数)"
    r"|(?P<number>-?\d[\d,]*(?:\.\d+)?)(?: ?(?P<unit>bytes|%|[KMGTPE]iB?\b))?(?P<billions> B )?"
    r"|(?P<function>floor|ceil)\(|(?P<sign>[()+/]|(?<= )[x-](?= ))|(?P<half>half of|的一半)"
)
SIGNS: Final[dict[type[ast.operator], Callable[[float, float], float]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
ROUNDED_UP: Final = ("up to", "rounded up", "向上取")


BEHIND: Final = re.compile(r"(\d [KMGTPE]iB) \(([^()]* [x+-] [^()]*)\)")


def equations(derivation: str) -> Iterator[tuple[str, str]]:
    """The two sides of each equation, in the order they stand."""
    yield from (
        (found[2], derivation[: found.end(1)].split()[-2] + found[1][1:]) for found in BEHIND.finditer(derivation)
    )
    for part in re.split(r"[;:] |[；：]", BEHIND.sub(r"\1", derivation)):
        left, *rest = part.split(" = ")
        for right in rest:
            yield left, right
            left = right


def _expression(side: str) -> str:
    """Only numbers, signs and brackets; two numbers beside each other are a product ("10% of 62 GiB")."""
    parts: list[str] = []
    for found in TOKEN.finditer(side):
        if found["digits"]:
            continue
        piece = found["sign"] or ""
        if found["number"]:
            plain = found["number"].replace(",", "").rstrip(".")
            factor = 1e9 if found["billions"] else UNITS.get(found["unit"] or "", 1)
            piece = f"({plain}*{factor})" if factor != 1 else plain
        elif found["function"]:
            piece = f"{found['function']}("
        elif found["half"]:
            piece = "0.5"
        piece = "*" if piece == "x" else piece
        if parts and piece[0] not in "+-*/)" and parts[-1][-1] not in "+-*/(":
            parts.append("*")
        parts.append(piece)
    return "".join(parts)


def value(side: str) -> float | None:
    """What the expression comes to; None where it is none."""
    expression = _expression(side)
    expression += ")" * (expression.count("(") - expression.count(")"))
    try:
        return _computed(ast.parse(expression, mode="eval").body)
    except (SyntaxError, ZeroDivisionError, ValueError):
        return None


def _computed(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -float(_computed(node.operand))
    if isinstance(node, ast.BinOp):
        return float(SIGNS[type(node.op)](_computed(node.left), _computed(node.right)))
    if isinstance(node, ast.Call):  # floor and ceil round in a unit that words say: judged by the tolerance
        return float(_computed(node.args[0]))
    raise ValueError(ast.dump(node))


def holds(left: str, right: str) -> bool:
    """Whether both sides come to the same, as far as the digits of what is printed and rounding to safety allow."""
    computed, said = value(left), value(_first_figure(right))
    if computed is None or said is None:
        return True  # words: "4 in the mask 0, 1, 2, 3 = ..." is nobody's formula
    if any(word in left for word in ROUNDED_UP):
        return computed * 0.99 <= said <= max(2 * computed, computed + 1024**3)
    slack = abs(said) * 0.011 + _last_digit(right)
    if " - " in left or " + " in left:
        slack += sum(_last_digit(found[0]) for found in TOKEN.finditer(left) if found["unit"])
    if "floor(" in left or "ceil(" in left:
        slack += _step(left)
    return abs(computed - said) <= slack


def _first_figure(side: str) -> str:
    """What an equation comes to stands right behind its sign; words may follow."""
    found = TOKEN.search(side)
    return found[0] if found else ""


def _last_digit(side: str) -> float:
    found = TOKEN.search(side)
    if not found or not found["number"]:
        return 0
    decimals = len(found["number"].partition(".")[2])
    unit: str = found["unit"] or ""
    return float(0.1**decimals) * UNITS.get(unit, 1)


def _step(left: str) -> float:
    digits = re.search(r", (\d) (?:digits|位)", left)
    if digits:
        return 0.1 ** int(digits[1])
    to = re.search(r", to (\d+)\)|, (\d+) 的倍数\)", left)
    return float(to[1] or to[2]) if to else 1.0


def nearly(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=0.006, abs_tol=0.0051)
