"""A text that is read by a table, without Lark, has the tree that Lark makes of it; the table is always the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark import Lark

from oomdoctor import grammars, lalr, tables
from oomdoctor.lalr import Node, Token

FIXTURES = Path(__file__).parent.parent / "fixtures"
NAMES = grammars.names()


def larks(parser: Lark, text: str) -> Any:
    """What both make of a text: the names of the nodes, the tokens with their places."""

    def told(one: Any) -> Any:
        if isinstance(one, lark.Tree):
            return str(one.data), [told(child) for child in one.children]
        return one.type, str(one), one.start_pos, one.end_pos

    try:
        return told(parser.parse(text))
    except lark.exceptions.LarkError:
        return None


def ours(parser: lalr.Parser, text: str) -> Any:
    def told(one: Node | Token) -> Any:
        return tuple(one) if isinstance(one, Token) else (one.name, [told(child) for child in one.children])

    tree = parser.parse(text)
    return None if tree is None else told(tree)


def differences(built: Lark, texts: list[str]) -> list[str]:
    found = lalr.Parser(tables.written(built))
    return [text for text in texts if ours(found, text) != larks(built, text)]


def lines_of(name: str) -> list[str]:
    logs = (FIXTURES / name).glob("*.log")
    return [line for log in logs for line in log.read_text("utf-8", "replace").split("\n")]


@pytest.mark.parametrize("name", NAMES)
def test_the_trees_are_those_that_lark_makes(name: str) -> None:
    built = grammars.build(name)
    lines = lines_of(name)[:60]
    assert not lines or any(built.parse(line).children for line in lines)
    assert differences(built, [*lines, " ".join(lines), "", " "]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_trees_of_all_lines(name: str) -> None:
    assert differences(grammars.build(name), [line for other in NAMES for line in lines_of(other)]) == []


@settings(max_examples=200, deadline=None)
@given(
    text=st.text("GPU 0.9iB()[]{}'\":,=/\\\n\t%kiledMEM", max_size=80), name=st.sampled_from(["cuda", "kernel", "kill"])
)
def test_the_trees_of_any_text(text: str, name: str) -> None:
    assert ours(grammars._parser(name), text) == larks(grammars.build(name), text)


WORDS = [
    "a",
    "aa",
    "aab",
    "xa",
    "aaa",
    "aaaBb",
    "1+2 + 3",
    "1",
    "ab",
    "b",
    "",
    "abab",
    "X a",
    "a1",
    "if",
    "iff",
    "IF x",
]


@pytest.mark.parametrize(
    "text",
    [
        'start: "a" ~ 2..3 _B? | c "a"\nc: "x"i -> d\n_B.2: /b+/is',  # flags, aliases, priorities, repetition
        'start: sum\n?sum: INT | sum "+" INT -> add\nINT: /[0-9]+/\n%ignore " "',  # rules that vanish
        '!start: "a"? "b"?\n',  # what is kept
        "start: (A | B)+\nA: /a/\nB: A /b/",  # two terminals that begin alike
        'start: ("if" | "b"i | NAME)+\nNAME: /[a-z]+/i\n%ignore " "',  # what is written out, and names that begin so
        'start: pair*\npair: NAME _rest\n_rest: NUMBER | "+" NUMBER\nNAME: /[a-z]/\nNUMBER: /[0-9]/',  # read in place
        'start: "a" "b"',  # one text alone
    ],
)
def test_whatever_a_grammar_uses_is_done(text: str) -> None:
    built = Lark(text, parser="lalr", maybe_placeholders=False)
    assert any(larks(built, word) for word in WORDS)
    assert any(larks(built, word) is None for word in WORDS)
    assert differences(built, WORDS) == []


def test_tables_that_differ_in_one_rule_are_told_apart() -> None:
    grammar = 'start: one*\none: "a" "b"? | "c"'
    other = Lark(grammar.replace("?", ""), parser="lalr", maybe_placeholders=False)
    found = lalr.Parser(tables.written(Lark(grammar, parser="lalr", maybe_placeholders=False)))
    assert [word for word in WORDS if ours(found, word) != larks(other, word)] == ["a", "aa", "aab", "aaa"]


@pytest.mark.slow
def test_no_path_of_the_machine_that_wrote_it_is_in_it() -> None:
    assert str(Path(lalr.__file__).parent.parent).encode() not in b"".join(map(grammars.written, NAMES))


@pytest.mark.slow
def test_the_json_is_the_same_whatever_order_sets_have() -> None:
    program = (
        "import sys\nfrom oomdoctor import grammars\n"
        "for name in grammars.names(): sys.stdout.buffer.write(grammars.written(name) + b'\\n')"
    )
    one, other = (
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in "12"
    )
    assert one == other
    assert one.count(b"\n") == len(NAMES)
