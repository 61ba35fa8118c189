"""The flight record: bounded, whole at every moment, read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import oomdoctor
from oomdoctor.recorder import cgroup, machine, proc, processes, versions
from oomdoctor.recorder.cgroup import Level, Mount
from oomdoctor.recorder.flight import Flight
from oomdoctor.recorder.kernel_log import KernelLog, Kill
from oomdoctor.recorder.machine import Memory
from oomdoctor.recorder.nvidia_smi import NvidiaSmi
from oomdoctor.recorder.outcome import Outcome
from oomdoctor.recorder.processes import Size, Tree
from oomdoctor.recorder.record import MOST, RECENT, Record
from oomdoctor.recorder.schema import VERSION, End, Named, Sample, Start
from oomdoctor.units import GIB

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux' /proc")


def start() -> Start:
    level = Level("/job", limit=8 * GIB, usage=GIB, kills=0, hits=0)
    memory = Memory(total=64 * GIB, available=60 * GIB, kills=0)
    return Start(VERSION, "2026-11-20T08:14:02Z", "node7", 2.0, "python train.py", 41, memory, levels=(level,))


def sample(second: float, used: int) -> Sample:
    sizes = tuple(Size(41 + n, used // (n + 1), used // (n + 2)) for n in range(12))
    return Sample(s=second, used=used, limit=8 * GIB, kills=0, available=50 * GIB, processes=sizes, count=12)


def fresh(path: Path) -> Record:
    """With what stands before the samples."""
    record = Record(path)
    record.add(start())
    record.add(Named(41, "python train.py"))
    return record


def entries(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_a_long_record_keeps_its_start_its_course_and_its_last_samples(tmp_path: Path) -> None:
    path = tmp_path / "flight.jsonl"
    record = fresh(path)
    for number in range(6_000):
        record.add(sample(2.0 * number, GIB + number * 100_000))
        if number % 1500 == 0:
            assert path.read_bytes() == record.whole()
    record.add(End(s=12_000, time="2026-11-20T19:20:42Z", signal=9))
    assert path.read_bytes() == record.whole()
    assert path.stat().st_size <= MOST
    kept = entries(path)
    assert [kept[0]["flight"], kept[1]["flight"], kept[-1]["flight"]] == ["start", "process", "end"]
    seconds = [float(str(entry["s"])) for entry in kept if entry["flight"] == "sample"]
    assert seconds == sorted(seconds)
    assert seconds[0] < 1000
    assert seconds[-RECENT:] == [2.0 * number for number in range(6_000 - RECENT, 6_000)]
    assert [each.name for each in tmp_path.iterdir()] == ["flight.jsonl"]


def test_names_of_processes_that_no_sample_shows_any_more_are_left_out(tmp_path: Path) -> None:
    record = Record(tmp_path / "flight.jsonl")
    record.add(start())
    for number in range(3000):
        record.add(Named(1000 + number, "python -m a_process_of_a_moment"))
        record.add(Sample(s=float(number), processes=(Size(1000 + number, GIB, GIB),), count=1))
    assert len(record.whole()) <= MOST
    kept = entries(tmp_path / "flight.jsonl")
    named = {entry["pid"] for entry in kept if entry["flight"] == "process"}
    shown = {size[0] for entry in kept if entry["flight"] == "sample" for size in entry["processes"]}  # type: ignore[attr-defined]
    assert named == shown


@linux
def test_a_full_disk_ends_the_file_and_not_the_job() -> None:
    record = Record(Path("/dev/full"))
    record.add(start())
    assert b'"flight":"start"' in record.whole()


def test_an_error_of_the_recorder_is_kept_from_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    flight = Flight(tmp_path / "flight.jsonl", 0.1, ["true"])
    flight.start(os.getpid())
    monkeypatch.setattr(machine, "memory", fail)
    assert flight.tick() > time.monotonic() + 1000
    assert isinstance(flight.why_not, MemoryError)
    assert flight.tick() > time.monotonic() + 1000
    assert flight.end(Outcome(status=0)).startswith(b'{"flight":"start"')


@pytest.mark.slow
def test_a_record_of_any_length_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "flight.jsonl"
    record = fresh(path)
    for number in range(5000):
        record.add(sample(2.0 * number, GIB + number * 1_400_000))
    level = Level("/job", limit=8 * GIB, usage=GIB, peak=8 * GIB, kills=1, hits=4)
    memory = Memory(total=64 * GIB, available=58 * GIB, kills=1)
    record.add(End(s=10_000, time="2026-11-20T11:00:42Z", signal=9, memory=memory, levels=(level,), kills=1))
    report = oomdoctor.diagnose(path).as_json()
    (incident,) = report["incidents"]
    assert report["verdict"] == "oom"
    assert incident["trajectory"]["per"] == "second"
    assert 0.9 < incident["trajectory"]["growth_bytes"] / 700_000 < 1.1
    causes = [each["cause"] for each in incident["diagnoses"]]
    assert {"container-limit", "host-memory-leak"} & set(causes[:2])


V2 = {
    "memory.max": "8589934592\n", "memory.current": "8589930000\n", "memory.peak": "8589934592\n",
    "memory.events": "low 0\nhigh 0\nmax 1873\noom 4\noom_kill 2\noom_group_kill 0\n",
    "memory.stat": "anon 6000000000\nfile 2500000000\nshmem 2000000000\n",
}  # fmt: skip


def test_the_files_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the kernel's documentation has them: no machine of ours runs it."""
    for name, words in V2.items():
        (tmp_path / "pod" / "app").mkdir(parents=True, exist_ok=True)
        (tmp_path / "pod" / "app" / name).write_text(words)
    (tmp_path / "pod" / "memory.max").write_text("max\n")
    monkeypatch.setattr(cgroup, "_mount", lambda: Mount(str(tmp_path), "/", 2))
    monkeypatch.setattr(proc, "PROC", str(tmp_path / "proc"))
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text("0::/pod/app\n")
    own, pod, root = cgroup.levels(7)
    assert own == Level(
        "/pod/app", 8589934592, 8589930000, 8589934592, shmem=2_000_000_000, cache=500_000_000, kills=2, hits=4
    )
    assert (pod.path, pod.limit, root.path, root.usage) == ("/pod", None, "/", None)
    assert cgroup.tightest((own, pod, root)) == own


@pytest.mark.parametrize("path", ["/../other", "/of/another/mount"])
def test_a_group_outside_of_what_is_mounted_is_what_is_mounted(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "_mount", lambda: Mount(str(tmp_path), "/", 2))
    monkeypatch.setattr(proc, "PROC", str(tmp_path / "proc"))
    (tmp_path / "proc" / "7").mkdir(parents=True)
    (tmp_path / "proc" / "7" / "cgroup").write_text(f"0::{path}\n")
    assert cgroup.path_of(7) == "/"


@linux
def test_the_machine_and_this_process_can_be_read() -> None:
    memory = machine.memory()
    assert memory.total is not None
    assert memory.available is not None
    assert 0 < memory.available <= memory.total
    one = processes.size(os.getpid())
    assert one is not None
    assert 0 < one.own <= one.resident
    assert "python" in processes.name(os.getpid())
    assert versions.is_python(os.getpid())


@linux
def test_packages_of_an_environment_are_named_by_their_metadata(tmp_path: Path) -> None:
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    for name in ("torch-2.5.1+cu124.dist-info", "flash_attn-2.7.0.dist-info", "requests-2.32.0.dist-info", "torch"):
        (site / name).mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    words = [str(tmp_path / "bin" / "python3"), "-c", "print('ready', flush=True); input()"]
    job = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert job.stdout is not None
        assert job.stdout.readline() == b"ready\n", "before, the kernel does not yet tell its command"
        assert versions.is_python(job.pid)
        assert versions.packages(job.pid) == ("flash_attn==2.7.0", "torch==2.5.1+cu124")
    finally:
        job.communicate(b"\n")


@pytest.mark.slow
@linux
def test_a_tree_holds_who_lost_its_parent(tmp_path: Path) -> None:
    script = f"(sleep 30 & echo $! > {tmp_path}/pid; sleep 1) & wait"
    root = os.posix_spawn("/bin/bash", ["bash", "-c", script], os.environ)
    tree = Tree(root)
    for _ in range(100):
        time.sleep(0.02)
        tree.grow()
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip():
            break
    orphan = int((tmp_path / "pid").read_text())
    tree.grow()
    os.waitpid(root, 0)
    tree.grow()
    try:
        assert orphan in tree.pids()
        assert root not in tree.pids()
    finally:
        os.kill(orphan, 9)


SMI = """#!/bin/sh
case "$1" in
*compute-apps*) echo 'GPU-1f, 4120, 10240'; echo 'GPU-1f, [Not Found], 300'; echo 'GPU-2a, 77, [N/A]';;
*) echo 'GPU-1f, 0, 18233, 81559'; echo 'GPU-2a, 1, [N/A], [N/A]';;
esac
"""


@linux
def test_what_nvidia_smi_says_of_each_gpu_and_its_processes(tmp_path: Path) -> None:
    """A program that prints in its form; where there is a driver, the real one is asked as well."""
    program = tmp_path / "nvidia-smi"
    program.write_text(SMI)
    program.chmod(0o755)
    (card,) = NvidiaSmi(str(program)).read()
    assert (card.index, card.used >> 20, card.total >> 20) == (0, 18233, 81559)
    assert [(pid, size >> 20) for pid, size in card.processes] == [(4120, 10240)]


KERNEL = """\
python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
memory: usage 204800kB, limit 204800kB, failcnt 142
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,oom_memcg=/job,task_memcg=/job/a,task=python,pid=4120
Memory cgroup out of memory: Killed process 4120 (python) total-vm:2kB, anon-rss:18776kB, file-rss:512kB, shmem-rss:16kB
Out of memory: Killed process 77 (a (b) c) total-vm:1kB, anon-rss:2kB, file-rss:3kB, shmem-rss:4kB, UID:0
""".splitlines()


def test_what_the_kernel_says_of_kills(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KernelLog, "_lines", lambda _: iter(KERNEL))
    first, second = KernelLog().kills()
    assert first == Kill(
        4120, "python", 18776 << 10, 512 << 10, 16 << 10, "CONSTRAINT_MEMCG", "/job", "/job/a", 200 << 20, 200 << 20
    )
    assert second == Kill(77, "a (b) c", 2 << 10, 3 << 10, 4 << 10)
