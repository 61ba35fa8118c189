"""An app of one command is, for that command, the app of all."""

from __future__ import annotations

from typing import Any

import pytest
import typer.main

from oomdoctor.cli.app import app
from oomdoctor.cli.commands import COMMANDS, app_for

NAMES = [name for _, names in COMMANDS for name in names]


def commands(of: typer.Typer) -> dict[str, Any]:
    group: Any = typer.main.get_command(of)
    found: dict[str, Any] = group.commands
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_the_same_alone_and_among_others(name: str) -> None:
    (alone,), among = commands(app_for([name, "train.log"])).items(), commands(app)
    assert alone[0] == name
    assert alone[1].help == among[name].help
    assert [param.opts for param in alone[1].params] == [param.opts for param in among[name].params]


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["--lang", "zh", "diagnose"], ["train.log"], ["diagnos"], ["", "diagnose"]], ids=str
)
def test_all_are_there_where_the_first_word_names_none(words: list[str]) -> None:
    assert list(commands(app_for(words))) == NAMES
