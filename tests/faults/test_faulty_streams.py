"""Standard input, output and error that are closed, full, or no place to read from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from started import HEADLINE, OOM, run, said, with_logs

NO_SPACE = "oomdoctor: cannot write to standard output: No space left on device"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return with_logs(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("watch", "-"),
        ("diagnose", "--help"),
    ],
    ids=" ".join,
)
def test_a_full_disk_under_standard_output_is_2_and_one_sentence(logs: Path, arguments: tuple[str, ...]) -> None:
    done = run(*arguments, line='"$@" >/dev/full <oom.log', cwd=logs)
    assert (done.returncode, said(done)) == (2, NO_SPACE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "redirection", "code"),
    [
        (("diagnose", "healthy.log", "gone.log"), "2>/dev/full", 2),
        (("diagnose", "--nope"), "2>/dev/full", 2),
        (("diagnose", "healthy.log", "gone.log"), "2>&-", 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_no_word_of_the_exit_code_is_lost_with_standard_error(
    logs: Path, arguments: tuple[str, ...], redirection: str, code: int
) -> None:
    done = run(*arguments, line=f'"$@" {redirection}', cwd=logs)
    assert done.returncode == code
    assert done.stderr == b""


@pytest.mark.parametrize("arguments", [("watch",), ("redact", "-")], ids=" ".join)
def test_a_closed_standard_input_is_2_and_a_sentence(arguments: tuple[str, ...]) -> None:
    done = run(*arguments, line='"$@" <&-')
    assert done.returncode == 2
    last = done.stderr.decode().splitlines()[-1]
    assert "standard input is closed" in last or "name a log, or pipe one in" in last


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code"),
    [(("watch", "-"), 1), (("--help",), 0)],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_closed_standard_output_changes_no_exit_code(logs: Path, arguments: tuple[str, ...], code: int) -> None:
    done = run(*arguments, line='"$@" >&- <oom.log', cwd=logs)
    assert (done.returncode, done.stderr) == (code, b"")


def test_a_file_is_written_although_both_outputs_are_closed(logs: Path) -> None:
    done = run("diagnose", "oom.log", "-o", "report", line='"$@" >&- 2>&-', cwd=logs)
    assert done.returncode == 1
    assert (logs / "report").read_bytes().startswith(HEADLINE)


def test_an_input_that_does_not_wait_is_waited_for(logs: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(OOM.encode())
    try:
        assert run("diagnose", stdin=reading).returncode == 1
    finally:
        os.close(reading)
