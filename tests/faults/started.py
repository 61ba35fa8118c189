"""The command as real processes, in surroundings that fail them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

OOM = (
    "step 3\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of "
    "23.60 GiB of which 1.25 GiB is free. Including non-PyTorch memory, this process has 22.30 GiB memory in use. Of "
    "the allocated memory 21.00 GiB is allocated by PyTorch, and 900.00 MiB is reserved by PyTorch but unallocated.\n"
)
HEALTHY = "step 1 loss 0.31\nstep 2 loss 0.29\n"
HEADLINE = b"OUT OF MEMORY: "

COMMAND = (sys.executable, "-m", "oomdoctor")
_LOOKS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE")
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in _LOOKS} | {"TERM": "xterm"}

Done = subprocess.CompletedProcess[bytes]


def run(*arguments: str | Path, line: str = '"$@"', env: Mapping[str, str] | None = None, **others: Any) -> Done:
    """The command in a shell's line, which may take things away from it: `ulimit -n 16; "$@" <&-`."""
    return subprocess.run(
        ["/bin/sh", "-c", line, "sh", *COMMAND, *map(str, arguments)],
        check=False,
        capture_output=True,
        env=ENVIRONMENT if env is None else env,
        timeout=120,
        **{"stdin": subprocess.DEVNULL, **others},
    )


def said(done: Done) -> str:
    """The one line on standard error."""
    (line,) = done.stderr.decode().splitlines()
    return line


def in_session(session: int) -> set[int]:
    """The processes of a session that still run."""
    found = set()
    for process in Path("/proc").iterdir():
        try:
            state, _, _, its_session = (process / "stat").read_text().rpartition(") ")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(its_session) == session and state != "Z":
            found.add(int(process.name))
    return found


def until(holds: Any, patience: float = 30.0) -> bool:
    """Wait for it, not for long."""
    end = time.monotonic() + patience
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def with_logs(folder: Path) -> Path:
    """The folder, with a log that fails and one that does not."""
    (folder / "oom.log").write_text(OOM)
    (folder / "healthy.log").write_text(HEALTHY)
    return folder


# What the system's functions do to us when a disk or a network fails, where a test cannot have that fail for real.
_SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int ends_with(int fd, const char *variable) {
    const char *suffix = getenv(variable);
    char link[64], path[4096];
    if (!suffix) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    size_t wanted = strlen(suffix);
    return (size_t)length >= wanted && !strcmp(path + length - wanted, suffix);
}

ssize_t read(int fd, void *buffer, size_t count) {
    static ssize_t (*real)(int, void *, size_t);
    static long given;
    if (!real) real = dlsym(RTLD_NEXT, "read");
    if (!ends_with(fd, "READS_FAIL_OF")) return real(fd, buffer, count);
    long after = atol(getenv("READS_FAIL_AFTER"));
    if (given >= after) { errno = EIO; return -1; }
    if ((long)count > after - given) count = after - given;
    ssize_t got = real(fd, buffer, count);
    if (got > 0) given += got;
    return got;
}

ssize_t write(int fd, const void *buffer, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = dlsym(RTLD_NEXT, "write");
    if (count < 2 || !ends_with(fd, "SIGNALLED_WHILE_WRITING")) return real(fd, buffer, count);
    ssize_t put = real(fd, buffer, count / 2);
    kill(getpid(), atoi(getenv("SIGNAL_TO_SEND")));
    return put;
}
"""


def built_shim(folder: Path) -> Path:
    """A library that fails what the environment says."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None or sys.platform != "linux":
        pytest.skip("no C compiler here, or no Linux")
    (folder / "shim.c").write_text(_SHIM)
    built = subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"],
        check=False,
        capture_output=True,
    )
    if built.returncode:
        pytest.skip("the C compiler here makes no libraries")
    return folder / "shim.so"
