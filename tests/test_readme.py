"""What README.md shows is what happens. `pytest --update` writes it anew."""

from __future__ import annotations

import re
import subprocess
from importlib.metadata import metadata
from pathlib import Path

import pytest
from commands import run_text

TOP = Path(__file__).parent.parent
README = TOP / "README.md"


def block(name: str, page: Path = README) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"{page.name} has no block behind <!-- {name} -->"
    return found[1]


def check(name: str, printed: str, update: bool) -> None:
    if update:
        text = README.read_text(encoding="utf-8")
        parts = re.split(rf"(<!-- {name} -->\n```\w+\n).*?(```)", text, maxsplit=1, flags=re.DOTALL)
        README.write_text(parts[0] + parts[1] + printed + parts[2] + parts[3], encoding="utf-8")
    assert block(name) == printed


def oomdoctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_text(*arguments, cwd=TOP, COLUMNS="100")


def test_the_first_report(update: bool) -> None:
    arguments = block("diagnose").split("oomdoctor ", 1)[1].split()
    done = oomdoctor(*arguments)
    assert done.returncode == 1
    assert done.stderr == ""
    check("output", "$ oomdoctor " + " ".join(arguments) + "\n" + done.stdout, update)


def test_it_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 180


@pytest.mark.parametrize("name", ["diagnose", "test"])
def test_the_two_commands_name_what_is_there(name: str) -> None:
    (command,) = block(name).splitlines()
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
    for path in re.findall(r"fixtures/\S+", command):
        assert (TOP / path).exists()


def test_every_command_is_understood() -> None:
    text = README.read_text(encoding="utf-8")
    lines = re.findall(r"^(?:[^#\n`]*\| |uvx --from \. )?oomdoctor (\w+)([^#\n]*)", text, re.MULTILINE)
    assert len(lines) >= 7
    for command, rest in lines:
        flags = [word for word in rest.split() if word.startswith("-") and word != "-"]
        text = oomdoctor(command, "--help").stdout
        assert [flag for flag in flags if flag not in text] == []


def test_the_exit_codes_are_those_of_the_help() -> None:
    (sentence,) = re.findall(r"The exit code\s+is (.*?)\.\n", README.read_text(encoding="utf-8"), re.DOTALL)
    named = dict(re.findall(r"(\d+) \((.*?)\)", " ".join(sentence.split())))
    lines = oomdoctor("--help").stdout.split("Exit codes:")[1].split("Options:")[0].splitlines()
    assert named == dict(line.split(maxsplit=1) for line in lines if line.strip())


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_what_is_installed_is_in_the_clone(readme: str) -> None:
    """As long as no index has oomdoctor."""
    assert installed(TOP / readme) == [".", ".", ".", ".", "'.[dev]'"]


def installed(page: Path) -> list[str]:
    """What the commands of a page install, all of which the clone has."""
    found = re.findall(r"(?:pipx? install|uvx --from) (?:-\w+ )*([^\s`]+)", page.read_text(encoding="utf-8"))
    extras = {f"'.[{extra}]'" for extra in metadata("oomdoctor").get_all("Provides-Extra") or ()}
    assert set(found) <= {".", *extras}
    return found


@pytest.mark.skipif(not (TOP / ".github").is_dir(), reason="beside a wheel not all is there that is linked to")
def test_links_lead_somewhere() -> None:
    for document in TOP.glob("*.md"):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not target.startswith("https://"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"
