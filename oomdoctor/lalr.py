"""A Lark parser as JSON, and the parser from it.

Lark's own form, but for the table: that one names for every state every token, most of them with one and the same rule
to reduce by, and takes three times as long to read. Here a state has what it shifts by, and each of its rules with the
number of a set of tokens. There are few such sets, since one may hold tokens that the state shifts by: shifts go first.
States are numbered as one comes to them, so that a grammar's JSON is always the same.
"""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import TerminalDef
from lark.parsers.lalr_analysis import Reduce, Shift
from lark.parsers.lalr_parser import LALR_Parser

_SHIFT, _REDUCE = 0, 1  # as Lark writes them
_Actions = dict[str, tuple[int, Any]]  # by token: what a state does


def written(parser: Lark) -> str:
    data, memo = parser.memo_serialize([TerminalDef, Rule])
    data["options"] |= {"source_path": None, "import_paths": []}
    data["parser"]["parser"] = _table(data["parser"]["parser"])
    return json.dumps({"lark": lark.__version__, "data": data, "memo": memo}, separators=(",", ":"))


def _table(table: dict[str, Any]) -> dict[str, Any]:
    named = {
        state: {table["tokens"][token]: actions[token] for token in sorted(actions, key=table["tokens"].__getitem__)}
        for state, actions in table["states"].items()
    }
    numbers = _numbers(named, [*table["start_states"].values()])
    ahead = {token for actions in named.values() for token, (kind, _) in actions.items() if kind == _REDUCE}
    sets: list[list[str]] = []
    return {
        "states": [_state(named[state], numbers, ahead, sets) for state in numbers],
        "sets": sets,
        "start_states": {rule: numbers[state] for rule, state in table["start_states"].items()},
        "end_states": {rule: numbers[state] for rule, state in table["end_states"].items()},
    }


def _numbers(states: dict[int, _Actions], order: list[int]) -> dict[int, int]:
    """The states' new numbers: as one comes to them from those that are in order already."""
    for state in order:
        ahead = (target for kind, target in states[state].values() if kind == _SHIFT)
        order += [target for target in dict.fromkeys(ahead) if target not in order]
    return {state: number for number, state in enumerate(order)}


def _state(actions: _Actions, numbers: dict[int, int], ahead: set[str], sets: list[list[str]]) -> list[Any]:
    shifts = {token: numbers[target] for token, (kind, target) in actions.items() if kind == _SHIFT}
    reductions: dict[int, set[str]] = defaultdict(lambda: shifts.keys() & ahead)
    for token, (kind, rule) in actions.items():
        if kind == _REDUCE:
            reductions[rule["@"]].add(token)
    return [shifts, *([rule, _number(sorted(before), sets)] for rule, before in sorted(reductions.items()))]


def _number(value: list[str], values: list[list[str]]) -> int:
    if value not in values:
        values.append(value)
    return values.index(value)


def read(text: str | bytes) -> Lark | None:
    """The parser that was written; None where another version of Lark wrote it."""
    found = json.loads(text)
    if found["lark"] != lark.__version__:
        return None
    memo = {int(place): value for place, value in found["memo"].items()}
    generated: Any = Lark  # the parsers that Lark generates load themselves so; no published type says it
    parser: Lark = generated._load_from_dict(found["data"], memo, _plugins={"LALR_Parser": _Ready})  # noqa: SLF001
    return parser


class _Ready:
    """In place of Lark's parser, which it makes from the table as it is written here."""

    @staticmethod
    def deserialize(table: dict[str, Any], rules: dict[int, Any], callbacks: Any, debug: bool) -> Any:
        parser: Any = LALR_Parser
        made = parser.deserialize({**table, "tokens": {}, "states": {}}, rules, callbacks, debug)
        states = made.parser.parse_table.states
        for number, (shifts, *reductions) in enumerate(table["states"]):
            actions: dict[str, tuple[Any, Any]] = {}
            for rule, before in reductions:
                actions |= dict.fromkeys(table["sets"][before], (Reduce, rules[rule]))
            states[number] = actions | {token: (Shift, target) for token, target in shifts.items()}
        return made
