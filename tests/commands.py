"""The command `oomdoctor` in this process: what it prints and how it ends, without the start of another interpreter.

What only a process of its own has (signals, terminals, pipes that close, the encodings of its streams) is tested with
one, which `run_process` starts.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import copy_context
from io import BytesIO, TextIOWrapper
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from oomdoctor import cli

COMMAND = [sys.executable, "-c", "from oomdoctor.cli import main; main()"]
ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS") and not name.startswith("GITHUB_")
} | {"PYTHONUTF8": "0", "LC_ALL": "C.UTF-8", "TERM": "xterm"}
PIPE = 65536  # bytes that a pipe takes before somebody reads it

SIGNALS = [getattr(signal, name) for name in (*cli.ENDING, "SIGPIPE") if hasattr(signal, name)]


class Terminal(TextIOWrapper):
    """What a terminal would get, without one."""

    def isatty(self) -> bool:
        return True


def run(
    *arguments: str, feed: str | bytes = b"", cwd: Path | None = None, out: type = TextIOWrapper, **environ: str
) -> CompletedProcess[bytes]:
    """The command with these arguments, with what a pipe feeds it; its output goes to a pipe or a terminal."""
    done = CompletedProcess([*arguments], -1, b"", b"")
    with _given(feed.encode() if isinstance(feed, str) else feed) as given, pytest.MonkeyPatch.context() as patch:
        encoding = environ.get("PYTHONIOENCODING", "utf-8")
        printed, said = out(BytesIO(), encoding), TextIOWrapper(BytesIO(), encoding, "backslashreplace")
        for name, stream in (("stdin", given), ("stdout", printed), ("stderr", said)):
            patch.setattr(sys, name, stream)
        patch.setattr(sys, "argv", ["oomdoctor", *arguments])
        for name in os.environ.keys() - ENVIRONMENT.keys():
            patch.delenv(name)
        for name, value in (ENVIRONMENT | environ).items():
            patch.setenv(name, value)
        if cwd is not None:
            patch.chdir(cwd)
        with _as_before():
            done.returncode = copy_context().run(_ended)  # the language that it speaks is not ours
        done.stdout, done.stderr = _written(printed), _written(said)
    return done


def run_text(*arguments: str, cwd: Path | None = None, **environ: str) -> CompletedProcess[str]:
    """The same, its words decoded."""
    done = run(*arguments, feed=b"", cwd=cwd, out=TextIOWrapper, **environ)
    return CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def run_process(*arguments: str, feed: str | bytes = b"", **environ: str) -> CompletedProcess[bytes]:
    """The command as a process of its own."""
    return subprocess.run(
        [*COMMAND, *arguments],
        check=False,
        input=feed.encode() if isinstance(feed, str) else feed,
        capture_output=True,
        env=ENVIRONMENT | environ,
        timeout=120,
    )


def _ended() -> int:
    try:
        cli.main()
    except SystemExit as end:
        assert isinstance(end.code, int)
        return end.code


def _written(stream: TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue()


@contextmanager
def _given(feed: bytes) -> Iterator[TextIOWrapper]:
    """A standard input with a descriptor, which is what `watch` reads from."""
    assert len(feed) <= PIPE
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as end:
        end.write(feed)
    with os.fdopen(reading, encoding="utf-8") as stream:
        yield stream


@contextmanager
def _as_before() -> Iterator[None]:
    """What the command sets for its whole process is put back."""
    handlers, thresholds = {number: signal.getsignal(number) for number in SIGNALS}, gc.get_threshold()
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        gc.set_threshold(*thresholds)
        atexit.unregister(gc.freeze)
