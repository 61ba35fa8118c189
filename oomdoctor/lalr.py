"""Reads texts by the table of a grammar's parser.

Lark makes the table (`oomdoctor.tables`), for a wheel once and for all. What it would do with one stands here, without
what else Lark can do, whose import takes a tenth of the time of a small log. A state has what it shifts by, and each of
its rules to reduce by with the number of a set of tokens. There are few such sets, since one may hold tokens that the
state shifts by: shifts go first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

END: Final = "$END"
DROPPED, KEPT, INLINED = "-", "=", "*"  # what becomes of a part of a rule


class Rule(msgspec.Struct, frozen=True, array_like=True):
    origin: str
    name: str  # of its node
    parts: str  # a sign for each, as above
    single: bool  # where it has one child, this stands for it


class Scanner(msgspec.Struct, frozen=True, array_like=True):
    """What reads the next token in some of the states."""

    terminals: list[int]  # the first that matches counts
    texts: dict[str, list[int]] = {}  # of a terminal: others, which a text that it matches may be as a whole


class Table(msgspec.Struct, frozen=True):
    terminals: list[tuple[str, str]]  # names and expressions
    ignored: list[str]
    scanners: list[Scanner]
    rules: list[Rule]
    sets: list[list[str]]
    shifts: list[dict[str, int]]  # of each state: the next one by what comes
    reductions: list[list[tuple[int, int]]]  # of each state: rules, and the sets of tokens before which they are read
    reads: list[int]  # of each state: its scanner
    start: int
    end: int


class Token(NamedTuple):
    type: str
    text: str
    start: int
    end: int


class Node(msgspec.Struct, frozen=True):
    name: str
    children: list[Node | Token]

    def tokens(self) -> Iterator[Token]:
        """Those in it, in the order of the text."""
        for child in self.children:
            if isinstance(child, Token):
                yield child
            else:
                yield from child.tokens()


class Parser:
    """A contextual lexer and an LALR(1) parser."""

    def __init__(self, table: bytes) -> None:
        self._table = msgspec.json.decode(table, type=Table)
        self._ignored = frozenset(self._table.ignored)
        self._scanners: dict[int, re.Pattern[str]] = {}
        self._actions: dict[int, dict[str, int]] = {}

    def parse(self, text: str) -> Node | None:
        """The tree of the text; None where it is not in the language."""
        states, values, at = [self._table.start], list[Node | Token](), 0
        while True:
            token = self._token(text, at, states[-1])
            if token is None or not self._take(token, states, values):
                return None
            if token.type == END:
                tree = values[-1]
                assert isinstance(tree, Node), "the first rule of a grammar always has a node"
                return tree
            at = token.end

    def _token(self, text: str, at: int, state: int) -> Token | None:
        """The next token that can stand here; None where none can."""
        number = self._table.reads[state]
        match = (self._scanners.get(number) or self._scanner(number)).match
        while at < len(text):
            found = match(text, at)
            if found is None or found.lastgroup is None:
                return None
            if found.lastgroup not in self._ignored:
                return Token(self._named(number, found.lastgroup, found[0]), found[0], at, found.end())
            at = found.end()
        return Token(END, "", at, at)

    def _scanner(self, number: int) -> re.Pattern[str]:
        self._scanners[number] = found = self._any_of(self._table.scanners[number].terminals)
        return found

    def _any_of(self, terminals: list[int]) -> re.Pattern[str]:
        named = (self._table.terminals[terminal] for terminal in terminals)
        return re.compile("|".join(f"(?P<{name}>{expression})" for name, expression in named))

    def _named(self, scanner: int, terminal: str, text: str) -> str:
        """The terminal that it is: one of those that are written out, where it is the whole of one."""
        texts = self._table.scanners[scanner].texts.get(terminal)
        found = self._any_of(texts).fullmatch(text) if texts else None
        return found.lastgroup or terminal if found else terminal

    def _take(self, token: Token, states: list[int], values: list[Node | Token]) -> bool:
        """Reduces by what stands before the token, and shifts it; False where it cannot stand here."""
        while True:
            action = self._of(states[-1]).get(token.type)
            if action is None:
                return False
            if action >= 0:
                states.append(action)
                values.append(token)
                return True
            rule = self._table.rules[-1 - action]
            before = len(values) - len(rule.parts)
            values[before:] = [_made(rule, values[before:])]
            del states[before + 1 :]
            states.append(self._of(states[-1])[rule.origin])
            if token.type == END and states[-1] == self._table.end:
                return True

    def _of(self, state: int) -> dict[str, int]:
        """What the state does by what comes: a state to go to, or -1 less a rule to reduce by."""
        found = self._actions.get(state)
        if found is None:
            found = {}
            for rule, before in self._table.reductions[state]:
                found |= dict.fromkeys(self._table.sets[before], -1 - rule)
            found |= self._table.shifts[state]
            self._actions[state] = found
        return found


def _made(rule: Rule, parts: list[Node | Token]) -> Node | Token:
    """What a rule makes of its parts."""
    children: list[Node | Token] = []
    for sign, part in zip(rule.parts, parts, strict=True):
        if sign == INLINED and isinstance(part, Node):
            # a repetition is made of itself and one more: nobody else has its list, which goes on
            children = children + part.children if children else part.children
        elif sign == KEPT:
            children.append(part)
    return children[0] if rule.single and len(children) == 1 else Node(rule.name, children)
