"""The forms that leave the machine."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from commands import run_text

from oomdoctor.redaction import Redactor

TOKEN = "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567"
LOG = (
    "loading\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB "
    "of which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved "
    f"by PyTorch but unallocated. {TOKEN} someone@example.com\n"
)


def run(*arguments: str, cwd: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return run_text("diagnose", *arguments, cwd=cwd, **environ)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "logs").mkdir(parents=True)
    (tmp_path / "ws" / "logs" / "train.log").write_text(LOG)
    return tmp_path / "ws"


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown", "html", "github"])
def test_what_others_read_is_redacted(workspace: Path, form: str) -> None:
    shared = form in ("markdown", "html", "github")
    for option, redacted in (([], shared), (["--no-redact"] if shared else ["--redact"], not shared)):
        done = run("logs/train.log", "-v", "--format", form, *option, cwd=workspace)
        assert (done.returncode, done.stderr) == (1, "")
        quoted = form != "github"  # one screen holds no more of the line than its beginning
        assert (TOKEN in done.stdout) == (quoted and not redacted)
        assert ("someone@example.com" in done.stdout) == (quoted and not redacted)
        assert "3.50 GiB" in done.stdout


def test_every_form_has_the_fingerprint(workspace: Path) -> None:
    found = [
        set(re.findall(r"v1:[0-9a-f]{16}", run("logs/train.log", "--format", form, cwd=workspace).stdout))
        for form in ("text", "json", "jsonl", "markdown", "html", "github")
    ]
    assert len(found[0]) == 1
    assert found == [found[0]] * 6


def test_a_failing_redaction_prints_nothing(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(Redactor, "report", fails)
    for form in ("markdown", "html", "github"):
        target, summary = workspace / f"{form}.out", workspace / "summary"
        options = ("-f", form, "-o", str(target))
        done = run("logs/train.log", *options, cwd=workspace, GITHUB_STEP_SUMMARY=str(summary))
        assert (done.returncode, done.stdout) == (70, "")
        assert not target.exists()
        assert not summary.exists()


def test_in_a_step_of_a_workflow(workspace: Path) -> None:
    summary = workspace.parent / "summary.md"
    summary.write_text("before")
    places = {"GITHUB_WORKSPACE": str(workspace), "GITHUB_STEP_SUMMARY": str(summary)}
    done = run("train.log", "--format", "github", cwd=workspace / "logs", **places)
    assert done.returncode == 1
    assert done.stdout.startswith("::error file=logs/train.log,line=2,title=OUT OF MEMORY%3A ")
    added = summary.read_text()
    assert added.startswith("before\n\n## OUT OF MEMORY: ")
    assert TOKEN not in added
    run("train.log", "--format", "github", cwd=workspace / "logs", **places)
    assert summary.read_text().count("## OUT OF MEMORY") == 2


@pytest.mark.parametrize(
    ("where", "options"), [("elsewhere", []), ("ws", ["--absolute-paths"]), ("ws", []), ("ws/logs", [])]
)
def test_only_a_log_in_the_workspace_is_pointed_at(workspace: Path, where: str, options: list[str]) -> None:
    root = workspace.parent / where
    root.mkdir(exist_ok=True)
    done = run(
        str(workspace / "logs" / "train.log"), "-f", "github", *options, cwd=workspace, GITHUB_WORKSPACE=str(root)
    )
    pointed = {
        "elsewhere": "::error title=",
        "ws": "::error file=logs/train.log,line=2",
        "ws/logs": "::error file=train.log",
    }
    assert done.stdout.startswith(pointed[where])


def test_a_path_that_says_too_much_is_not_pointed_at(workspace: Path) -> None:
    (workspace / "someone@example.com").mkdir()
    (workspace / "someone@example.com" / "train.log").write_text(LOG)
    done = run("someone@example.com/train.log", "-f", "github", cwd=workspace, GITHUB_WORKSPACE=str(workspace))
    assert done.stdout.startswith("::error title=")
    assert "someone" not in done.stdout


def test_a_full_summary_stays_as_it_is(workspace: Path) -> None:
    summary = workspace.parent / "summary.md"
    summary.write_bytes(b"x" * 1_045_000)
    done = run("logs/train.log", "-f", "github", cwd=workspace, GITHUB_STEP_SUMMARY=str(summary))
    assert done.returncode == 1
    assert done.stdout.startswith("::error ")
    assert "the step's summary is full; the report was not added" in done.stderr
    assert summary.stat().st_size == 1_045_000


def test_a_summary_that_cannot_be_written_costs_only_the_summary(workspace: Path) -> None:
    done = run("logs/train.log", "-f", "github", cwd=workspace, GITHUB_STEP_SUMMARY=str(workspace))
    assert done.returncode == 1
    assert done.stdout.startswith("::error ")
    assert "the step's summary" in done.stderr


def test_a_file_name_is_no_order(workspace: Path) -> None:
    done = run("##[add-mask]x", "::add-mask::y", "-f", "github", cwd=workspace)
    assert done.returncode == 2
    lines = (done.stdout + done.stderr).splitlines()
    assert [line for line in lines if "##[" in line or line.lstrip().startswith("::add")] == []
