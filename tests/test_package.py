"""What is installed: the grammars, the pages, the types."""

from __future__ import annotations

import json
import os
from importlib import metadata, resources
from pathlib import Path

import pytest

import oomdoctor
from oomdoctor import families, grammars
from oomdoctor.causes import causes
from oomdoctor.pages import page

INSIDE = Path(oomdoctor.__file__).parent


def test_ci_tests_the_wheel_and_not_the_tree() -> None:
    if os.environ.get("OOMDOCTOR_TESTED") != "wheel":
        pytest.skip("only where CI has installed the wheel")
    origin = json.loads(metadata.distribution("oomdoctor").read_text("direct_url.json") or "{}")
    assert not origin.get("dir_info", {}).get("editable")
    assert INSIDE.parent.name == "site-packages"
    assert grammars.FOLDER == grammars.INSIDE


def test_every_grammar_opens_from_where_it_is_installed() -> None:
    assert "cuda" in grammars.names()
    for name in grammars.names():
        grammars.parse(name, "a line of some log")  # a grammar that cannot be read or built raises
    assert ("tried", ("2.00 GiB",)) in grammars.clauses("cuda", "CUDA out of memory. Tried to allocate 2.00 GiB")


def test_families_and_causes_are_found_by_their_names() -> None:
    assert {"cuda"} <= {family.name for family in families.families()}
    assert [cause.id for cause in causes()] == sorted({cause.id for cause in causes()})


def test_every_cause_has_its_page() -> None:
    assert [cause.id for cause in causes() if not page(cause.id)] == []


def test_the_package_says_that_it_is_typed() -> None:
    assert resources.files(oomdoctor).joinpath("py.typed").is_file()


def test_the_face_of_the_library() -> None:
    assert sorted(oomdoctor.__all__) == ["Report", "__version__", "diagnose"]
    assert all(getattr(oomdoctor, name) is not None for name in oomdoctor.__all__)
    with pytest.raises(AttributeError, match="nope"):
        _ = oomdoctor.nope
    assert metadata.version("oomdoctor") == oomdoctor.__version__
