"""The door of `oomdoctor cluster`, as far as it opens without a cluster."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest
from commands import run_process, run_text

from oomdoctor.cli import cluster


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is installed, and says nothing."""
    there = ModuleType("ray")
    there.__spec__ = ModuleSpec("ray", None)
    monkeypatch.setitem(sys.modules, "ray", there)


def test_without_ray_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "find_spec", {"ray": None}.__getitem__)
    done = run_text("cluster")
    assert done.returncode == 2
    said = "`oomdoctor cluster` needs Ray, which is not installed: pip install 'oomdoctor[ray]'"
    assert done.stderr == f"oomdoctor: {said}\n"
    assert done.stdout == ""


@pytest.mark.usefixtures("ray")
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
    done = run_text("cluster", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_its_help_imports_no_ray() -> None:
    done = run_process("cluster", "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert b"--archived" in done.stdout
    imported = {line.rpartition(b"|")[2].strip() for line in done.stderr.splitlines()}
    assert b"oomdoctor.cli.commands" in imported
    assert not {name for name in imported if name.partition(b".")[0] == b"ray"}
