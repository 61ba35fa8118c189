"""Folders and archives of whole runs: one incident, found where it is told best."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.contract import EventRecord, Report

CLUSTER = "5" * 56
NODES = {"10.0.0.1": "a1" * 28, "10.0.0.2": "b2" * 28}
WORKER = "c3" * 28

STARTED = """\
[2026-03-01 10:00:00,524 I 311 311] (raylet) main.cc:180: Setting cluster ID to: {cluster}
[2026-03-01 10:00:00,545 I 311 311] (raylet) main.cc:419: Setting node ID node_id={node}
"""
KILLED = """\
[2026-03-01 10:41:07,120 I 311 311] (raylet) worker_killing_policy.cc:107: Sorted list of 2 workers based on the policy
Memory on the node (IP: 10.0.0.2, ID: {node}) where the task (actor ID: {actor}, name=Rewarder.__init__, pid=7712, \
memory used=171.30GB) was running was 239.20GB / 251.48GB (0.951169), which exceeds the memory usage threshold of \
0.95. Ray killed this worker (ID: {worker}) because it was the most recently scheduled task; to see more information \
about memory usage on this node, use `ray logs raylet.out -ip 10.0.0.2`. Top 10 memory users:
PID	MEM(GB)	COMMAND
7712	171.30	ray::Rewarder.score
7410	12.05	ray::Loader.next
"""
BLANK = """\
2026-03-01 17:41:09,003 INFO worker.py:1812 -- Started a local Ray instance.
Traceback (most recent call last):
  File "/job/ppo.py", line 21, in <module>
    ray.get(rewarder.score.remote())
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
	class_name: Rewarder
	actor_id: {actor}
	pid: 7712
	namespace: 4f1c
	ip: 10.0.0.2
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker \
unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) The process \
is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called. (3) The worker is crashed \
unexpectedly due to SIGSEGV or other unexpected errors.
"""
REFUSED = """\
Traceback (most recent call last):
  File "/job/train.py", line 40, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} GiB. GPU {rank} has a total capacity of 79.15 \
GiB of which 250.50 MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use. Of the \
allocated memory 75.10 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.
"""
TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
/job/train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-01_10:20:09
  host      : node-a
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 901)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:20:07
  host      : node-a
  rank      : 2 (local_rank: 2)
  exitcode  : 1 (pid: 903)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder


def root(report: Report) -> EventRecord:
    (incident,) = report.incidents
    return next(event for event in report.events if event.id in incident.events and event.role == "root")


def session(folder: Path) -> Path:
    actor = "d4" * 16
    one, two = (f"session_2026-03-01_09-59-58_120000_300/{ip}" for ip in NODES)
    return write(
        folder,
        {
            "driver.log": BLANK.format(actor=actor),
            f"{one}/logs/raylet.out": STARTED.format(cluster=CLUSTER, node=NODES["10.0.0.1"]),
            f"{two}/logs/raylet.out.1": STARTED.format(cluster=CLUSTER, node=NODES["10.0.0.2"]),
            f"{two}/logs/raylet.out": KILLED.format(node=NODES["10.0.0.2"], worker=WORKER, actor=actor),
            f"{two}/logs/worker-{WORKER}-01000000-7712.err": "",
            f"{two}/logs/debug_state.txt": "out of memory: 0\n",
        },
    )


def assert_the_kill_is_found(report: Report) -> None:
    found = root(report)
    assert (found.kind, found.file.rpartition("/")[2]) == ("node-out-of-memory", "raylet.out")
    assert report.incidents[0].diagnoses[0].cause == "process-ram-hog"
    (death,) = [event for event in report.events if event.kind == "worker-death"]
    assert (death.file.rpartition("/")[2], death.role) == ("driver.log", "cascade")
    assert report.notes[-1].endswith("left out: empty (1), no log by the name (1)")


def test_the_kill_on_a_node_explains_the_blank_death_on_the_driver(tmp_path: Path) -> None:
    assert_the_kill_is_found(diagnose(session(tmp_path)))


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_an_archive_of_the_session_tells_the_same(mode: str, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "session.tar", mode) as archive:  # type: ignore[call-overload]
        archive.add(session(tmp_path / "run"), "run")
    assert_the_kill_is_found(diagnose(tmp_path / "session.tar"))


def test_the_rank_that_torchrun_saw_fail_first_is_the_root(tmp_path: Path) -> None:
    ranks = {f"run_ab12/attempt_0/{n}/stderr.log": REFUSED.format(tried=f"{n}.50", rank=0) for n in range(4)}
    report = diagnose(write(tmp_path, {"launcher.log": TORCHRUN, **ranks}))
    assert root(report).file == "run_ab12/attempt_0/2/stderr.log"
    assert root(report).process["rank"] == 2


def test_torchruns_error_file_is_read_and_other_json_is_not(tmp_path: Path) -> None:
    error = {"message": {"message": REFUSED.format(tried="2.50", rank=3).splitlines()[-1], "extraInfo": {}}}
    settings = {"message": "CUDA out of memory. Tried to allocate 1.00 GiB"}
    report = diagnose(
        write(tmp_path, {"attempt_0/3/error.json": json.dumps(error), "attempt_0/config.json": json.dumps(settings)})
    )
    assert root(report).file == "attempt_0/3/error.json"
    assert report.notes[-1].endswith("left out: JSON or YAML that is no log (1)")


def test_each_job_of_a_slurm_folder_has_its_own_crash(tmp_path: Path) -> None:
    report = diagnose(
        write(
            tmp_path,
            {
                "slurm-4711.out": REFUSED.format(tried="1.25", rank=0),
                "slurm-4712.out": "step 1 loss 2.25\nstep 2 loss 2.125\n",
                "slurm-4713.out": REFUSED.format(tried="3.25", rank=0),
                "slurm-4713.err": "slurmstepd: error: *** JOB 4713 ON node-b CANCELLED AT 2026-03-01T10:00:00 ***\n",
            },
        )
    )
    assert [sorted({e.file for e in report.events if e.id in i.events}) for i in report.incidents] == [
        ["slurm-4711.out"], ["slurm-4713.out"],
    ]  # fmt: skip


def test_what_kubernetes_says_of_a_pod_is_read_beside_its_logs(tmp_path: Path) -> None:
    ended = {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-03-01T10:00:00Z"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "trainer-0"},
        "status": {"containerStatuses": [{"name": "trainer", "lastState": {"terminated": ended}}]},
    }
    lines = (
        "2026-03-01T09:59:58.120000000Z stdout F step 17 loss 1.25\n2026-03-01T10:00:00.010000000Z stderr F Killed\n"
    )
    report = diagnose(
        write(
            tmp_path,
            {
                "pods/train_trainer-0_5f/trainer/0.log": lines,
                "default/pods.json": json.dumps(pod, indent=4),
                "default/services.json": json.dumps({"apiVersion": "v1", "kind": "ServiceList", "items": []}, indent=4),
            },
        )
    )
    assert report.incidents[0].diagnoses[0].cause == "container-limit"
    assert len(report.incidents) == 1
    assert report.notes[-1].endswith("left out: JSON or YAML that is no log (1)")
