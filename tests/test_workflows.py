"""This repository's own workflows: the least rights, and only what is pinned."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

WORKFLOWS = sorted((Path(__file__).parent.parent / ".github" / "workflows").glob("*.yml"))

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
