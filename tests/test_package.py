"""What is installed: the grammars, the pages, the types."""

from __future__ import annotations

import json
import os
from importlib import metadata, resources
from pathlib import Path

import lark
import pytest

import oomdoctor
from oomdoctor import grammars
from oomdoctor.causes import causes
from oomdoctor.families import families

FIXTURES = Path(__file__).parent.parent / "fixtures"
INSIDE = Path(oomdoctor.__file__).parent


def test_ci_tests_the_wheel_and_not_the_tree() -> None:
    if os.environ.get("OOMDOCTOR_TESTED") != "wheel":
        pytest.skip("only where CI has installed the wheel")
    origin = json.loads(metadata.distribution("oomdoctor").read_text("direct_url.json") or "{}")
    assert not origin.get("dir_info", {}).get("editable")
    assert INSIDE.parent.name == "site-packages"
    assert grammars.FOLDER.parent == INSIDE


def test_every_grammar_opens_from_where_it_is_installed() -> None:
    names = sorted(path.stem for path in grammars.FOLDER.glob("*.lark") if path.stem != "common")
    assert "cuda" in names
    for name in names:
        grammars.parse(name, "a line of some log")  # a grammar that cannot be read or built raises
    tree = grammars.parse("cuda", "CUDA out of memory. Tried to allocate 2.00 GiB")
    assert tree is not None
    assert ("tried", ("2.00 GiB",)) in grammars.clauses(tree)


@pytest.mark.parametrize("name", ["cuda", "ray_kill", "vllm_figures"])
def test_a_parser_from_its_tables_is_the_one_from_the_text(name: str) -> None:
    built = grammars.build(name)
    loaded = grammars.loaded(grammars.tables(built))
    assert loaded is not None
    sentences = [
        line for log in (FIXTURES / name).glob("*.log") for line in log.read_text("utf-8", "replace").split("\n")
    ]
    assert sum(len(built.parse(line).children) for line in sentences) > 10
    for line in sentences:
        assert loaded.parse(line) == built.parse(line)


def test_tables_of_another_lark_are_left_alone() -> None:
    text = grammars.tables(grammars.build("cuda"))
    assert grammars.loaded(text.replace(f'"lark":"{lark.__version__}"', '"lark":"0.1"')) is None
    assert str(INSIDE.parent) not in text


def test_the_wheel_brings_tables_for_every_grammar() -> None:
    brought = {path.stem for path in grammars.FOLDER.glob("*.json")}
    if grammars.FOLDER.parent != INSIDE:
        assert brought == set()
    else:
        assert brought == {path.stem for path in grammars.FOLDER.glob("*.lark")} - {"common"}


def test_families_and_causes_are_found_by_their_names() -> None:
    assert {"cuda"} <= {family.name for family in families()}
    assert [cause.id for cause in causes()] == sorted({cause.id for cause in causes()})


def test_every_cause_has_its_page() -> None:
    assert [cause.id for cause in causes() if not cause.page.is_file()] == []


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(oomdoctor).joinpath("py.typed").is_file()


def test_the_face_of_the_library() -> None:
    assert sorted(oomdoctor.__all__) == ["Report", "__version__", "diagnose"]
    assert all(getattr(oomdoctor, name) is not None for name in oomdoctor.__all__)
    with pytest.raises(AttributeError, match="nope"):
        _ = oomdoctor.nope
    assert metadata.version("oomdoctor") == oomdoctor.__version__
