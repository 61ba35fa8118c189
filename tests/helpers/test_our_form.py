"""The form that `oomdoctor issue-form` prints is one that GitHub takes, and asks for what a diagnosis needs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.testing import CliRunner, Result

from oomdoctor import __version__
from oomdoctor.cli.app import app
from oomdoctor.helpers import our_form
from oomdoctor.helpers.asked import places

HERE = Path(__file__).parent
SCHEMA = json.loads((HERE / "issue_form_schema.json").read_text(encoding="utf-8"))
OURS: dict[str, Any] = yaml.safe_load(our_form.text())


def problems(form: Any) -> list[str]:
    return [error.json_path for error in jsonschema.Draft202012Validator(SCHEMA).iter_errors(form)]


def test_it_is_valid_by_github_s_schema() -> None:
    assert problems(OURS) == []


@pytest.mark.parametrize("name", ["vllm.yml", "ray.yml", "verl.yml", "rendered.yml"])
def test_so_are_the_forms_of_these_tests(name: str) -> None:
    assert problems(yaml.safe_load((HERE / "forms" / name).read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("name",), ""),
        (("hello",), "world"),
        (("body", 1, "id"), "two words"),
        (("body", 1, "type"), "upload-all"),
        (("body", 1, "attributes", "label"), "Password"),
        (("body", 1, "attributes", "label"), True),
        (("body", 1, "attributes", "required"), True),
        (("body", 1, "validations", "needed"), True),
        (("body", -1, "attributes", "options"), []),
    ],
)
def test_the_schema_refuses_what_github_refuses(place: tuple[Any, ...], value: Any) -> None:
    form = copy.deepcopy(OURS)
    at: Any = form
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    assert problems(form) != []


def test_ids_labels_and_options_are_unique() -> None:
    fields = [one for one in OURS["body"] if one["type"] != "markdown"]
    ids = [one["id"] for one in fields]
    labels = [one["attributes"]["label"].lower() for one in fields]
    assert len(set(ids)) == len(ids)
    assert len(set(labels)) == len(labels)


def test_it_asks_for_what_a_diagnosis_needs_and_for_no_more() -> None:
    form = our_form.form()
    asked = [field.id for field in form.fields if field.kind != "markdown"]
    assert asked == ["diagnosis", "log", "versions", "command", "hardware", "when", "public"]
    where = places(form.fields)
    found = {name: form.fields[at].id for name, at in where.items() if at is not None}
    assert found == {
        "diagnosis": "diagnosis",
        "happened": "diagnosis",
        "log": "log",
        "versions": "versions",
        "model": "versions",
        "settings": "command",
        "hardware": "hardware",
        "when": "when",
    }


def test_the_version_stands_in_a_comment() -> None:
    assert our_form.text().startswith(f"# Written by oomdoctor {__version__}: ")


def kept(path: Path) -> Result:
    return CliRunner().invoke(app, ["issue-form", "--keep", str(path)])


def test_it_is_printed() -> None:
    done = CliRunner().invoke(app, ["issue-form"])
    assert (done.exit_code, done.stdout) == (0, our_form.text())


def test_keeping_it_writes_it_once(tmp_path: Path) -> None:
    path = tmp_path / ".github/ISSUE_TEMPLATE/oom.yml"
    first = kept(path)
    assert first.exit_code == 1
    assert "oom.yml: written; " in first.stderr
    assert path.read_text(encoding="utf-8") == our_form.text()
    assert kept(path).exit_code == 0
    path.write_text("# Written by oomdoctor 0.0.1\nname: old\n", encoding="utf-8")
    again = kept(path)
    assert again.exit_code == 1
    assert "updated" in again.stderr
    assert path.read_text(encoding="utf-8") == our_form.text()


def test_it_makes_no_folder_but_github_s(tmp_path: Path) -> None:
    done = kept(tmp_path / "nodir/x/oom.yml")
    assert "there is no folder" in str(done.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_way_is_said(tmp_path: Path) -> None:
    (tmp_path / ".github").write_text("a file")
    done = CliRunner().invoke(app, ["issue-form", "--keep", str(tmp_path / ".github/ISSUE_TEMPLATE/oom.yml")])
    assert done.exit_code != 0
    assert "CannotWriteError" in repr(done.exception)
