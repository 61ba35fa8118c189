"""The table of a parser that Lark made, as JSON that `oomdoctor.lalr` reads texts by.

States are numbered as one comes to them from those that have a number, so that a grammar's JSON is always the same.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import msgspec
from lark import Lark
from lark.grammar import Rule as LarksRule
from lark.lexer import TerminalDef

from oomdoctor.lalr import DROPPED, INLINED, KEPT, Rule, Scanner, Table

_SHIFT, _REDUCE = 0, 1  # as Lark writes them
_START: Final = "start"
_Actions = dict[str, tuple[int, Any]]  # by token: what a state does


def written(parser: Lark) -> bytes:
    """The JSON of a parser with a contextual lexer and without placeholders."""
    data, memo = parser.memo_serialize([TerminalDef, LarksRule])
    table = data["parser"]["parser"]
    named: dict[int, _Actions] = {
        state: {table["tokens"][token]: actions[token] for token in sorted(actions, key=table["tokens"].__getitem__)}
        for state, actions in table["states"].items()
    }
    states = _in_order(named, table["start_states"][_START])
    numbers = {state: number for number, state in enumerate(states)}
    ahead = {token for actions in named.values() for token, (kind, _) in actions.items() if kind == _REDUCE}
    sets: list[list[str]] = []
    shifts = [
        {token: numbers[target] for token, (kind, target) in named[state].items() if kind == _SHIFT} for state in states
    ]
    rules = [rule["@"] for rule in data["rules"]]
    reductions = [_reductions(named[state], rules, shifts[numbers[state]].keys() & ahead, sets) for state in states]
    terminals = [(str(one.name), one.pattern.to_regexp()) for one in parser.terminals]
    scanners: list[Scanner] = []
    lexer: Any = parser.parser.lexer  # the contextual one: by state, a lexer of what it takes
    reads = [_number(_scanner(lexer.lexers[state], terminals), scanners) for state in states]
    found = Table(
        terminals=terminals,
        ignored=sorted(map(str, parser.lexer_conf.ignore)),
        scanners=scanners,
        rules=[_rule(memo[rule]) for rule in rules],
        sets=sets,
        shifts=shifts,
        reductions=reductions,
        reads=reads,
        start=numbers[table["start_states"][_START]],
        end=numbers[table["end_states"][_START]],
    )
    return msgspec.json.encode(found)


def _in_order(states: dict[int, _Actions], start: int) -> list[int]:
    """The states, as one comes to them."""
    order = [start]
    for state in order:
        ahead = (target for kind, target in states[state].values() if kind == _SHIFT)
        order += [target for target in dict.fromkeys(ahead) if target not in order]
    return order


def _reductions(actions: _Actions, rules: list[int], shifted: set[str], sets: list[list[str]]) -> list[tuple[int, int]]:
    """What a state reduces by, and before what; or before what it shifts by, which goes first."""
    before: dict[int, set[str]] = defaultdict(lambda: set(shifted))
    for token, (kind, rule) in actions.items():
        if kind == _REDUCE:
            before[rules.index(rule["@"])].add(token)
    return [(rule, _number(sorted(tokens), sets)) for rule, tokens in sorted(before.items())]


def _scanner(lexer: Any, terminals: list[tuple[str, str]]) -> Scanner:
    """What the lexer of a state tries, in its order, and what it takes for a text that is written out."""
    places = {name: place for place, (name, _) in enumerate(terminals)}
    scanner = lexer.scanner  # made, and the callbacks with it, when it is first asked for
    texts = {name: [places[one.name] for one in unless.scanner.terminals] for name, unless in lexer.callback.items()}
    return Scanner([places[one.name] for one in scanner.terminals], texts)


def _rule(rule: dict[str, Any]) -> Rule:
    """As Lark's ParseTreeBuilder reads it."""
    keeps_all, name = rule["options"]["keep_all_tokens"], rule["origin"]["name"]
    return Rule(
        origin=name,
        name=rule["alias"] or rule["options"]["template_source"] or name,
        parts="".join(_sign(symbol, keeps_all=keeps_all) for symbol in rule["expansion"]),
        single=rule["options"]["expand1"] and not rule["alias"],
    )


def _sign(symbol: dict[str, Any], *, keeps_all: bool) -> str:
    if symbol["__type__"] == "Terminal":
        return KEPT if keeps_all or not symbol["filter_out"] else DROPPED
    return INLINED if symbol["name"].startswith("_") else KEPT


def _number(value: Any, values: list[Any]) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)
