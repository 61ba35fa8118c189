"""Each promise of SECURITY.md names tests, and they are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TOP = Path(__file__).parent.parent.parent
ASSUMED = (TOP / "SECURITY.md").read_text(encoding="utf-8").split("\n## ")[1]
PROMISES = re.split(r"\n- ", ASSUMED)[1:]
_LINK = re.compile(r"\]\((\S+?)\)")


def test_there_are_promises() -> None:
    assert ASSUMED.startswith("What you can assume\n")
    assert len(PROMISES) >= 10


@pytest.mark.parametrize("promise", PROMISES, ids=lambda promise: promise.split("**")[1][:40])
def test_a_promise_names_tests(promise: str) -> None:
    named = _LINK.findall(promise)
    assert named
    for file in named:
        tree = ast.parse((TOP / file).read_text(encoding="utf-8"))
        tests = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        assert any(name.startswith("test_") for name in tests), file
