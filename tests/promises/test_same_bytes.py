"""The same bytes in give the same bytes out, wherever, whenever and however Python was started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STORIES = Path(__file__).parent.parent.parent / "fixtures" / "stories"
STORY = STORIES / "simplerl-third-rollout"

# What may differ between two machines, and what nothing here may depend on.
SURROUNDINGS = (
    {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC"},
    {"PYTHONHASHSEED": "2", "LC_ALL": "C.UTF-8", "TZ": "Asia/Tokyo", "PYTHONOPTIMIZE": "2", "PYTHONUTF8": "1"},
)
ASKED = ("GITHUB_", "COLUMNS")  # by which a reader says how it shall look
SCRIPT = """
import contextlib, io, sys
from oomdoctor.cli.app import app
for number, words in enumerate(sys.argv[2:]):
    try:
        app([*words.split(), "-o", f"{sys.argv[1]}/{number}"], prog_name="oomdoctor")
    except SystemExit:
        pass
"""
COMMANDS = (
    *(f"diagnose logs -f {form}" for form in ("json", "markdown", "html", "github")),
    "diagnose logs -v --lang zh",
    "issue logs",
    "whatif logs --set zero_stage=3 -f json",
    "redact logs",
    "compare logs logs",
)


def outcome(folder: Path, surroundings: dict[str, str]) -> dict[str, bytes]:
    """What the commands write, each by its words."""
    (folder / "out").mkdir(parents=True)
    shutil.copytree(STORY, folder / "logs")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, "out", *COMMANDS],
        check=False,
        capture_output=True,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if not name.startswith(ASKED)} | surroundings,
        timeout=120,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    return {words: (folder / "out" / str(number)).read_bytes() for number, words in enumerate(COMMANDS)}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="locales are others there")
def test_in_other_surroundings(tmp_path: Path) -> None:
    first, second = (
        outcome(tmp_path / place, surroundings)
        for place, surroundings in zip(("here", "there/and further/away"), SURROUNDINGS, strict=True)
    )
    assert [words for words in COMMANDS if first[words] != second[words]] == []
    assert all(first.values())
