"""A node's machine is asked for its records where the node's logs tell of a failure, and only there."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from oomdoctor.cluster.part import Part, Task, read
from oomdoctor.families.kernel import KernelKill
from oomdoctor.language import ENGLISH

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")

HEALTHY = "[2026-03-01 10:00:00,005 I 7 7] (raylet) main.cc:711: Starting\n"
DIED = (
    HEALTHY + "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
    "\tclass_name: Scorer\n\tpid: 4711\n\tip: 10.0.0.2\nThe actor is dead because its worker process has died. "
    "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. "
    "End of file.\n"
)
KILL = (
    "[Sun Mar  1 10:41:07 2026] Out of memory: Killed process {pid} (ray::Scorer.go) total-vm:90000000kB, "
    "anon-rss:61000000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:2520kB oom_score_adj:0"
)


def part(folder: Path, log: str, monkeypatch: pytest.MonkeyPatch, kernel: str) -> tuple[Part, bool]:
    """What the node reads, and whether the kernel's log was asked for."""
    logs, tools = folder / "logs", folder / "tools"
    logs.mkdir()
    tools.mkdir()
    (logs / "worker.err").write_text(log, encoding="utf-8")
    (tools / "kernel.txt").write_text(f"{kernel}\n", encoding="utf-8")
    dmesg = tools / "dmesg"
    dmesg.write_text(f"#!/bin/sh\ntouch {folder}/asked\ncat {tools}/kernel.txt\n", encoding="utf-8")
    dmesg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    return read(Task(str(logs), "10.0.0.2", {}, ENGLISH)), (folder / "asked").exists()


def test_a_failure_asks_for_the_kernels_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = part(tmp_path, DIED, monkeypatch, KILL.format(pid=4711))
    kills = [event for event in found.reading.gathered.events.values() if isinstance(event, KernelKill)]
    assert asked
    assert [kill.at.file for kill in kills] == ["10.0.0.2/evidence/kernel.txt"]
    assert kills[0].process.pid == 4711


def test_healthy_logs_ask_for_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, asked = part(tmp_path, HEALTHY, monkeypatch, KILL.format(pid=4711))
    assert not asked
    assert not found.events


def test_what_is_read_of_the_machine_can_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = part(tmp_path, DIED, monkeypatch, KILL.format(pid=4711))
    again: Part = pickle.loads(pickle.dumps(found))
    events: Mapping[str, object] = again.reading.gathered.events
    assert events.keys() == found.reading.gathered.events.keys()
