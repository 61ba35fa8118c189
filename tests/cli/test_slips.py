"""What a command line says of words that it takes and that change nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import oomdoctor
from oomdoctor.cli import assumed
from oomdoctor.cli.app import app
from oomdoctor.cli.near import as_listed, near

TOP = Path(__file__).parents[2]
STORY = TOP / "fixtures/stories/simplerl-third-rollout/log.txt"


def run(*words: str, **environ: str) -> Result:
    return CliRunner().invoke(app, list(words), env=environ)


def test_an_assumption_that_nothing_reads_is_said() -> None:
    told = run("diagnose", str(STORY), "--assume", "foo=bar", "--assume", "gpu_memory_utilisation=0.5").stderr
    assert "--assume foo: no known package or setting" in told
    assert "did you mean gpu_memory_utilization" in told


@pytest.mark.parametrize(
    "name",
    ["zero_stage=3", "vllm=0.8.3", "actor.ds.zero_stage=3", "--swap-space=4", "critic.model.path=a/b", "nnodes=2"],
)
def test_an_assumption_that_is_read_is_not(name: str) -> None:
    assert "--assume" not in run("diagnose", str(STORY), "--assume", name).stderr


def test_the_settings_that_the_code_asks_for_are_known() -> None:
    asked = set()
    for path in Path(oomdoctor.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "setting":
                asked |= {a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}
    assert len(asked) > 20
    assert list(assumed.unread(sorted(asked))) == []


def test_a_setting_that_is_given_twice_is_said() -> None:
    twice = run("whatif", str(STORY), "--set", "swap_space=0", "--set", "swap_space=1")
    assert "--set swap_space is given twice: using the last value, 1" in twice.stderr
    assert "twice" not in run("whatif", str(STORY), "--set", "swap_space=0").stderr


@pytest.mark.parametrize(
    ("lang", "is_told"), [("fr", True), ("en_US.UTF-8", False), ("zh", False), ("C", False), ("", False)]
)
def test_a_language_that_is_not_spoken_is_said(lang: str, is_told: bool) -> None:
    assert ("OOMDOCTOR_LANG" in run("causes", OOMDOCTOR_LANG=lang).stderr) is is_told


def test_a_framework_is_found_in_any_case() -> None:
    assert run("knobs", "--framework", "TRL").stdout == run("knobs", "--framework", "trl").stdout
    assert "did you mean" not in run("knobs", "--framework", "nope").stderr


def test_near_names() -> None:
    assert near("Zero_Stag", ["zero_stage", "nnodes"]) == ["zero_stage"]
    assert near("nope", ["openrlhf", "roll"]) == []
    assert as_listed("VLLM", ["vllm"]) == "vllm"


def test_an_empty_log_is_none_that_could_be_read(tmp_path: Path) -> None:
    (tmp_path / "healthy.log").write_text("step 1 loss 0.4\n")
    (tmp_path / "empty.log").write_text("")
    told = run("diagnose", str(tmp_path / "healthy.log"), str(tmp_path / "empty.log"))
    assert told.stdout.startswith("NO MEMORY FAILURE FOUND (1 line read)")


def test_a_file_that_is_not_packed_as_its_name_says_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "train.log.gz"
    path.write_bytes(b"abc")
    assert "Note: train.log.gz: named as gzip, which it is not; read as text" in run("diagnose", str(path)).stdout


@pytest.mark.parametrize(
    "words",
    [("diagnose", "nope"), ("issue", str(STORY), "--form", "nope"), ("whatif", "nope", "--set", "a=1"),
     ("diagnose", str(STORY), "--launch", "nope"), ("draft", "nope"), ("redact", "nope")],
)  # fmt: skip
def test_a_missing_file_is_said_alike(words: tuple[str, ...]) -> None:
    assert "nope: no such file" in run(*words, COLUMNS="200").stderr


def test_a_page_of_nothing_says_that_nothing_was_read() -> None:
    page = run("diagnose", "nope", "-f", "html").stdout
    assert "None of the logs could be read" in page
    assert "Read: 0" not in page
