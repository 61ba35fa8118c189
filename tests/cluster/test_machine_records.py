"""What a machine still knows of a failure is asked where a log says that something failed there, and only there."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from oomdoctor.cluster.evidence import failures, nodes_named, of_machine
from oomdoctor.cluster.part import Task, read
from oomdoctor.families.kernel import KernelKill
from oomdoctor.language import ENGLISH
from oomdoctor.reading import Reading

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


def machine(folder: Path, monkeypatch: pytest.MonkeyPatch, kernel: str) -> Reading:
    """What is read of a machine whose kernel printed this."""
    (folder / "kernel.txt").write_text(f"{kernel}\n", encoding="utf-8")
    dmesg = folder / "dmesg"
    dmesg.write_text(f"#!/bin/sh\ncat {folder}/kernel.txt\n", encoding="utf-8")
    dmesg.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return of_machine("10.0.0.2", ENGLISH)


def logs(folder: Path, log: str) -> Reading:
    (folder / "worker.err").write_text(log, encoding="utf-8")
    return read(Task(str(folder), "10.0.0.9", {}, ENGLISH)).reading


def test_a_machine_s_records_bear_its_name_and_can_travel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(tmp_path, monkeypatch, KILL.format(pid=4711))
    again: Reading = pickle.loads(pickle.dumps(found))
    (kill,) = [event for event in again.gathered.events.values() if isinstance(event, KernelKill)]
    assert kill.at.file == "10.0.0.2/evidence/kernel.txt"
    assert kill.process.pid == 4711


def test_a_failure_names_its_node_wherever_it_was_told(tmp_path: Path) -> None:
    found = failures(logs(tmp_path, DIED))
    assert [event.kind for event in found] == ["worker-death"]
    assert nodes_named(found) == {"10.0.0.2"}


def test_healthy_logs_name_no_node(tmp_path: Path) -> None:
    found = failures(logs(tmp_path, HEALTHY))
    assert found == []
    assert nodes_named(found) == frozenset()
