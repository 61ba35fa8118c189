"""A Lark parser as JSON, and the parser from it.

Lark's own form names for every state every token, most of them with one and the same rule to reduce by. Here a state
has its shifts, and a rule with the number of a set of tokens. There are few such sets, since one may hold the tokens
that the state shifts: shifts go before. What Lark numbers as it comes out of its own sets is numbered in a fixed
order, so that a grammar's JSON is always the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef

Json = dict[str, Any]
_Actions = dict[str, tuple[int, Any]]  # by token: what a state does

_SHIFT, _REDUCE = 0, 1  # as Lark writes them
_END = "$END"


def written(parser: Lark) -> str:
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    frontend = data["parser"]
    symbols: list[Any] = []
    options: list[Any] = []
    terminals = [_terminal(item) for item in memo.values() if item["__type__"] == "TerminalDef"]
    rules = [_rule(item, symbols, options) for item in memo.values() if item["__type__"] == "Rule"]
    found = {
        "lark": lark.__version__,
        "options": data["options"] | {"source_path": None, "import_paths": []},
        "lexer": frontend["lexer_conf"] | {"terminals": []},
        "parser": frontend["parser_conf"] | {"rules": []},
        "terminals": terminals,
        "symbols": symbols,
        "rule options": options,
        "rules": rules,
        "table": _table(frontend["parser"], _tokens(symbols)),
    }
    return json.dumps(found, separators=(",", ":"))


def _terminal(item: Json) -> list[Any]:
    pattern = item["pattern"]  # and its "raw" is for messages that nobody sees
    return [
        item["name"], item["priority"],
        pattern["__type__"], pattern["value"], sorted(pattern["flags"]), pattern.get("_width"),
    ]  # fmt: skip


def _rule(item: Json, symbols: list[Any], options: list[Any]) -> list[Any]:
    origin, *expansion = (
        _number([symbol["name"], symbol.get("filter_out")], symbols) for symbol in (item["origin"], *item["expansion"])
    )
    return [origin, expansion, item["order"], item["alias"], _number(item["options"], options)]


def _number(value: object, values: list[Any]) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)


def _tokens(symbols: list[Any]) -> list[str]:
    """What the parser's table speaks of."""
    return sorted({_END, *(name for name, _ in symbols)})


def _table(table: Json, tokens: list[str]) -> Json:
    named = {
        state: {table["tokens"][token]: action for token, action in actions.items()}
        for state, actions in table["states"].items()
    }
    numbers = _numbers(named, list(table["start_states"].values()))
    ahead = {token for actions in named.values() for token, (kind, _) in actions.items() if kind == _REDUCE}
    sets: list[Any] = []
    return {
        "sets": sets,
        "states": [_state(named[state], numbers, tokens, ahead, sets) for state in numbers],
        "start": {rule: numbers[state] for rule, state in table["start_states"].items()},
        "end": {rule: numbers[state] for rule, state in table["end_states"].items()},
    }


def _numbers(states: dict[int, _Actions], order: list[int]) -> dict[int, int]:
    """The states' new numbers: as one comes to them from those that are in order already."""
    for state in order:
        for _, (kind, target) in sorted(states[state].items(), key=lambda item: item[0]):
            if kind == _SHIFT and target not in order:
                order.append(target)
    return {state: number for number, state in enumerate(order)}


def _state(
    actions: _Actions, numbers: dict[int, int], tokens: list[str], ahead: set[str], sets: list[Any]
) -> list[list[Any]]:
    shifts = {token: numbers[target] for token, (kind, target) in actions.items() if kind == _SHIFT}
    reductions: dict[int, set[str]] = defaultdict(lambda: shifts.keys() & ahead)
    for token, (kind, rule) in actions.items():
        if kind == _REDUCE:
            reductions[rule["@"]].add(token)
    return [
        [[number, shifts[token]] for number, token in enumerate(tokens) if token in shifts],
        [[rule, _number(sorted(map(tokens.index, before)), sets)] for rule, before in sorted(reductions.items())],
    ]


def read(text: str | bytes) -> Lark | None:
    """The parser that was written; None where another version of Lark wrote it."""
    found = json.loads(text)
    if found["lark"] != lark.__version__:
        return None
    terminals = [_lark_terminal(*terminal) for terminal in found["terminals"]]
    symbols = [_lark_symbol(*symbol) for symbol in found["symbols"]]
    rules = [_lark_rule(rule, symbols, found["rule options"]) for rule in found["rules"]]
    memo = dict(enumerate([*terminals, *rules]))
    places = [{"@": place} for place in memo]
    table = found["table"] | {"tokens": _tokens(found["symbols"])}
    data = {
        "options": found["options"],
        "rules": places[len(terminals) :],
        "parser": {
            "lexer_conf": found["lexer"] | {"terminals": places[: len(terminals)]},
            "parser_conf": found["parser"] | {"rules": places[len(terminals) :]},
            "parser": _lark_table(table, places),
        },
    }
    generated: Any = Lark  # the parsers that Lark generates load themselves so; no published type says it
    parser: Lark = generated._load_from_dict(data, memo)  # noqa: SLF001
    return parser


def _lark_terminal(name: str, priority: int, kind: str, value: str, flags: list[str], width: list[int] | None) -> Json:
    pattern = {"__type__": kind, "value": value, "flags": flags, "raw": None, "_width": width}
    return {"__type__": "TerminalDef", "name": name, "priority": priority, "pattern": pattern}


def _lark_symbol(name: str, filter_out: bool | None) -> Json:
    if filter_out is None:
        return {"__type__": "NonTerminal", "name": name}
    return {"__type__": "Terminal", "name": name, "filter_out": filter_out}


def _lark_rule(rule: list[Any], symbols: list[Json], all_options: list[Json]) -> Json:
    origin, expansion, order, alias, options = rule
    return {
        "__type__": "Rule",
        "origin": symbols[origin],
        "expansion": [symbols[symbol] for symbol in expansion],
        "order": order,
        "alias": alias,
        "options": all_options[options],
    }


def _lark_table(table: Json, places: list[Json]) -> Json:
    states = {}
    for number, (shifts, reductions) in enumerate(table["states"]):
        actions: dict[int, tuple[int, Any]] = {}
        for rule, before in reductions:
            actions |= dict.fromkeys(table["sets"][before], (_REDUCE, places[rule]))
        states[number] = actions | {token: (_SHIFT, target) for token, target in shifts}
    return {
        "tokens": table["tokens"],
        "states": states,
        "start_states": table["start"],
        "end_states": table["end"],
    }
