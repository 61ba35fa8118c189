"""Modules that lie beside a log are never imported."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hostile_logs import OOM

# What oomdoctor or its libraries import early, late, or where it is there; and what the log speaks of.
BAIT = (
    "typer",
    "rich",
    "lark",
    "regex",
    "yaml",
    "jinja2",
    "ahocorasick_rs",
    "msgspec",
    "zstandard",
    "json",
    "shlex",
    "torch",
    "vllm",
)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["module", "script"])
def test_modules_beside_a_log_are_left_alone(tmp_path: Path, command: str) -> None:
    for name in (*BAIT, "sitecustomize", "conftest", "setup"):
        (tmp_path / f"{name}.py").write_text(f"open('owned', 'a').write('{name}')\n")
    (tmp_path / "oom.log").write_text(OOM)
    # As pip writes the command: the folder it is started in is not looked at.
    script = tmp_path / "bin" / "oomdoctor"
    script.parent.mkdir()
    script.write_text("from oomdoctor.cli import main\nmain()\n")
    started = [sys.executable, "-m", "oomdoctor"] if command == "module" else [sys.executable, script]
    before = {path.name for path in tmp_path.iterdir()}
    done = subprocess.run(
        [*started, "diagnose", "oom.log", "-f", "html"],
        check=False,
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (1, b"")
    assert {path.name for path in tmp_path.iterdir()} == before
