"""Sentences drawn from the grammars: the clauses of a grammar's rules, in the words of its terminals.

A rule that begins with `_` is no clause, and neither is one with an empty expansion. What a terminal wants to stand
before or behind it is not drawn: a clause's own next word stands there, or a figure.
"""

from __future__ import annotations

import re
from functools import cache
from random import Random
from typing import Any

from lark.grammar import Rule, Terminal

from fuzz.patterns import CATEGORIES, parser, sre
from oomdoctor import grammars

WORDS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:"


@cache
def _rules(name: str) -> dict[str, list[Rule]]:
    found: dict[str, list[Rule]] = {}
    for rule in grammars.build(name).rules:
        if not rule.origin.name.startswith(("_", "start")):
            found.setdefault(rule.origin.name, []).append(rule)
    return found


@cache
def _terminals(name: str) -> dict[str, Any]:
    built = grammars.build(name)
    return {
        terminal.name: parser.parse(terminal.pattern.value, sum(getattr(re, f.upper()) for f in terminal.pattern.flags))
        for terminal in built.terminals
    }


def clauses(name: str) -> list[str]:
    return sorted(_rules(name))


def clause(dice: Random, name: str, rule: str) -> list[str]:
    """The clause's words, with all of its values."""
    fullest = max(_rules(name)[rule], key=lambda one: len(one.expansion))
    several = [one for one in _rules(name)[rule] if len(one.expansion) == len(fullest.expansion)]
    return [word for symbol in dice.choice(several).expansion for word in _words(dice, name, symbol)]


def _words(dice: Random, name: str, symbol: Any) -> list[str]:
    if isinstance(symbol, Terminal):
        return [_drawn(dice, list(_terminals(name)[symbol.name]))]
    return clause(dice, name, symbol.name) if symbol.name in _rules(name) else []


def _drawn(dice: Random, items: list[Any]) -> str:
    return "".join(_one(dice, code, value) for code, value in items)


def _one(dice: Random, code: Any, value: Any) -> str:
    if code is sre.LITERAL:
        return chr(value)
    if code is sre.ANY or code is sre.NOT_LITERAL:
        return dice.choice([letter for letter in WORDS if code is sre.ANY or ord(letter) != value])
    if code is sre.IN:
        return dice.choice(_taken(value))
    if code is sre.SUBPATTERN:
        return _drawn(dice, list(value[-1]))
    if code is sre.BRANCH:
        return _drawn(dice, list(dice.choice(value[1])))
    if code in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        least, most, body = value
        if least == 0 and list(body) == [(sre.LITERAL, ord("-"))]:
            return ""  # few programs print a negative figure
        times = dice.randint(least, min(most, least + 3))
        return "".join(_drawn(dice, list(body)) for _ in range(times))
    return ""  # what looks ahead or behind, and borders of words


def _taken(parts: list[Any]) -> str:
    negated = parts[0][0] is sre.NEGATE
    letters = WORDS + " "
    found = "".join(letter for letter in letters if any(_holds(part, letter) for part in parts) is not negated)
    return found or "".join(chr(value) for code, value in parts if code is sre.LITERAL)


def _holds(part: tuple[Any, Any], letter: str) -> bool:
    code, value = part
    if code is sre.LITERAL:
        return chr(value) == letter
    if code is sre.RANGE:
        return bool(value[0] <= ord(letter) <= value[1])
    return code is sre.CATEGORY and re.match(CATEGORIES[str(value)], letter) is not None


def sentence(dice: Random, name: str) -> str:
    """Some clauses of the grammar in any order."""
    rules = clauses(name)
    return " ".join(word for _ in range(dice.randint(1, 6)) for word in clause(dice, name, dice.choice(rules)))


__all__ = ["clause", "clauses", "sentence"]
