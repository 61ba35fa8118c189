"""The pages that keep to a narrow terminal, and the names of arguments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from oomdoctor.cli.app import app
from oomdoctor.columns import cells, cut, table

STORY = Path(__file__).parents[2] / "fixtures/stories/simplerl-third-rollout/log.txt"
COMMANDS = ("diagnose", "explain", "whatif", "issue", "reduce", "redact", "draft", "knobs", "events", "bench", "train")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize(
    "words",
    [("causes",), ("knobs",), ("knobs", "engine-sleep"), ("whatif", str(STORY), "--set", "swap_space=0"), ("--help",),
     ("diagnose", "--help")],
    ids=" ".join,
)  # fmt: skip
def test_a_narrow_terminal_is_kept_to(words: tuple[str, ...], lang: str) -> None:
    text = CliRunner().invoke(app, [*words, "--lang", lang], env={"COLUMNS": "40"}).stdout
    assert text.count("\n") > 10
    assert [line for line in text.splitlines() if cells(line) > 40 and " " in line.strip()] == []


def test_a_table_in_a_pipe_is_one_line_for_each() -> None:
    printed = CliRunner().invoke(app, ["causes"], env={"COLUMNS": ""}).stdout
    assert all(re.match(r"[a-z-]+  ", line) for line in printed.splitlines())


@pytest.mark.parametrize("command", COMMANDS)
def test_arguments_are_named_as_everywhere(command: str) -> None:
    text = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"}).stdout
    usage = text.split("\n\n", 1)[0]
    assert re.fullmatch(rf"Usage: \w+ {command} \[OPTIONS\] (?:[A-Z]+(?:\.\.\.)?|\[[A-Z]+\](?:\.\.\.)?)", usage.strip())
    assert not re.search(r"<(?:str|list)|\[\[|\{", text)


def test_what_is_cut_says_so() -> None:
    assert cut("a long name", 8) == "a lon..."
    assert cut("a name", 6) == "a name"


def test_a_table_wraps_its_last_column_or_stacks_its_rows() -> None:
    rows = [("name", "what to do"), ("one", "something that takes more than a line of it")]
    assert len(list(table(rows))) == 2
    assert [line[:6] for line in table(rows, 34)] == ["name  ", "one   ", "      "]
    assert next(table(rows, 20, has_head=True)) == "one"
