"""What schedulers, container runtimes and killers say of an end for memory, and of other ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

ENDED = (
    ("srun: Exceeded job memory limit\nsrun: error: gn12: task 0: Killed", "cgroup"),
    ("slurmstepd: error: Exceeded job memory limit\nsrun: error: gn12: tasks 0-3: Killed", "cgroup"),
    ("slurmd[gn12]: error: Exceeded job memory limit", "cgroup"),
    ("slurmstepd-gn12: task 0 (901) Out Of Memory (OOM)", "cgroup"),
    ("[2026-02-11T08:31:04.881] [7712.2] task 17 (66120) Out Of Memory (OOM)", "cgroup"),
    ('2026-02-11 08:31:04.101 +0000 UTC default /tasks/oom {"container_id":"trainer-7"}', "cgroup"),
    ('{"timestamp":"2026-02-11T08:31:04Z","topic":"/tasks/oom","event":{"container_id":"a7"}}', "cgroup"),
    ("    comment = Job run at Wed Feb 11 at 08:31 on (n3:ncpus=8:mem=4194304kb) and exceeded resource mem", "cgroup"),
    ("    comment = Job run at Wed Feb 11 at 08:31 on (n3:mem=4gb)+(n4:mem=4gb) and exceeded resource mem", "cgroup"),
    ("pbs_mom: Job 881.head exceeded resource mem and was deleted", "cgroup"),
    ("I0211 08:31:04.312044 881 memory.cpp:671] OOM detected for container 77aa-12", "cgroup"),
    ("Memory limit exceeded: Requested: 4128MB Maximum Used: 4128MB", "cgroup"),
    ('level=error msg="exec failed: unable to start container process: EOF (possibly OOM-killed)"', "cgroup"),
    ("OCI runtime exec failed: error executing setns process: signal: killed (possibly OOM-killed): unknown", "cgroup"),
    ('{"status":"oom","id":"9a1","Type":"container","Action":"oom","time":1770798664}', "cgroup"),
    ("Warning  Evicted  3m  farm-agent  Evict batch pod due to memory resource pressure", "host_ram"),
    ("Warning  Evicted  pod/render-7  Evicted low-priority pod because of RAM pressure", "host_ram"),
    ('user: warning: [2026-02-11]: [talos] Sending SIGKILL to cgroup {"c": "runtime.OOMController"}', "host_ram"),
    ("Feb 11 08:31:04 ws3 earlyoom[701]: Killing process 881 (tiler) with badness 210", "host_ram"),
    ('   string "earlyoom"\n   string "Low memory! Killing process 881 tiler"', "host_ram"),
    ("notifyd[88]: Low memory! Killing process 881 tiler", "host_ram"),
)  # fmt: skip
OTHERS = (
    '   string "earlyoom"\n   string "Low memory! Close some windows"',
    '   string "tidy"\n   string "Killing process 881 tiler"',
    'notify("Low memory! Killing process %d %s", pid, name)',
    "slurmstepd: error: Exceeded job memory limit at some point.",
    "slurmstepd: error: Exceeded step memory limit at some point. Job may have been partially swapped out to disk.",
    "a job that prints Exceeded job memory limit",
    "srun: Exceeded job memory limit is what it would print",
    "slurmstepd-gn12: task 0 (901) exited. Killed by signal 15.",
    "slurmstepd-gn12: task 0 (901) exited with exit code 1.",
    '2026-02-11 08:31:04.101 +0000 UTC default /tasks/exit {"container_id":"trainer-7","exit_status":1}',
    '2026-02-11 08:31:04.101 +0000 UTC default /tasks/start {"container_id":"room","pid":7}',
    '{"status":"die","id":"9a1","Type":"container","Action":"die","exitCode":"1"}',
    '{"name":"oom","Type":"profile","Action":"create"}',
    '[talos] Sending SIGKILL to cgroup {"controller": "runtime.ShutdownController", "cgroup": "/sys/fs/cgroup/a"}',
    '[talos] controller starting {"controller": "runtime.OOMController"}',
    "subscribed to topic /tasks/oom",
    "    comment = Job run at Wed Feb 11 at 08:31 on (n3:ncpus=8:mem=4194304kb) and exceeded resource walltime",
    "    comment = Job run at Wed Feb 11 at 08:31 on (n3:ncpus=8:mem=4194304kb) and exceeded resource cput",
    "    comment = Job run at Wed Feb 11 at 08:31 on (n3:ncpus=8:mem=4194304kb) and exceeded resource ncpus",
    "    comment = Job run at Wed Feb 11 at 08:31 on (n3:ncpus=8:mem=4194304kb) and finished",
    "pbs_mom: Job 881.head exceeded resource walltime and was deleted",
    "I0211 08:31:04.312044 881 memory.cpp:671] OOM detected for an already terminated executor",
    "I0211 08:31:04.312044 881 memory.cpp:601] Started listening for OOM events for container 77aa-12",
    "I0211 08:31:04.312044 881 memory.cpp:480] Updated 'memory.limit_in_bytes' to 4128MB for container 77aa-12",
    "INFO oom detector started for container 77aa-12",
    "INFO oom detection is on",
    'level=error msg="exec failed: unable to start container process: EOF"',
    "Warning  Evicted  3m  farm-agent  Evict batch pod due to CPU resource pressure",
    "Warning  Evicted  3m  farm-agent  Evict batch pod due to disk pressure on the memory node",
    "farm-agent: will not evict any pod due to memory pressure",
    "farm-agent: may evict pods due to memory pressure",
    "Normal  Skipped  3m  farm-agent  skipped: would evict pod due to memory pressure",
    "Feb 11 08:31:04 ws3 earlyoom[701]: Could not kill process 881",
    "supervisord: Killing process 881 (tiler)",
    "Feb 11 08:31:04 ws3 init[1]: Killing process 881 tiler",
)


@pytest.mark.parametrize(("text", "pool"), ENDED)
def test_it_was_ended_for_memory(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", OTHERS)
def test_it_was_ended_for_something_else_or_not_at_all(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"


def test_what_mesos_measured_is_held_against_what_was_asked_for(tmp_path: Path) -> None:
    report = body(tmp_path, "Memory limit exceeded: Requested: 4128MB Maximum Used: 4127MB")
    event = next(event for event in report["events"] if event["kind"] == "limit-kill")
    assert (event["threshold"]["limit_bytes"], event["usage"]["peak_bytes"]) == (4128 * 1024**2, 4127 * 1024**2)


def test_one_chunk_is_the_jobs_limit_and_two_are_not(tmp_path: Path) -> None:
    comment = "    comment = Job run at Wed Feb 11 at 08:31 on {} and exceeded resource mem"
    limits = []
    for number, chunks in enumerate(("(n3:ncpus=8:mem=4194304kb)", "(n3:mem=4gb)+(n4:mem=4gb)")):
        folder = tmp_path / str(number)
        folder.mkdir()
        events = body(folder, comment.format(chunks))["events"]
        limits += [event["threshold"].get("limit_bytes") for event in events if event["kind"] == "limit-kill"]
    assert limits == [4 * 1024**3, None]
