"""Reports on disks that are full, folders that cannot be written to, and names that no file can have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from started import COMMAND, ENVIRONMENT, OOM, run, said, with_logs

SMALL = 'ulimit -f 1; "$@"'  # no file longer than 512 or 1024 bytes: the write fails in the middle
DRAFT = f"# A crash\n\n```text\n{OOM}```\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return with_logs(tmp_path)


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@pytest.mark.parametrize("form", ["html"])
def test_a_report_that_finds_no_room_leaves_the_old_one_and_nothing_else(logs: Path, form: str) -> None:
    (logs / "report").write_text("old")
    before = files(logs)
    done = run("diagnose", "healthy.log", "-f", form, "-o", "report", line=SMALL, cwd=logs)
    assert done.returncode == 2
    assert said(done) == "oomdoctor: cannot write to report: File too large"
    assert (logs / "report").read_text() == "old"
    assert files(logs) == before


@pytest.mark.slow
def test_a_draft_that_finds_no_room_stays_as_it_is(logs: Path) -> None:
    (logs / "draft.md").write_text(DRAFT)
    before = files(logs)
    done = run("draft", "draft.md", line=SMALL, cwd=logs)
    assert (done.returncode, said(done)) == (2, "oomdoctor: draft.md: file too large")
    assert (logs / "draft.md").read_text() == DRAFT
    assert files(logs) == before


@pytest.mark.slow
def test_a_steps_summary_that_finds_no_room_stays_as_it_was(logs: Path) -> None:
    (logs / "summary").write_text("# Before\n")
    env = {**ENVIRONMENT, "GITHUB_STEP_SUMMARY": str(logs / "summary")}
    done = run("diagnose", "oom.log", "-f", "github", line=SMALL, env=env, cwd=logs)
    assert done.returncode == 1
    assert "File too large" in said(done)
    assert (logs / "summary").read_text() == "# Before\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("unshare"), reason="no disk of our own to fill")
def test_a_disk_that_is_really_full(logs: Path) -> None:
    """A file system of two pages, which is there for this one process only."""
    disk = logs / "disk"
    disk.mkdir()
    script = (
        f'mount -t tmpfs -o size=8k none {disk} || exit 77; printf old >{disk}/report; "$@"; code=$?; '
        f"ls -A {disk}; cat {disk}/report; exit $code"
    )
    done = subprocess.run(
        [
            "unshare",
            "-rm",
            "sh",
            "-c",
            script,
            "sh",
            *COMMAND,
            "diagnose",
            "healthy.log",
            "-f",
            "html",
            "-o",
            disk / "report",
        ],
        check=False,
        capture_output=True,
        env=ENVIRONMENT,
        cwd=logs,
        timeout=60,
    )
    if done.returncode in (1, 77) and b"No space" not in done.stderr:
        pytest.skip(f"nothing can be mounted here: {done.stderr.decode()}")
    assert (done.returncode, done.stdout) == (2, b"report\nold")
    assert said(done) == f"oomdoctor: cannot write to {disk}/report: No space left on device"


@pytest.mark.parametrize("target", ["/proc/report"])
def test_a_place_where_nobody_may_write_is_said(logs: Path, target: str) -> None:
    """Not even root."""
    done = run("diagnose", "healthy.log", "-o", target, cwd=logs)
    assert done.returncode == 2
    assert said(done).startswith(f"oomdoctor: cannot write to {target}: ")


def through_the_door(*arguments: str) -> tuple[int, str]:
    """In this process: nothing here depends on it."""
    from typer.testing import CliRunner

    from oomdoctor.cli import out
    from oomdoctor.cli.app import app

    done = CliRunner().invoke(app, list(arguments), input=OOM)
    if isinstance(done.exception, out.CannotWriteError):
        return 2, f"cannot write to {done.exception}"
    return done.exit_code, done.stderr


@pytest.mark.parametrize(
    "command", [("diagnose", "oom.log"), ("compare", "oom.log", "oom.log"), ("redact", "oom.log")], ids=" ".join
)
@pytest.mark.parametrize("name", ["n" * 300, "loop"], ids=["long", "loop"])
def test_names_that_no_file_can_have(
    logs: Path, command: tuple[str, ...], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(logs)
    (logs / "loop").symlink_to("loop")
    code, words = through_the_door(*command, "-o", name)
    assert code == 2
    assert words.startswith(f"cannot write to {name}: ")
    assert not list(logs.glob(".oomdoctor*"))


@pytest.mark.parametrize("command", ["diagnose", "redact", "compare", "reduce", "events", "draft", "issue"])
def test_an_input_whose_name_is_too_long(logs: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(logs)
    arguments = {"compare": ["n" * 300, "oom.log"], "issue": ["oom.log", "--form", "n" * 300]}
    code, words = through_the_door(command, *arguments.get(command, ["n" * 300]))
    assert code == 2
    assert "file name too long" in words.lower()


@pytest.mark.slow
def test_who_may_read_a_report_stays_as_it_is(logs: Path) -> None:
    report = logs / "report"
    report.write_text("old")
    report.chmod(0o600)
    assert run("diagnose", "healthy.log", "-o", "report", cwd=logs).returncode == 0
    assert report.read_text().startswith("NO MEMORY FAILURE")
    assert report.stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_a_name_as_long_as_may_be_is_written(logs: Path) -> None:
    assert run("diagnose", "healthy.log", "-o", "n" * 255, cwd=logs).returncode == 0
    assert (logs / ("n" * 255)).read_text().startswith("NO MEMORY FAILURE")
