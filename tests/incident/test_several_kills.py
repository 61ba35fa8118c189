"""Several kills in the logs: which of them are one incident, and which of them is the job's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose
from oomdoctor.families.event import Event, Place, Process
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.joins import are_of_one_incident, explains
from oomdoctor.report.contract import Report

GIB = 1024**3
POD = "/kubepods/burstable/pod0f3b2a11-5c1d-4e52-9a6f-1b2c3d4e5f60"
NINE, LATER, NIGHT = "Mon Nov 30 09:10:01 2026", "Mon Nov 30 09:11:40 2026", "Mon Nov 30 21:44:12 2026"


def kill(
    time: str | None = NINE, group: str | None = None, *, limit: int | None = None, pid: int = 5, file: str = "k.txt"
) -> KernelKill:
    return KernelKill(
        at=Place(file, 3, 3, ""), time=time, process=Process(pid=pid), cgroup=group, limit_bytes=limit,
        pool="cgroup" if group is not None else "host_ram",
    )  # fmt: skip


def guard(time: str | None) -> UserspaceKill:
    return UserspaceKill(at=Place("k.txt", 9, 9, ""), time=time, killer="systemd", unit="train.service")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (kill(group="/docker/aa"), kill(NIGHT, "/docker/bb"), False),
        (kill(group="/docker/aa"), kill(NINE, "/docker/bb"), False),  # two limits, whatever the clock says
        (kill(group="/docker/aa", limit=8 * GIB), kill(NIGHT, "/docker/aa", limit=2 * GIB), False),
        (kill(), kill(NIGHT), False),  # of the whole machine
        (kill("54001.100000"), kill("60001.100030"), False),
        (kill(group="/kubepods"), kill(NIGHT, "/kubepods"), False),  # all pods without a limit share it
        (kill(group="/user.slice/user-1001.slice"), kill(NIGHT, "/user.slice/user-1001.slice"), False),
        (guard(NINE), kill(NIGHT), False),
        (kill(group="/docker/aa"), kill(NIGHT, "/docker/aa"), True),  # again and again
        (kill(group="/docker/aa", limit=8 * GIB), kill(NIGHT, "/docker/aa", limit=8 * GIB), True),
        (kill(group="/docker/aa"), kill(NIGHT, "/docker/aa", limit=8 * GIB), True),  # the head of a dump is cut off
        (kill(group=f"{POD}/aa"), kill(NIGHT, f"{POD}/bb"), True),  # a container that was started again
        (kill(group="/slurm/uid_7/job_77/step_0"), kill(NIGHT, "/slurm/uid_7/job_77/step_1"), True),
        (kill(), kill(LATER), True),
        (kill("991.120011"), kill("991.120331"), True),
        (kill(), kill(LATER, "/docker/aa"), True),
        (kill(group="/kubepods"), kill(LATER, "/kubepods"), True),
        (guard(NINE), kill(NINE), True),
        (guard(None), kill(NIGHT), True),
        (kill(None), kill(None), True),
        (kill(), kill("Mon Nov 30 10:10:02 2026", file="other.txt"), True),  # a clock of another zone
        (kill("54001.100000"), kill("60001.100030", file="other.txt"), True),  # perhaps of another boot
    ],
)
def test_kills_of_one_limit_or_one_moment_are_one_incident(one: Event, other: Event, expected: bool) -> None:
    assert are_of_one_incident([one], other) is expected
    assert are_of_one_incident([other], one) is expected


def test_a_machine_that_kills_for_minutes_is_one_incident() -> None:
    assert are_of_one_incident([kill(), kill(LATER)], kill("Mon Nov 30 09:13:20 2026"))


@pytest.mark.parametrize(("pid", "expected"), [(9907, True), (4101, None), (None, None)])
def test_the_kernel_s_number_names_the_dead(pid: int | None, expected: bool | None) -> None:
    death = Kill(at=Place("job.log", 1, 1, ""), reporter="shell", process=Process(pid=pid))
    assert explains(kill(pid=9907), death) is expected


def record(time: str, pid: int, name: str, gib: int, group: str | None) -> str:
    """What the kernel prints of a kill, with `dmesg -T`."""
    constraint = f"CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={group},task_memcg={group}"
    if group is None:
        constraint = "CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom"
        constraint += ",task_memcg=/user.slice/user-1001.slice/session-88.scope"
    size = gib * 1024**2
    usage = f"memory: usage {size}kB, limit {size}kB, failcnt 81" if group else "67108864 pages RAM"
    said = "Memory cgroup out" if group else "Out"
    lines = (
        f"{name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
        usage,
        "Tasks state (memory values in pages):",
        "[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
        f"[{pid:>7}]  1000 {pid:>5}  {size // 3} {size // 4} 20231040        0             0 {name}",
        f"oom-kill:constraint={constraint},task={name},pid={pid},uid=1000",
        f"{said} of memory: Killed process {pid} ({name}) total-vm:{size}kB, anon-rss:{size}kB, file-rss:0kB",
    )
    return "".join(f"[{time}] {line}\n" for line in lines)


MORNING = record(NINE, 4101, "python", 8, "/docker/aaaa1111")
EVENING = record(NIGHT, 9907, "java", 2, "/docker/bbbb2222")
WHOLE = record(NINE, 48213, "python3", 145, None)
NAMED = "run.sh: line 31: 9907 Killed                  java -jar etl.jar\n"
BARE = "epoch 1 step 40 loss 0.71\nKilled\n"
SLURM = (
    "/var/spool/slurmd/job9912331/slurm_script: line 31: 188120 Killed                  python train.py --workers 32\n"
    "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=9912331.batch. Some of your processes may have been "
    "killed by the cgroup out-of-memory handler.\n"
)


def told(folder: Path, **logs: str) -> Report:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return diagnose(*sorted(folder.iterdir()))


def words(incident: Any) -> str:
    """Headline, cause and remedies."""
    first = incident.diagnoses[0]
    remedies = [f"{one.action} {one.snippet} {one.derivation}" for one in first.remedies]
    return " ".join([incident.headline, first.explanation, *remedies])


@pytest.mark.parametrize("order", [MORNING + EVENING, EVENING + MORNING])
def test_the_kill_that_the_job_s_log_names_is_the_one(order: str, tmp_path: Path) -> None:
    report = told(tmp_path, job=NAMED, kernel=order)
    (incident,) = report.incidents
    assert "9907" in incident.headline
    assert not any(figure in words(incident) for figure in ("4101", "8 GiB", "8.00 GiB", "aaaa1111"))
    assert [event.role for event in report.events if event.kind == "oom-kill"] == ["root"]
    assert any("names the process of another kill" in quote.why for quote in report.lookalikes)


def test_both_kills_of_the_group_whose_process_is_named_stay(tmp_path: Path) -> None:
    child = record(LATER, 9931, "java", 2, "/docker/bbbb2222")
    report = told(tmp_path, job=NAMED, kernel=child + EVENING)
    (incident,) = report.incidents
    assert len([event for event in report.events if event.kind == "oom-kill"]) == 2
    assert incident.diagnoses[0].cause == "container-limit"


def test_of_several_kills_none_is_believed_where_the_log_names_another_process(tmp_path: Path) -> None:
    report = told(tmp_path, job=NAMED.replace("9907", "77"), kernel=MORNING + EVENING)
    assert report.verdict == "inconclusive"


def test_the_only_kill_is_believed_though_a_container_counts_its_processes_anew(tmp_path: Path) -> None:
    report = told(tmp_path, job=NAMED.replace("9907", "77"), kernel=EVENING)
    (incident,) = report.incidents
    assert incident.diagnoses[0].cause == "container-limit"
    assert report.verdict == "oom"


@pytest.mark.parametrize("order", [MORNING + EVENING, EVENING + MORNING])
def test_without_a_job_s_log_each_kill_is_a_report_of_its_own(order: str, tmp_path: Path) -> None:
    report = told(tmp_path, kernel=order)
    morning, evening = sorted((words(incident) for incident in report.incidents), key=lambda text: "9907" in text)
    assert "4101" in morning
    assert "9907" not in morning
    assert "9907" in evening
    assert "4101" not in evening
    assert all(event.role == "root" for event in report.events)


def test_of_the_kills_in_one_group_one_is_told_of(tmp_path: Path) -> None:
    small, large = record(NINE, 31, "python", 1, "/docker/aa"), record(LATER, 32, "python", 8, "/docker/aa")
    small = small.replace("usage 1048576kB, limit 1048576kB", "usage 8388608kB, limit 8388608kB")
    (incident,) = told(tmp_path, kernel=small + large).incidents
    assert "PID 32" in words(incident)
    assert "PID 31" not in words(incident)


def test_a_login_s_kill_is_none_of_a_job_under_slurm(tmp_path: Path) -> None:
    report = told(tmp_path, job=SLURM, kernel=WHOLE)
    (incident,) = report.incidents
    assert "9912331" in incident.headline
    assert "145" not in words(incident)
    assert any("another job" in quote.why for quote in report.lookalikes)


@pytest.mark.parametrize(
    ("job", "kernel"),
    [
        (SLURM, WHOLE.replace("user.slice/user-1001.slice/session-88.scope", "slurm/uid_1000/job_9912331/step_batch")),
        (SLURM, WHOLE.replace("user.slice/user-1001.slice/session-88.scope", "system.slice/slurmd.service")),
        (SLURM, WHOLE.replace("user.slice/user-1001.slice/session-88.scope", "")),  # no cgroup is named
        (BARE, WHOLE),
        (NAMED.replace("9907", "188120"), WHOLE),  # in a login, a shell's child may have been killed
    ],
)
def test_the_machine_s_kill_stays_the_job_s_where_nothing_speaks_against_it(
    job: str, kernel: str, tmp_path: Path
) -> None:
    report = told(tmp_path, job=job, kernel=kernel)
    assert len(report.incidents) == 1
    assert any(event.kind == "oom-kill" for event in report.events)


def test_a_third_job_s_failure_does_not_bring_a_login_s_kill_back(tmp_path: Path) -> None:
    cuda = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.25 GiB. GPU 0 has a total capacity of 79.15 "
        "GiB of which 250.50 MiB is free.\n"
    )
    report = told(tmp_path, job=SLURM, kernel=WHOLE, other=cuda)
    assert len(report.incidents) == 3
    slurm = next(incident for incident in report.incidents if "9912331" in incident.headline)
    assert "145" not in words(slurm)


REPORT = """\
[{at}.10] {name} invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[{at}.11] memory: usage 2097152kB, limit 2097152kB, failcnt 40
[{at}.12] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/{group},\
task_memcg=/{group},task={name},pid={pid},uid=0
[{at}.13] Memory cgroup out of memory: Killed process {pid} ({name}) total-vm:4871108kB, anon-rss:2053812kB, \
file-rss:4288kB, shmem-rss:0kB, UID:0 pgtables:7112kB oom_score_adj:0
"""


@pytest.mark.parametrize(
    ("command", "first"),
    [
        ("python -u fit.py --rows 900", "python"),
        ("/opt/venv/bin/python fit.py --rows 900", "python"),
        ("reindexer --rows 900", "sorter"),  # nothing tells which is its own: the earliest
    ],
)
def test_the_kill_of_the_program_above_comes_before_other_jobs(tmp_path: Path, command: str, first: str) -> None:
    other = REPORT.format(at=70, name="sorter", group="nightly", pid=41)
    own = REPORT.format(at=90, name="python", group="job", pid=88)
    (tmp_path / "dmesg.log").write_text(other + own)
    (tmp_path / "job.log").write_text(f"+ {command}\nreading\nexit code: 137\n")
    incidents = diagnose(tmp_path).as_json()["incidents"]
    assert len(incidents) == 2
    assert first in incidents[0]["headline"]


@pytest.mark.parametrize(
    "end", ["", "Jun 25 13:53:17 n3 systemd[1]: graph.service: Main process exited, code=killed, status=9/KILL\n"]
)
def test_a_units_end_in_the_same_journal_hides_no_earlier_kill(tmp_path: Path, end: str) -> None:
    kernel = (
        "Jun 24 18:02:11 n3 kernel: Out of memory: Killed process 928 (server) total-vm:65219kB, anon-rss:47809896kB, "
    )
    (tmp_path / "journal.log").write_text(f"{kernel}file-rss:0kB, shmem-rss:0kB\n{end}")
    report = diagnose(tmp_path / "journal.log").as_json()
    assert report["verdict"] == "oom"
    assert "PID 928" in report["incidents"][0]["headline"]
