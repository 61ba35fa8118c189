"""The commands: few on the first page, all names that ever were understood, and one that is, alone, what it is among
others."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner, Result

from oomdoctor.cli.app import app
from oomdoctor.cli.commands import COMMANDS, NOT_SHOWN, OLD_NAMES, UNDER, app_for

SHOWN = [name for _, names in COMMANDS for name in names]
NAMES = [*SHOWN, *NOT_SHOWN, *OLD_NAMES.values(), *OLD_NAMES]


def commands(of: typer.Typer) -> dict[str, Any]:
    group: Any = typer.main.get_command(of)
    found: dict[str, Any] = group.commands
    return found


def run(*words: str) -> Result:
    """As the door does it: with an app of the command that the words name."""
    return CliRunner().invoke(app_for(words), list(words), env={"COLUMNS": "80"}, prog_name="oomdoctor")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_is_the_same_alone_and_among_others(name: str) -> None:
    (alone,), among = commands(app_for([*name.split(), "train.log"])).items(), commands(app)
    assert alone[0] == name
    assert alone[1].help == among[name].help
    assert [param.opts for param in alone[1].params] == [param.opts for param in among[name].params]


@pytest.mark.parametrize(
    "words", [[], ["--help"], ["--lang", "zh", "diagnose"], ["train.log"], ["diagnos"], ["", "diagnose"]], ids=str
)
def test_all_are_there_where_the_first_word_names_none(words: list[str]) -> None:
    assert list(commands(app_for(words))) == NAMES


def test_the_first_page_shows_eight_commands_at_most() -> None:
    page = run("--help").stdout
    listed = re.findall(r"^  (\w[\w-]*)  +[A-Z]", page.split("Options:")[1], re.MULTILINE)
    assert listed == SHOWN
    assert len(listed) <= 8
    assert max(map(len, page.splitlines())) <= 80
    assert 2 <= len(re.findall(r"^    .*oomdoctor ", page.split("Exit codes:")[0], re.MULTILINE)) <= 3


def test_the_help_of_the_first_word_lists_the_second() -> None:
    for first, seconds in UNDER.items():
        page = run(first, "--help").stdout
        assert [second for second in seconds if f"oomdoctor {first} {second} " not in page] == []


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_an_old_name_does_what_the_new_one_does(old: str, new: str) -> None:
    was, there = run(old, "--help"), run(*new.split(), "--help")
    assert (was.exit_code, there.exit_code) == (0, 0)
    assert was.stdout.startswith(f"Usage: oomdoctor {old} ")
    assert was.stdout.replace(f"oomdoctor {old} ", f"oomdoctor {new} ", 1).split() == there.stdout.split()


def test_a_log_behind_the_first_word_is_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "form").write_text("RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    assert "CUDA out of memory" in run("issue", "./form").stdout
    assert "ISSUE_TEMPLATE" in run("issue", "form").stdout


def test_a_knob_is_explained_as_a_cause_is() -> None:
    assert run("explain", "engine-sleep").stdout == run("knobs", "engine-sleep").stdout
    assert run("explain").stdout == run("causes").stdout == run("explain", "causes").stdout
    assert run("explain", "--framework", "verl").stdout == run("explain", "knobs", "--framework", "verl").stdout
    assert "it is a setting of lower-engine-reservation" in run("explain", "gpu_memory_utilization").stderr
    assert "did you mean engine-sleep" in run("explain", "engin-slep").stderr


def test_the_group_for_other_programs_prints_its_help() -> None:
    assert run("dev").stdout == run("dev", "--help").stdout
