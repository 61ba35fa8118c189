"""This repository's own workflows: the least rights, only what is pinned, and commands that are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).parent.parent
WORKFLOWS = sorted((TOP / ".github" / "workflows").glob("*.yml"))

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="only in a checkout")


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_right_that_a_job_does_not_ask_for_and_runs_only_what_is_pinned(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    workflow: dict[str, Any] = yaml.safe_load(text)
    assert workflow["permissions"] == {}
    assert set(re.findall(r"uses: (\S+)", text)) == set(re.findall(r"uses: ([\w./-]+@[0-9a-f]{40}) # v", text))
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"], name
        written = {what for what, how in job["permissions"].items() if how == "write"}
        assert not written or name == "publish"
        scripts = [step["run"] for step in job["steps"] if "run" in step]
        assert [script for script in scripts if "${{" in script] == []


@pytest.mark.parametrize("path", [*WORKFLOWS, TOP / "CONTRIBUTING.md", TOP / ".ci" / "run"], ids=lambda path: path.name)
def test_what_is_run_is_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    modules = re.findall(r"python -m ((?:fuzz|benchmarks)[\w.]*)", text)
    files = re.findall(r"(?<![\w/])\.ci/\w+(?:\.py)?|(?<=pytest -q )tests/\w+", text)
    assert modules or files or path.stem == "lint"
    places = [*(name.replace(".", "/") for name in modules), *files]
    assert [place for place in places if not any((TOP / f"{place}{end}").exists() for end in ("", ".py"))] == []


def test_ci_runs_what_readmes_command_leaves_out_and_the_wheel_is_tested_as_readme_says(
    pytestconfig: pytest.Config,
) -> None:
    assert pytestconfig.getini("addopts")[-2:] == ["-m", "not slow"]
    run = (TOP / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"pytest -q -n auto.*", run) == ["pytest -q -n auto -m slow", "pytest -q -n auto"]
