"""The rules of the house: one street, one question one function, a cause is a table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import oomdoctor

PACKAGE = Path(oomdoctor.__file__).parent
# The way of the data; each room imports only from those before it.
STREET = ("snapshots", "families", "job", "incident", "signs", "causes", "decision", "remedies", "report", "cli")
LONGEST = 80  # lines of a cause: it is read without scrolling
TABLES = sorted(path for path in (PACKAGE / "causes").glob("*.py") if path.name != "__init__.py")
# One place answers each of these, however it is asked.
QUESTIONS = {"in_engine": "job/job.py", "runs_engine": "job/job.py", "doing_of": "job/doing.py"}


def _imports(path: Path) -> Iterator[str]:
    """The rooms that a module imports from, also within its functions."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("oomdoctor."):
            yield str(node.module).split(".")[1]


@pytest.mark.parametrize("room", STREET)
def test_no_room_imports_from_a_later_one(room: str) -> None:
    later = set(STREET[STREET.index(room) + 1 :])
    back = [
        (path.relative_to(PACKAGE).as_posix(), other)
        for path in (PACKAGE / room).rglob("*.py")
        for other in _imports(path)
        if other in later
    ]
    assert back == []


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_cause_is_a_table_without_numbers_and_without_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    nodes = list(ast.walk(ast.parse(text)))
    assert len(text.splitlines()) <= LONGEST
    assert not [node for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, float)]
    assert not [node for node in nodes if isinstance(node, ast.FunctionDef | ast.Lambda | ast.If | ast.For)]


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_cause_has_its_page_in_both_languages(path: Path) -> None:
    assert path.with_suffix(".md").is_file()
    assert path.with_suffix(".zh.md").is_file()


@pytest.mark.parametrize("question", QUESTIONS)
def test_each_question_is_answered_in_one_place(question: str) -> None:
    places = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.lstrip("_") == question
    ]
    assert set(places) <= {QUESTIONS[question]}, f"{question} is asked in {places}"
