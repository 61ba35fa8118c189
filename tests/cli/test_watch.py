"""`oomdoctor watch`, as people run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import pytest
from commands import run, run_process

from oomdoctor.cli import watch as door

FULL = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of the "
    "allocated memory 75.50 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
)
KILLED = (
    "[ 4211.330142] Out of memory: Killed process 4242 (python) total-vm:91234567kB, anon-rss:62914560kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:120000kB oom_score_adj:0\n"
)
COMMAND = [sys.executable, "-m", "oomdoctor", "watch"]
WITHOUT_LOCALE = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
SOON_S = 120.0  # nothing here takes long; a machine that is busy with other things may

unix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and pipes as on Unix")


def piped(text: bytes, *options: str) -> subprocess.CompletedProcess[bytes]:
    """A pipe that is watched until it ends."""
    return run("watch", *options, feed=text)


@contextmanager
def watching(*options: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=WITHOUT_LOCALE,
        preexec_fn=_heeding_ctrl_c if os.name == "posix" else None,  # noqa: PLW1509
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def passing_through() -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes], IO[bytes]]]:
    """A pipe that is watched, once its first line has come through: with what is written to it and what comes out."""
    with watching("--tee") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"step 1\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"step 1\n"
        yield process, process.stdin, process.stdout


def _heeding_ctrl_c() -> None:
    """Whoever runs the tests in the background may have us ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize(
    ("log", "code"), [(b"step 1\nstep 2\n", 0), (FULL.encode(), 1), (b"sh: line 1:  4242 Killed   ./train\n", 3)]
)
def test_the_exit_code_is_that_of_the_last_verdict(log: bytes, code: int) -> None:
    assert piped(log).returncode == code


def test_a_log_without_a_failure_is_one_line_of_news() -> None:
    done = piped(b"step 1\n")
    assert (done.stdout, done.stderr) == (b"", b"oomdoctor: <stdin>: no failure so far\n")


def steps(used: range) -> bytes:
    told = "".join(f"step {n}: memory used: {size}.00 GB\n" for n, size in enumerate(used, start=1))
    return f"MemTotal:       263782400 kB\n{told}".encode()


def test_what_climbs_is_said_of_a_pipe_that_ends_at_once() -> None:
    done = piped(steps(range(80, 220, 20)))
    climbs, rest = done.stderr.splitlines()
    assert climbs.startswith(b"oomdoctor: <stdin>: memory climbs: memory used grew from 80.00 GiB (line 2) to 200.00")
    assert (done.returncode, rest) == (0, b"oomdoctor: <stdin>: no failure so far")


def test_beside_a_diagnosis_nothing_is_said_of_what_climbed() -> None:
    done = piped(steps(range(80, 220, 20)) + KILLED.encode())
    assert (done.returncode, done.stderr) == (1, b"")


def test_what_stays_is_not_said_to_climb() -> None:
    done = piped(steps(range(80, 81)) * 7)
    assert done.stderr == b"oomdoctor: <stdin>: no failure so far\n"


def test_tee_passes_every_byte_through_and_the_diagnosis_beside_it() -> None:
    log = b"step 1\r\n\xff\x00\x1b[31m" + FULL.encode() + b"no line break at the end"
    done = run_process("watch", "--tee", feed=log)
    assert done.stdout == log
    assert b"GPU" in done.stderr
    assert done.returncode == 1


def test_tee_passes_through_what_is_no_log() -> None:
    log = bytes(range(1, 32)) * 200
    done = run_process("watch", "--tee", feed=log)
    assert done.stdout == log
    assert done.returncode == 2
    assert b"no log but" in done.stderr


def test_json_lines() -> None:
    done = piped(FULL.encode(), "--format", "jsonl")
    (incident,) = [json.loads(line) for line in done.stdout.splitlines()]
    assert incident["verdict"] == "oom"


def test_a_log_in_utf_16() -> None:
    assert piped(FULL.encode("utf-16")).returncode == 1


def test_the_last_diagnosis_in_a_file(tmp_path: Path) -> None:
    report = tmp_path / "crash.md"
    done = run_process("watch", "--tee", "--format", "markdown", "-o", str(report), feed=FULL)
    assert done.stdout == FULL.encode()
    assert report.read_text().startswith("#")


@unix_only
@pytest.mark.slow
def test_a_file_is_diagnosed_while_it_is_written_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    log = tmp_path / "fit.log"
    log.write_text("step 1\n")
    with watching(str(log), "--format", "jsonl") as process:
        with log.open("a") as file:
            file.write(FULL)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["verdict"] == "oom"
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=SOON_S)
        assert (process.returncode, rest, said) == (1, b"", b"")


@unix_only
def test_what_a_job_says_after_ctrl_c_goes_through_its_pipe() -> None:
    with passing_through() as (process, given, passed):
        process.send_signal(signal.SIGINT)
        given.write(b"saved\n")
        given.flush()
        assert passed.readline() == b"saved\n"
        given.write(FULL.encode())
        rest, said = process.communicate(timeout=SOON_S)
        assert (process.returncode, rest) == (1, FULL.encode())
        assert b"OUT OF MEMORY: " in said


@unix_only
@pytest.mark.slow
def test_another_ctrl_c_ends_the_watching_of_a_pipe() -> None:
    with passing_through() as (process, _, _):
        for _ in range(round(SOON_S)):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                assert process.wait(1) == 0
                return
        pytest.fail("it goes on")


@unix_only
@pytest.mark.slow
def test_a_file_that_is_rotated(tmp_path: Path) -> None:
    log = tmp_path / "fit.log"
    log.write_text("step 1\n" * 3 + FULL)
    with watching(str(log), "--format", "jsonl") as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["verdict"] == "oom"
        log.rename(tmp_path / "fit.log.1")
        log.write_text(KILLED)
        second = json.loads(process.stdout.readline())
        assert {one["file"] for one in second["diagnoses"][0]["evidence"]} == {"fit.log@2"}


@unix_only
def test_a_reader_that_goes_away_ends_it_silently() -> None:
    with passing_through() as (process, given, passed):
        passed.close()
        given.write(b"step 2\n")
        given.flush()
        assert process.wait(SOON_S) == -signal.SIGPIPE
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_its_help_names_no_form_that_it_has_not() -> None:
    told = " ".join(piped(b"", "--help").stdout.decode().split())
    assert "or keep them. Default: only for markdown." in told
    assert not any(form in told for form in ("html", "github"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["/nowhere/at/all/fit.log"], "there is no folder"),
        (["."], "is a folder"),
        (["-", "--tee", "-o", "-"], "with --tee, standard output carries the log"),
        (["-", "--format", "html"], "is not one of"),
    ],
)
def test_wrong_usage(arguments: list[str], says: str) -> None:
    done = piped(b"", *arguments)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.decode().split())


def test_an_error_of_our_own_does_not_stop_the_log(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    read, write = os.pipe()
    os.write(write, b"step 1\n")

    def broken(*_: object) -> None:
        os.write(write, b"step 2\n")
        os.close(write)
        raise ZeroDivisionError

    monkeypatch.setattr("oomdoctor.live.Live.take", broken)
    with os.fdopen(read) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with pytest.raises(ZeroDivisionError):
            door.watch("-", tee=True)
    assert capfdbinary.readouterr().out == b"step 1\nstep 2\n"
