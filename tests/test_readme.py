"""What README.md shows is what happens. `pytest --update` writes it anew."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest
from commands import run_text

TOP = Path(__file__).parent.parent
README = TOP / "README.md"


def block(name: str) -> str:
    found = re.search(rf"<!-- {name} -->\n```\w+\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, f"README.md has no block behind <!-- {name} -->"
    return found[1]


def check(name: str, printed: str, update: bool) -> None:
    if update:
        text = README.read_text(encoding="utf-8")
        parts = re.split(rf"(<!-- {name} -->\n```\w+\n).*?(```)", text, maxsplit=1, flags=re.DOTALL)
        README.write_text(parts[0] + parts[1] + printed + parts[2] + parts[3], encoding="utf-8")
    assert block(name) == printed


def oomdoctor(*arguments: str) -> subprocess.CompletedProcess[str]:
    return run_text(*arguments, cwd=TOP, COLUMNS="100")


def test_the_help(update: bool) -> None:
    check("help", oomdoctor("diagnose", "--help").stdout, update)


def test_the_first_report(update: bool) -> None:
    arguments = block("diagnose").split("oomdoctor ", 1)[1].split()
    done = oomdoctor(*arguments)
    assert done.returncode == 1
    assert done.stderr == ""
    check("output", "$ oomdoctor " + " ".join(arguments) + "\n" + done.stdout, update)


def test_the_whatif(update: bool) -> None:
    arguments = ["whatif", "fixtures/stories/simplerl-third-rollout/log.txt", "--set", "swap_space=0"]
    done = oomdoctor(*arguments)
    assert (done.returncode, done.stderr) == (0, "")
    check("whatif", "$ oomdoctor " + " ".join(arguments) + "\n" + done.stdout, update)


@pytest.mark.parametrize("name", ["diagnose", "test"])
def test_the_two_commands_name_what_is_there(name: str) -> None:
    (command,) = block(name).splitlines()
    assert command.startswith("python3 -m venv .venv && .venv/bin/pip install -q ")
    for path in re.findall(r"fixtures/\S+", command):
        assert (TOP / path).exists()


def test_every_command_of_the_section_on_use_is_understood() -> None:
    section = README.read_text(encoding="utf-8").split("## Use", 1)[1].split("## How it works", 1)[0]
    lines = re.findall(r"^(?:[^#\n`]*\| )?oomdoctor (\w+)([^#\n]*)", section, re.MULTILINE)
    assert len(lines) >= 7
    for command, rest in lines:
        flags = [word for word in rest.split() if word.startswith("-") and word != "-"]
        text = oomdoctor(command, "--help").stdout
        assert [flag for flag in flags if flag not in text] == []


def test_the_exit_codes_are_those_of_the_help() -> None:
    table = dict(re.findall(r"^\| (\d+) \| (.+) \|$", README.read_text(encoding="utf-8"), re.MULTILINE))
    lines = oomdoctor("--help").stdout.split("Exit codes:")[1].split("Options:")[0].splitlines()
    told = dict(line.split(maxsplit=1) for line in lines if line.strip())
    assert table.keys() == told.keys() == {"0", "1", "2", "3", "70"}


@pytest.mark.parametrize("before", ["", block("chinese")], ids=["english", "chinese"])
def test_the_program_runs(before: str, tmp_path: Path) -> None:
    log = (TOP / block("diagnose").split("oomdoctor diagnose ", 1)[1].strip()).read_bytes()
    (tmp_path / "driver.log").write_bytes(log)
    done = subprocess.run(
        [sys.executable, "-c", before + block("library")],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    told = "raylet.out 没有这个文件" if before else "raylet.out no such file"
    assert done.stdout.startswith(f"oom\n{told}\nreward-model-ram-hog 0.")


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_what_is_installed_is_in_the_clone(readme: str) -> None:
    """As long as no index has oomdoctor."""
    installed = re.findall(r"pip install (?:-\w+ )*(\S+)", (TOP / readme).read_text(encoding="utf-8"))
    assert len(installed) >= 5
    extras = {f"'.[{extra}]'" for extra in metadata("oomdoctor").get_all("Provides-Extra") or ()}
    assert set(installed) <= {".", *extras}


@pytest.mark.skipif(not (TOP / ".github").is_dir(), reason="beside a wheel not all is there that is linked to")
def test_links_lead_somewhere() -> None:
    for document in TOP.glob("*.md"):
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not target.startswith("https://"):
                assert (document.parent / target).exists(), f"{document.name}: {target}"
