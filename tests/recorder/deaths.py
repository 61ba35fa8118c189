"""Jobs that really die, with and without `oomdoctor run`: what they print and how they end must be the same."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import COMMAND, ENVIRONMENT
from msgspec import Struct

import oomdoctor
from lab.cell import group
from oomdoctor.units import MIB

PYTHON = sys.executable
# Takes so many MiB every so many seconds; ends by itself where nobody ends it.
EAT = """
import sys, time
kept = []
for number in range(int(sys.argv[3]) if len(sys.argv) > 3 else 400):
    kept.append(bytearray(int(float(sys.argv[1]) * 1024 * 1024)))
    print("step", number, flush=True)
    time.sleep(float(sys.argv[2]))
"""
# What differs from one run to the next
_NUMBERS = re.compile(rb"\d+")


class Done(Struct, frozen=True):
    status: int  # as subprocess counts it
    out: bytes
    err: bytes
    record: Path | None = None

    def report(self) -> dict[str, Any]:
        """What `diagnose` says of its output and its record."""
        assert self.record is not None
        log = self.record.with_suffix(".log")
        log.write_bytes(self.out + self.err.split(b"OUT OF MEMORY")[0])
        paths = [log, self.record] if log.read_bytes().strip() else [self.record]
        return oomdoctor.diagnose(*paths).as_json()


@contextmanager
def limited(name: str, mib: int | None) -> Iterator[list[str]]:
    """What to put in front of a command so that it runs in a memory cgroup; without one, the test is left out."""
    if mib is None:
        yield []
        return
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("memory cgroups need root on Linux")
    try:
        cgroup = group(f"oomdoctor-test-{os.getpid()}-{name}", mib * MIB)
        with cgroup as it:
            yield ["bash", "-c", f'echo $$ > {it.path}/cgroup.procs && exec "$@"', "cgroup"]
    except OSError as error:
        pytest.skip(f"no memory cgroup can be made here: {error}")


def recorded(words: Sequence[str], record: Path | None = None, every: str = "0.5s") -> list[str]:
    """The command line that runs this job under the recorder."""
    options = ["--every", every, *(["--record", str(record)] if record else [])]
    return [*COMMAND, "run", *options, "--", *words]


def run(words: Sequence[str], *, feed: bytes = b"", mib: int | None = None, name: str = "job", **named: Any) -> Done:
    with limited(name, mib) as before:
        done = subprocess.run(
            [*before, *words], input=feed, capture_output=True, env=ENVIRONMENT, timeout=100, check=False, **named
        )
    return Done(done.returncode, done.stdout, done.stderr)


def both(
    words: Sequence[str], folder: Path, *, feed: bytes = b"", mib: int | None = None, every: str = "0.5s"
) -> tuple[Done, Done]:
    """The job alone, and under the recorder."""
    record = folder / "flight.jsonl"
    alone = run(words, feed=feed, mib=mib, name="alone")
    beside = run(recorded(words, record, every), feed=feed, mib=mib, name="recorded")
    return alone, Done(beside.status, beside.out, beside.err, record)


def same_words(one: bytes, other: bytes) -> bool:
    """Whether both print the same but for process numbers."""
    return _NUMBERS.sub(b"#", one) == _NUMBERS.sub(b"#", other)
