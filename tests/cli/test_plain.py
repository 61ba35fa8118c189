"""A command line of nothing but logs is run without Typer, and says the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from commands import run_text

from oomdoctor.cli import plain

LOG = "step 40 loss 0.41\nRuntimeError: CUDA out of memory. Tried to allocate 3.00 GiB\n"


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["diagnose"],  # a terminal is told what to type
        ["train.log"],
        ["explain", "train.log"],
        ["diagnose", "-v", "train.log"],
        ["diagnose", "train.log", "--format=json"],
        ["diagnose", "--", "-odd-name.log"],
        ["diagnose", "train.log", "-h"],
        ["--lang", "zh", "diagnose", "train.log"],
    ],
)
def test_what_typer_has_to_read(words: list[str]) -> None:
    assert plain.logs_of(words) is None


def test_windows_leaves_patterns_of_files_to_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "name", "nt")
    assert plain.logs_of(["diagnose", "*.log"]) is None


@pytest.mark.parametrize("logs", [["train.log"], ["-"], ["driver.log", "raylet.out"]])
def test_nothing_but_logs(logs: list[str]) -> None:
    assert plain.logs_of(["diagnose", *logs]) == logs


@pytest.mark.parametrize("name", ["train.log", "missing.log"])
@pytest.mark.parametrize("environ", [{}, {"LC_ALL": "zh_CN.UTF-8"}, {"OOMDOCTOR_LANG": "tlh"}])
def test_it_says_what_it_says_with_an_option(tmp_path: Path, name: str, environ: dict[str, str]) -> None:
    (tmp_path / "train.log").write_text(LOG, encoding="utf-8")
    with_typer = run_text("diagnose", "--color", "auto", name, cwd=tmp_path, **environ)
    without = run_text("diagnose", name, cwd=tmp_path, **environ)
    assert (without.returncode, without.stdout, without.stderr) == (
        with_typer.returncode,
        with_typer.stdout,
        with_typer.stderr,
    )
    assert without.returncode == (1 if name == "train.log" else 2)
