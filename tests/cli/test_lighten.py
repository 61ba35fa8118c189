"""A start does without pydantic where Typer is known to bring it, and leaves every other Typer alone."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from oomdoctor.cli.lighten import converts_with_pydantic

PROGRAM = """
import sys
from oomdoctor.cli.commands import app_for

words = ["causes", "--lang", "en"]
try:
    app_for(words)(words)
except SystemExit as end:
    sys.exit(end.code or int("pydantic" in sys.modules))
"""


@pytest.mark.parametrize("version", ["0.26", "0.26.0", "0.29.2", "0.29.2rc1"])
def test_these_versions_convert_with_pydantic(version: str) -> None:
    assert converts_with_pydantic(version)


@pytest.mark.parametrize("version", ["0.25.9", "0.9", "0.30", "0.30.1", "1.27.0", "2", "", "unknown"])
def test_these_do_not_or_are_not_known_to(version: str) -> None:
    assert not converts_with_pydantic(version)


@pytest.mark.skipif(not converts_with_pydantic(typer.__version__), reason="another Typer")
def test_no_command_loads_pydantic() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True)
