"""A parser that was written as JSON is the one that Lark made, and its JSON is always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lark
import pytest
from lark import Lark

from oomdoctor import grammars, lalr

FIXTURES = Path(__file__).parent.parent / "fixtures"
NAMES = grammars.names()


def again(parser: Lark) -> Lark:
    found = lalr.read(lalr.written(parser))
    assert found is not None
    return found


def table(parser: Lark) -> Any:
    frontend: Any = parser.parser
    return frontend.parser._parse_table


def terminals(parser: Lark) -> list[Any]:
    return [(one.name, one.pattern.to_regexp(), one.pattern.max_width, one.priority) for one in parser.terminals]


def differences(one: Any, other: Any) -> list[str]:
    """Where two tables do not do the same, whatever the numbers of their states."""
    same = {one.start_states["start"]: other.start_states["start"]}
    found = []
    for state in (ways := list(same)):
        left, right = one.states[state], other.states[same[state]]
        found += [f"{state}: {token}" for token in left.keys() ^ right.keys()]
        for token in left.keys() & right.keys():
            (what, target), (what_other, target_other) = left[token], right[token]
            if what.name == what_other.name == "Shift":
                if target not in same:
                    same[target] = target_other
                    ways.append(target)
                found += [f"{state}: {token}"] * (same[target] != target_other)
            elif what.name != what_other.name or target != target_other or target.alias != target_other.alias:
                found.append(f"{state}: {token}")
    if same[one.end_states["start"]] != other.end_states["start"] or same.keys() != one.states.keys():
        found.append("end")
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_tables_and_the_terminals_are_those_of_the_text(name: str) -> None:
    built = grammars.build(name)
    found = again(built)
    assert differences(table(built), table(found)) == []
    assert terminals(found) == terminals(built)
    assert found.lexer_conf.ignore == built.lexer_conf.ignore


def test_tables_that_differ_in_one_token_are_told_apart() -> None:
    def made(text: str) -> Any:
        return table(Lark(text, parser="lalr"))

    grammar = 'start: one*\none: "a" "b"? | "c"'
    assert differences(made(grammar), table(again(Lark(grammar, parser="lalr")))) == []
    assert differences(made(grammar), made(grammar.replace("?", ""))) != []


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if (FIXTURES / name).is_dir()])
def test_the_trees_are_those_of_the_text(name: str) -> None:
    built = grammars.build(name)
    found = again(built)
    lines = [line for log in (FIXTURES / name).glob("*.log") for line in log.read_text("utf-8", "replace").split("\n")]
    assert any(built.parse(line).children for line in lines)
    for line in lines:
        assert found.parse(line) == built.parse(line)


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" ~ 2..3 _B? | c "a"\nc: "x"i -> d\n_B.2: /b+/is',  # flags, aliases, priorities, repetition
        '?start: sum\n?sum: INT | sum "+" INT -> add\nINT: /[0-9]+/\n%ignore " "',  # rules that vanish
        '!start: ["a"] ["b"]\n',  # what is kept, what may be missing
        "start: (A | B)+\nA: /a/\nB: A /b/",  # two terminals that begin alike
    ],
)
def test_whatever_a_grammar_uses_comes_back(text: str) -> None:
    built = Lark(text, parser="lalr")
    found = again(built)
    words = ["a", "aa", "aab", "xa", "aaa", "aaaBb", "1+2 + 3", "1", "ab", "b", "", "abab", "X a"]
    assert any(tree(built, word) for word in words)
    for word in words:
        assert tree(found, word) == tree(built, word), word


def tree(parser: Lark, text: str) -> Any:
    try:
        return parser.parse(text)
    except lark.exceptions.LarkError:
        return None


def test_another_larks_json_is_left_alone() -> None:
    text = lalr.written(grammars.build("cuda"))
    assert lalr.read(text.replace(f'"lark":"{lark.__version__}"', '"lark":"0.1"')) is None


@pytest.mark.slow
def test_no_path_of_the_machine_that_wrote_it_is_in_it() -> None:
    assert str(Path(lalr.__file__).parent.parent) not in "".join(map(grammars.written, NAMES))


@pytest.mark.slow
def test_the_json_is_the_same_whatever_order_sets_have() -> None:
    program = "from oomdoctor import grammars\nfor name in grammars.names(): print(grammars.written(name))"
    one, other = (
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in "12"
    )
    assert one == other
    assert one.count(b"\n") == len(NAMES)
