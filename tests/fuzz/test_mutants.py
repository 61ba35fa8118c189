"""The mutants apply to the code as it is; whether tests notice them, `python -m fuzz.mutants` says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import oomdoctor
from fuzz import mutants
from fuzz.mutants import MUTANTS, Mutant, broken

PACKAGE = Path(oomdoctor.__file__).parent
TOP = Path(__file__).parent.parent.parent
SURVIVOR = Mutant("units.py", "Sizes:", "Figures:", "tests/test_units.py")


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_a_mutant_changes_one_place_and_names_tests_that_are_there(mutant: Mutant) -> None:
    assert broken(mutant, PACKAGE) == ""
    if mutant.file.endswith(".py"):  # tables are read by their own tests
        ast.parse((PACKAGE / mutant.file).read_text(encoding="utf-8").replace(mutant.old, mutant.new))
    assert mutant.by
    assert [test for test in mutant.by.split() if not (TOP / test.partition("::")[0]).exists()] == []


def test_no_place_is_changed_twice_in_the_same_way() -> None:
    assert len({str(mutant) for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize(
    ("file", "old", "why"),
    [
        ("gone.py", "x", "no such file"),
        ("units.py", "nobody writes this", "its text stands there 0 times"),
        ("units.py", "return", "its text stands there"),
    ],
)
def test_a_row_that_applies_no_more_is_said(file: str, old: str, why: str) -> None:
    assert broken(Mutant(file, old, "", "tests/test_units.py"), PACKAGE).startswith(why)


@pytest.mark.slow
@pytest.mark.skipif(not (TOP / "grammars").is_dir(), reason="only in a checkout")
def test_who_survives_is_named_and_who_is_noticed_is_not() -> None:
    noticed = next(mutant for mutant in MUTANTS if mutant.file == "units.py")
    nobody = Mutant("units.py", "nobody writes this", "", "tests/test_units.py")
    found = dict(mutants.problems([noticed, SURVIVOR, nobody], jobs=2))
    assert found == {SURVIVOR: "it survives tests/test_units.py", nobody: "its text stands there 0 times"}
