"""Asked to end at any moment: at once, without a word, nothing half written and no process left behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest
from started import COMMAND, ENVIRONMENT, HEALTHY, OOM, built_shim, in_session, run, until, with_logs

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")

# Two logs whose every line fails keep the processes that read them busy.
TWO_AT_ONCE = (
    "from oomdoctor.reading import parallel\nparallel.FULL, parallel.cores = 1, lambda: 2\n"
    "from oomdoctor.cli import main\nmain()"
)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    return with_logs(tmp_path)


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_shim(tmp_path_factory.mktemp("shim"))


@contextmanager
def started(*command: str | Path, **others: object) -> Iterator[subprocess.Popen[bytes]]:
    """A command that has the signals of a foreground job, whoever runs the tests, in a session of its own."""
    awake = (
        "import os, signal, sys\nfor s in (signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_DFL)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_IGN if os.environ.get('NOHUP') else signal.SIG_DFL)\n"
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    given = {"stdin": subprocess.DEVNULL, "env": ENVIRONMENT} | others
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", awake, *map(str, command)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **given,  # type: ignore[call-overload]
    )
    try:
        yield process
    finally:
        for left in in_session(process.pid):
            os.kill(left, signal.SIGKILL)
        process.communicate(timeout=60)


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    for name in ("a.log", "b.log"):
        (tmp_path / name).write_text(OOM * 10_000)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "to_all", "code"),
    [
        (signal.SIGTERM, False, -signal.SIGTERM),
        (signal.SIGHUP, True, -signal.SIGHUP),
        (signal.SIGINT, False, 130),
        (signal.SIGINT, True, 130),
        (signal.SIGKILL, False, -signal.SIGKILL),
    ],
    ids=["SIGTERM", "the terminal closes", "SIGINT", "Ctrl-C", "SIGKILL"],
)
def test_while_several_processes_scan(dense: Path, number: int, to_all: bool, code: int) -> None:
    with started(sys.executable, "-c", TWO_AT_ONCE, "diagnose", "a.log", "b.log", cwd=dense) as process:
        assert until(lambda: len(in_session(process.pid)) == 3)
        (os.killpg if to_all else os.kill)(process.pid, number)
        assert process.wait(30) == code
        assert until(lambda: not in_session(process.pid)), "a process was left behind"
        assert process.communicate(timeout=30) == (b"", b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_while_the_report_is_written(logs: Path, shim: Path, number: int, code: int) -> None:
    """The signal comes when half of it is on the disk."""
    (logs / "report").write_text("old")
    before = sorted(logs.iterdir())
    env = {
        **ENVIRONMENT,
        "LD_PRELOAD": str(shim),
        "SIGNALLED_WHILE_WRITING": ".part",
        "SIGNAL_TO_SEND": str(int(number)),
    }
    with started(*COMMAND, "diagnose", "healthy.log", "-o", "report", cwd=logs, env=env) as process:
        assert process.communicate(timeout=60) == (b"", b"")
    assert process.returncode == code
    assert sorted(logs.iterdir()) == before
    assert (logs / "report").read_text() == "old"


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_at_any_moment_of_the_start(logs: Path, number: int, code: int) -> None:
    """Before the first line of ours runs it is Python's own affair; afterwards nothing is said and nothing is left."""
    for moment in range(4):
        with started(*COMMAND, "diagnose", "oom.log", "-f", "json", cwd=logs) as process:
            time.sleep(0.09 * moment)
            process.send_signal(number)
            printed, told = process.communicate(timeout=60)
            assert process.returncode in (code, -number, 1)
            assert b"a bug in oomdoctor" not in told
            whole = printed.startswith(b"{") and printed.endswith(b"}\n")
            assert process.returncode != 1 or whole or b"oomdoctor" not in told  # Python's own start was interrupted
            assert not in_session(process.pid)


def test_whoever_is_to_outlive_the_terminal_does(logs: Path) -> None:
    """As under nohup."""
    with started(*COMMAND, "diagnose", stdin=subprocess.PIPE, env={**ENVIRONMENT, "NOHUP": "1"}) as process:
        pipe = process.stdin
        assert pipe is not None
        pipe.write(HEALTHY.encode())
        pipe.flush()
        assert until(lambda: _unread(pipe) == 0), "it never began to read"
        process.send_signal(signal.SIGHUP)
        printed, _ = process.communicate(HEALTHY.encode(), timeout=60)
    assert process.returncode == 0
    assert printed.startswith(b"NO MEMORY FAILURE")


def _unread(pipe: IO[bytes]) -> int:
    """How many bytes the other end has not taken yet."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


@pytest.mark.slow
def test_a_draft_is_not_lost_half_written(logs: Path, shim: Path) -> None:
    text = f"# A crash\n\n```text\n{OOM}```\n"
    (logs / "draft.md").write_text(text)
    env = {
        **ENVIRONMENT,
        "LD_PRELOAD": str(shim),
        "SIGNALLED_WHILE_WRITING": ".part",
        "SIGNAL_TO_SEND": str(int(signal.SIGTERM)),
    }
    done = run("draft", "draft.md", cwd=logs, env=env)
    assert done.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)  # as the shell has it
    assert (logs / "draft.md").read_text() == text
