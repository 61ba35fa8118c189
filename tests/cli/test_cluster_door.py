"""The door of `oomdoctor cluster`, as far as it opens without a cluster."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BEFORE = "import sys; sys.modules['ray'] = None"  # as where it is not installed
THERE = "import importlib.machinery, sys, types; ray = types.ModuleType('ray'); sys.modules['ray'] = ray; \
ray.__spec__ = importlib.machinery.ModuleSpec('ray', None)"


def run(tmp_path: Path, before: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = (
        f"{before}\nsys.argv = ['oomdoctor', 'cluster', *{list(arguments)!r}]\nfrom oomdoctor.cli import main; main()"
    )
    return subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=60
    )


def test_without_ray_it_says_what_to_install(tmp_path: Path) -> None:
    done = run(tmp_path, BEFORE)
    assert done.returncode == 2
    said = "a cluster is read through Ray, which is not installed: pip install 'oomdoctor[ray]'"
    assert done.stderr == f"oomdoctor: {said}\n"
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--session", "../../etc"], "--session"),
        (["--session", "session_1/../.."], "--session"),
        (["--timeout", "soon"], "--timeout"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--format", "xml"], "--format"),
        (["-o", "no/such/folder.json"], "no/such"),
    ],
)
def test_what_is_wrong_is_said_before_a_cluster_is_looked_for(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = run(tmp_path, THERE, *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_its_help_imports_no_ray(tmp_path: Path) -> None:
    program = "import atexit; atexit.register(lambda: print('ray' in sys.modules)); import sys"
    done = run(tmp_path, program, "--help")
    assert done.returncode == 0
    assert "--archived" in done.stdout
    assert done.stdout.splitlines()[-1] == "False"
