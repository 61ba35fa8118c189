"""One run of a program in a cell: a memory cgroup, namespaces for its mounts and processes, a /dev/shm of its own.

It sees the cgroup as its machine's, so that Ray's memory monitor and others that read the limit there find it, and
nothing outlives it. Needs root on Linux; cgroup v1 and v2.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from lab.program import Program, size

CGROUPS: Final = Path("/sys/fs/cgroup")
KERNEL: Final = Path("/dev/kmsg")
# Lines of a kill for a cgroup, from the kernel's own words for it to the end of its report
_BEGINS: Final = re.compile(r"invoked oom-killer")
_ENDS: Final = re.compile(r"Killed process \d")
_KILL: Final = re.compile(r"invoked oom-killer|oom-kill:|Out of memory:|Memory cgroup out of memory|memory: usage|"
                          r"Tasks state|\[\s*pid\s*\]|\[\s*\d+\]\s+\d+|oom_reaper|swap: usage|kmem: usage")  # fmt: skip
_PROGRESS: Final = re.compile(r"^(?:[^\n]*[ \t])?(?:step|epoch|batch|job|round)\s+\d+\b", re.MULTILINE)

# The first process of the cell
ENTRY: Final = """\
set -e
mount --bind {group} {seen}
mount -t tmpfs -o size={shm} tmpfs /dev/shm
{spill}
exec bash job.sh
"""
# What the user started; the shell says what it runs and which signal ended it
JOB: Final = """\
set -x
{lines}
{{ status=$?; set +x; }} 2>/dev/null
echo "exit code: $status"
exit $status
"""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    status: int | None  # None: ended for its time
    seconds: float
    peak: int | None  # bytes of the cgroup
    kills: int  # by the kernel, in the cgroup
    progress: int  # lines that count its steps
    log: str  # the folder of its logs

    @property
    def ended(self) -> bool:
        return self.status == 0


class Group:
    """A memory cgroup."""

    def __init__(self, name: str, limit: int) -> None:
        self.old = (CGROUPS / "memory").is_dir()
        self.seen = CGROUPS / "memory" if self.old else CGROUPS
        self.path = self.seen / name
        self.path.mkdir()
        self._write("memory.limit_in_bytes" if self.old else "memory.max", limit)
        # Where there is swap: a limit on memory alone would only make it slow
        self._write("memory.memsw.limit_in_bytes" if self.old else "memory.swap.max", limit if self.old else 0)

    def _write(self, name: str, value: int) -> None:
        with suppress(FileNotFoundError, PermissionError):
            (self.path / name).write_text(str(value))

    def _read(self, name: str) -> str:
        with suppress(OSError):
            return (self.path / name).read_text()
        return ""

    def peak(self) -> int | None:
        text = self._read("memory.max_usage_in_bytes" if self.old else "memory.peak").strip()
        return int(text) if text else None

    def kills(self) -> int:
        text = self._read("memory.oom_control" if self.old else "memory.events")
        match = re.search(r"^oom_kill (\d+)", text, re.MULTILINE)
        return int(match[1]) if match else 0

    def close(self) -> None:
        """Its processes are gone with their namespace, but the kernel takes a moment over them."""
        for _ in range(100):
            with suppress(OSError):
                self.path.rmdir()
                return
            time.sleep(0.1)


@contextmanager
def group(name: str, limit: int) -> Iterator[Group]:
    it = Group(name, limit)
    try:
        yield it
    finally:
        it.close()


def prepare(program: Program, scratch: Path) -> None:
    """Puts the program where it will run and lets it write what it reads."""
    (scratch / program.file.name).write_bytes(program.file.read_bytes())
    if program.prepare:
        subprocess.run(
            ["bash", "-c", program.prepare], cwd=scratch, env=_environment(program, scratch), check=True, timeout=300,
            stdout=subprocess.DEVNULL,
        )  # fmt: skip


def run(program: Program, scratch: Path, logs: Path) -> Run:
    logs.mkdir(parents=True, exist_ok=True)
    limits = program.limits
    name = f"oomdoctor-lab-{os.getpid()}-{logs.name}"
    with group(name, size(limits.memory)) as it, _kernel(program, name, logs):
        (scratch / "job.sh").write_text(JOB.format(lines="\n".join(_lines(program))))
        (scratch / "spill").mkdir(exist_ok=True)
        spill = f"mount -t tmpfs -o size={size(limits.spill)} tmpfs {scratch}/spill" if limits.spill else ""
        entry = ENTRY.format(group=it.path, seen=it.seen, shm=size(limits.shm), spill=spill)
        (scratch / "entry.sh").write_text(entry)
        words = f"echo $$ > {it.path}/cgroup.procs && exec unshare -m -p -f --mount-proc --kill-child bash entry.sh"
        start = time.monotonic()
        with (logs / "job.log").open("wb") as out:
            child = subprocess.Popen(
                ["bash", "-c", words], cwd=scratch, env=_environment(program, scratch),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip
            status = _status(child, limits.seconds)
        seconds = time.monotonic() - start
        return Run(
            status=status,
            seconds=round(seconds, 1),
            peak=it.peak(),
            kills=it.kills(),
            progress=len(_PROGRESS.findall((logs / "job.log").read_text("utf-8", "replace").replace("\r", "\n"))),
            log=str(logs),
        )


def _lines(program: Program) -> Iterator[str]:
    for name, value in program.env.items():
        yield f"export {name}={value}"
    if program.limits.address_space is not None:
        yield f"ulimit -v {size(program.limits.address_space) // 1024}"
    yield program.line()


def _status(child: subprocess.Popen[bytes], seconds: int) -> int | None:
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        child.kill()  # and, by --kill-child, everything within
        child.wait()
        return None


def _environment(program: Program, scratch: Path) -> dict[str, str]:
    """Nothing is sent, nothing is fetched, and what is cached lies in the scratch folder."""
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
        "LANG": "C.UTF-8",
        "HOME": str(scratch),
        "HF_HUB_OFFLINE": "1",
        "RAY_TMPDIR": str(scratch),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "OMP_NUM_THREADS": "2",
        **({"CUDA_VISIBLE_DEVICES": ""} if not program.cuda else {}),
    }


@contextmanager
def _kernel(program: Program, group_name: str, logs: Path) -> Iterator[None]:
    """Writes what the kernel says meanwhile of kills in the group, as dmesg prints it, beside the log of those who look
    there."""
    if not program.kernel:
        yield
        return
    try:
        messages = os.open(KERNEL, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        yield
        return
    os.lseek(messages, 0, os.SEEK_END)
    try:
        yield
        lines = list(of_group(group_name, _messages(messages)))
    finally:
        os.close(messages)
    if lines:
        (logs / "dmesg.log").write_text("".join(f"{line}\n" for line in lines))


def of_group(name: str, lines: Iterable[str]) -> Iterator[str]:
    """The reports that name the group: another lab may run beside this one."""
    report: list[str] = []
    for line in lines:
        if _BEGINS.search(line):
            report = []
        report.append(line)
        if _ENDS.search(line):
            yield from report if any(name in each for each in report) else ()
            report = []


def _messages(messages: int) -> Iterator[str]:
    while True:
        try:
            record = os.read(messages, 8192).decode("utf-8", "replace")
        except BlockingIOError:
            return
        except BrokenPipeError:  # overwritten meanwhile
            continue
        head, _, text = record.partition(";")
        text = text.partition("\n")[0]
        if _KILL.search(text):
            yield f"[{int(head.split(',')[2]) / 1e6:12.6f}] {text}"
