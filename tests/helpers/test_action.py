"""The composite action: its own steps, run by bash as a runner would, on a hostile log and with hostile inputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from crash_logs import CRASH, HEALTHY, KILLED, TOKEN

TOP = Path(__file__).parent.parent.parent
ACTION = TOP / "action.yml"
SCHEDULING = TOP / "fixtures/stories/openrlhf-scheduling/log.txt"
EXAMPLES = TOP / ".github/workflow-examples"

slow = partial(pytest.param, marks=pytest.mark.slow)
pytestmark = pytest.mark.skipif(not ACTION.is_file(), reason="action.yml is part of the repository, not of the wheel")


@pytest.fixture
def action() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    return loaded


class Runner:
    """What a step of a composite action finds."""

    def __init__(self, folder: Path, action: dict[str, Any]) -> None:
        self.workspace, self.temp = folder / "work", folder / "temp"
        self.output, self.summary = folder / "output", folder / "summary"
        self.action = action
        for place in (self.workspace, self.temp / "oomdoctor/bin"):
            place.mkdir(parents=True)
        python = self.temp / "oomdoctor/bin/python"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)

    def step(self, number: int, **inputs: str) -> subprocess.CompletedProcess[str]:
        given = {name: str(about.get("default", "")) for name, about in self.action["inputs"].items()}
        given |= {name.replace("_", "-"): value for name, value in inputs.items()}
        step = self.action["runs"]["steps"][number]
        environment = {
            name: given[re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", value)[1]]  # type: ignore[index]
            for name, value in step["env"].items()
        }
        self.output.write_text("")
        self.summary.write_text("")
        script = self.temp / "step.sh"
        script.write_text(step["run"], encoding="utf-8")
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            check=False,
            cwd=self.workspace,
            capture_output=True,
            text=True,
            timeout=120,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self.temp),
                "RUNNER_TEMP": str(self.temp),
                "GITHUB_ACTION_PATH": str(TOP),
                "GITHUB_WORKSPACE": str(self.workspace),
                "GITHUB_OUTPUT": str(self.output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                **environment,
            },
        )

    def diagnosed(self, **inputs: str) -> subprocess.CompletedProcess[str]:
        return self.step(1, **inputs)

    @property
    def outputs(self) -> dict[str, str]:
        lines = self.output.read_text().splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def runner(tmp_path: Path, action: dict[str, Any]) -> Runner:
    made = Runner(tmp_path, action)
    (made.workspace / "train.log").write_text(CRASH, encoding="utf-8")
    (made.workspace / "healthy.log").write_text(HEALTHY)
    (made.workspace / "killed.log").write_text(KILLED)
    (made.workspace / "waiting.log").write_text(SCHEDULING.read_text(encoding="utf-8"), encoding="utf-8")
    return made


def commands(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines that a runner obeys."""
    printed = (done.stdout + done.stderr).splitlines()
    return [line for line in printed if line.lstrip().startswith("::") or "##[" in line]


def test_a_crash_is_told(runner: Runner) -> None:
    done = runner.diagnosed(paths="train.log")
    assert (done.returncode, done.stderr) == (0, "")
    found = runner.outputs
    assert list(found) == ["verdict", "cause", "confidence", "fingerprint", "report"]
    assert (found["verdict"], found["cause"]) == ("oom", "vllm-utilization-too-high")
    assert re.fullmatch(r"v1:[0-9a-f]{16}", found["fingerprint"])
    assert 0 < float(found["confidence"]) <= 1
    report = json.loads(Path(found["report"]).read_text(encoding="utf-8"))
    assert report["verdict"] == "oom"
    assert len(commands(done)) == 1
    assert commands(done)[0].startswith("::error file=train.log,line=12,title=OUT OF MEMORY")
    assert found["fingerprint"] in runner.summary.read_text(encoding="utf-8")


def test_nothing_secret_and_nothing_hostile_gets_out(runner: Runner) -> None:
    done = runner.diagnosed(paths="train.log")
    everything = done.stdout + runner.summary.read_text("utf-8") + Path(runner.outputs["report"]).read_text("utf-8")
    assert TOKEN not in everything
    assert "margarethe" not in everything
    assert [line for line in commands(done) if "not an error" in line] == []


def test_nothing_of_the_checkout_is_run(runner: Runner) -> None:
    (runner.workspace / "typer.py").write_text("open('owned', 'w')\n")
    script = str(runner.action["runs"]["steps"][1]["run"]).replace("set -euo", "export PYTHONPATH=.\nset -euo")
    runner.action["runs"]["steps"][1] = {**runner.action["runs"]["steps"][1], "run": script}
    runner.diagnosed(paths="train.log")
    assert runner.outputs["verdict"] == "oom"
    assert not (runner.workspace / "owned").exists()


@pytest.mark.slow
def test_messages_about_files_are_redacted(runner: Runner) -> None:
    told = runner.diagnosed(paths=f"train.log\n{TOKEN}.log").stdout
    assert "no such file" in told
    assert TOKEN not in told


@pytest.mark.slow
def test_not_redacted_is_explicit(runner: Runner) -> None:
    log = CRASH.replace("org/small-7b", "/home/margarethe/small-7b")
    (runner.workspace / "train.log").write_text(log, encoding="utf-8")
    runner.diagnosed(paths="train.log")
    assert "margarethe" not in Path(runner.outputs["report"]).read_text("utf-8")
    runner.diagnosed(paths="train.log", redact="false")
    assert "margarethe" in Path(runner.outputs["report"]).read_text("utf-8")


@pytest.mark.slow
def test_annotations_and_summary_can_be_switched_off(runner: Runner) -> None:
    done = runner.diagnosed(paths="train.log", annotations="false", summary="false")
    assert done.returncode == 0
    assert commands(done) == []
    assert "OUT OF MEMORY" in done.stdout
    assert runner.summary.read_text() == ""


@pytest.mark.parametrize(
    ("log", "fail_on", "code"),
    [
        ("train.log", "oom", 1),
        ("gone.log", "oom", 2),
        slow("train.log", "never", 0),
        slow("waiting.log", "oom", 1),
        slow("killed.log", "oom", 0),
        slow("killed.log", "inconclusive", 1),
        slow("healthy.log", "inconclusive", 0),
        slow("train.log", "$(touch owned)", 2),
    ],
)
def test_when_the_step_fails(runner: Runner, log: str, fail_on: str, code: int) -> None:
    done = runner.diagnosed(paths=log, fail_on=fail_on)
    assert done.returncode == code, done.stdout + done.stderr
    assert not (runner.workspace / "owned").exists()


@pytest.mark.slow
def test_a_request_that_ray_cannot_place_is_told_as_such(runner: Runner, action: dict[str, Any]) -> None:
    (told,) = commands(runner.diagnosed(paths="waiting.log"))
    assert ",title=NOT SCHEDULED: " in told.replace("%3A", ":")
    assert runner.outputs["verdict"] == "oom"
    for said in (action["inputs"]["fail-on"], action["outputs"]["verdict"]):
        assert "memory ran out, or Ray cannot place a request" in said["description"]


@pytest.mark.slow
def test_what_cannot_be_read_is_said(runner: Runner) -> None:
    done = runner.diagnosed(paths="gone.log")
    assert [line for line in commands(done) if "gone.log: no such file" in line]
    assert runner.outputs["verdict"] == ""
    assert runner.outputs["cause"] == ""


@pytest.mark.slow
def test_several_lines_blanks_and_stars(runner: Runner) -> None:
    for name in ("ray/a.out", "ray/deep/b.out", "two words.log"):
        (runner.workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (runner.workspace / name).write_text(HEALTHY)
    done = runner.diagnosed(paths="\n  ray/**/*.out  \ntwo words.log\r\ntrain.log\n\n")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(Path(runner.outputs["report"]).read_text(encoding="utf-8"))
    assert (report["errors"], report["stats"]["files"]) == ([], 4)


HOSTILE = (
    "$(touch owned)",
    "`touch owned`",
    "train.log; touch owned",
    "train.log && touch owned",
    '"; touch owned; "',
    "--output=owned",
    "-o",
    "owned",
    "-",
    "${IFS}touch${IFS}owned",
    "a[$(touch owned)]",
    "{owned,owned}",
    "::error::x",
    "##[error]x",
)


def test_hostile_paths_are_only_names(runner: Runner) -> None:
    done = runner.diagnosed(paths="\n".join([*HOSTILE, "train.log"]))
    assert done.returncode == 0, done.stdout + done.stderr
    assert runner.outputs["verdict"] == "oom"
    left = ["healthy.log", "killed.log", "train.log", "waiting.log"]
    assert sorted(path.name for path in runner.workspace.iterdir()) == left
    assert all(re.match(r"::(error|warning) (file|title)=", line) for line in commands(done)), commands(done)
    report = json.loads(Path(runner.outputs["report"]).read_text(encoding="utf-8"))
    assert len(report["errors"]) == len(HOSTILE)


@pytest.mark.slow
def test_hostile_switches_switch_nothing_dangerous(runner: Runner) -> None:
    value = "true; $(touch owned)"
    done = runner.diagnosed(paths="train.log", annotations=value, summary=value, redact=value)
    assert done.returncode == 0
    assert not (runner.workspace / "owned").exists()
    assert TOKEN not in done.stdout


def test_no_path_is_said(runner: Runner) -> None:
    done = runner.diagnosed(paths="\n \r\n")
    assert done.returncode == 2
    assert commands(done) == ["::error title=oomdoctor::the input paths names no log"]


@pytest.mark.parametrize(
    "version", ["1.0; touch owned", "--index-url=https://example.com", "../x", "1.0 evil", "latest"]
)
def test_a_version_is_a_release(runner: Runner, version: str) -> None:
    done = runner.step(0, version=version)
    assert done.returncode == 2
    assert commands(done) == ["::error title=oomdoctor::the input version is no release like 0.2.0"]


def workflows() -> list[Path]:
    return sorted(EXAMPLES.glob("*.yml"))


def steps(path: Path) -> list[dict[str, Any]]:
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    if "runs" in loaded:
        return list(loaded["runs"]["steps"])
    return [step for job in loaded["jobs"].values() for step in job["steps"]]


def test_no_expression_stands_in_a_script() -> None:
    for path in (ACTION, *workflows()):
        scripts = [step["run"] for step in steps(path) if "run" in step]
        assert scripts
        assert [script for script in scripts if "${{" in script] == []


def test_the_examples_ask_for_reading_only_and_pin_what_they_use() -> None:
    assert workflows()
    for path in workflows():
        loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert loaded["permissions"] == {}
        assert all(job["permissions"] == {"contents": "read"} for job in loaded["jobs"].values())
        used = [step["uses"] for step in steps(path) if "uses" in step]
        others = [one for one in used if not one.startswith("OWNER/oomdoctor@")]
        assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", one) for one in others)
        ours = next(step for step in steps(path) if step.get("uses", "").startswith("OWNER/oomdoctor@"))
        assert set(ours["with"]) <= set(yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"])
