"""Files of several jobs given together: what tells them apart, and what does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.families.event import Event, Place, Process
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.joins import clocks_apart, explains
from oomdoctor.incident.model import Crash
from oomdoctor.job.model import Context
from oomdoctor.job.origins import Origins, writer_of
from oomdoctor.report.contract import Report
from oomdoctor.streams import page

CLUSTERS = ("7" * 56, "c" * 56)
STARTED = "[{time},120 I 311 311] (raylet) main.cc:180: Setting cluster ID to: {cluster}\n"
REFUSED = (
    "Traceback (most recent call last):\n"
    '  File "/job/{program}", line 12, in <module>\n'
    "    main()\n"
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} GiB. GPU 0 has a total capacity of "
    "79.15 GiB of which 250.50 MiB is free. Including non-PyTorch memory, this process has 78.90 GiB memory in use. "
    "Of the allocated memory 75.10 GiB is allocated by PyTorch, and 1.20 GiB is reserved by PyTorch but unallocated.\n"
)
GIB = 1024**3


def of_files(files: dict[str, str]) -> Origins:
    made = Origins()
    for name, text in files.items():
        made.add(page(name, 1, text.encode()))
    return made


def stamped(*times: str) -> str:
    return "".join(f"{time} INFO worker.py:12 -- at work\n" for time in times)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slurm-4711.out", "slurm-4712.out"),
        ("out/slurm-4711_1.out", "out/slurm-4711_2.out"),
        ("run7_x3f9k2ab/attempt_0/0/stderr.log", "run8_y3f9k2ab/attempt_0/0/stderr.log"),
        ("session_2026-03-01_10-00-00_120000_311/logs/a.out", "session_2026-03-02_10-00-00_120000_77/logs/a.out"),
    ],
)
def test_names_of_two_jobs(one: str, other: str) -> None:
    assert of_files({one: "step 1\n", other: "step 1\n"}).apart(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("slurm-4711.out", "slurm-4711.err"),
        ("slurm-4711.out", "driver.log"),
        ("slurm-4711-node3.out", "slurm-4711-node4.out"),
        ("run7_x3f9k2ab/attempt_0/0/stderr.log", "run7_y3f9k2ab/attempt_1/3/stderr.log"),
        ("none_x3f9k2ab/attempt_0/0/stderr.log", "none_y3f9k2ab/attempt_0/0/stderr.log"),
        (
            "n1/session_2026-03-01_10-00-00_120000_311/logs/a.out",
            "n2/session_2026-03-01_10-00-00_120000_311/logs/b.out",
        ),
        ("worker-0a-01000000-311.out", "worker-0b-01000000-312.out"),
    ],
)
def test_names_that_may_be_of_one_job(one: str, other: str) -> None:
    assert not of_files({one: "step 1\n", other: "step 1\n"}).apart(one, other)


def test_what_lies_beside_a_session_is_of_its_cluster() -> None:
    made = of_files(
        {
            "a/logs/raylet.out": STARTED.format(time="2026-03-01 10:00:00", cluster=CLUSTERS[0]),
            "a/driver.log": "step 1\n",
            "b/logs/raylet.out": STARTED.format(time="2026-03-01 10:00:00", cluster=CLUSTERS[1]),
            "b/driver.log": "step 1\n",
            "notes.log": "step 1\n",
        }
    )
    assert made.apart("a/driver.log", "b/driver.log")
    assert made.apart("a/driver.log", "b/logs/raylet.out")
    assert not made.apart("a/driver.log", "a/logs/raylet.out")
    assert not made.apart("notes.log", "a/driver.log")
    assert not made.apart("notes.log", "b/driver.log")


def test_a_driver_beside_two_sessions_is_of_the_one_whose_node_it_names() -> None:
    nodes = ("3" * 56, "e" * 56)
    sessions = [f"session_2026-03-0{day}_10-00-00_120000_311/logs" for day in (1, 2)]
    raylets = {
        f"{session}/raylet.out": f"[2026-03-01 10:00:00,120 I 311 311] (raylet) main.cc:419: Setting node ID "
        f"node_id={node}\n"
        for session, node in zip(sessions, nodes, strict=True)
    }
    kill = "Memory on the node (IP: 10.0.0.4, ID: {}) where the task (task ID: 5b, name=rollout, pid=77) was running"
    death = "A worker died or was killed. Worker ID: {worker} Node ID: {node} Worker IP address: 10.0.0.4"
    drivers = {
        "first.log": kill.format(nodes[0]) + "\n",
        "second.log": death.format(worker="5" * 56, node=nodes[1]) + "\n",
        "neither.log": kill.format("8" * 56) + "\n",
    }
    made = of_files(raylets | drivers)
    assert made.apart("first.log", f"{sessions[1]}/raylet.out")
    assert made.apart("second.log", f"{sessions[0]}/raylet.out")
    assert made.apart("first.log", "second.log")
    assert not made.apart("first.log", f"{sessions[0]}/raylet.out")
    assert not made.apart("neither.log", f"{sessions[0]}/raylet.out")


def test_the_nodes_of_one_cluster_are_together_whatever_their_clocks() -> None:
    made = of_files(
        {
            "n1/raylet.out": STARTED.format(time="2026-03-01 10:00:00", cluster=CLUSTERS[0]),
            "n2/raylet.out": STARTED.format(time="2026-03-04 19:30:00", cluster=CLUSTERS[0]),
        }
    )
    assert not made.apart("n1/raylet.out", "n2/raylet.out")


def test_slurm_says_its_job_in_the_log_too() -> None:
    first = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0. Some of the step tasks have been OOM Killed.\n"
    )
    assert of_files({"a.log": first, "b.log": "SLURM_JOB_ID=4712\n"}).apart("a.log", "b.log")
    assert not of_files({"a.log": first, "b.log": "SLURM_JOB_ID=4711\n"}).apart("a.log", "b.log")


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        (("2026-03-01 10:00:00", "2026-03-01 11:00:00"), ("2026-03-01 15:00:00", "2026-03-01 16:00:00"), True),
        (("2026-03-01 15:00:00", "2026-03-01 16:00:00"), ("2026-03-01 10:00:00", "2026-03-01 11:00:00"), True),
        (("2026-03-01 10:00:00", "2026-03-01 11:00:00"), ("2026-03-01 12:30:00", "2026-03-01 16:00:00"), False),
        (("2026-03-01 10:00:00", "2026-03-01 19:00:00"), ("2026-03-01 12:00:00",), False),
        (("2026-03-01 10:00:00",), (), False),
    ],
)
def test_when_they_were_written(first: tuple[str, ...], second: tuple[str, ...], apart: bool) -> None:
    made = of_files({"a.log": stamped(*first), "b.log": stamped(*second)})
    assert made.apart("a.log", "b.log") is apart
    assert made.apart("b.log", "a.log") is apart


def test_a_program_is_what_tracebacks_begin_in() -> None:
    trainer, server = (REFUSED.format(program=name, tried="1.25") for name in ("train.py", "serve.py"))
    launched = trainer.replace("/job/train.py", "/env/lib/python3.11/site-packages/launch.py")
    made = of_files({"a": trainer, "b": server, "again": trainer, "launcher": launched})
    assert made.apart("a", "b")
    assert not made.apart("a", "again")
    assert not made.apart("b", "launcher")


def told(tmp_path: Path, **files: str) -> Report:
    for name, log in files.items():
        (tmp_path / f"{name}.log").write_text(log, encoding="utf-8")
    return diagnose(tmp_path)


def test_two_programs_that_fail_are_two_crashes(tmp_path: Path) -> None:
    report = told(
        tmp_path,
        a=REFUSED.format(program="train.py", tried="1.25"),
        b=REFUSED.format(program="serve.py", tried="3.50"),
    )
    assert [[e.file for e in report.events if e.id in i.events] for i in report.incidents] == [["a.log"], ["b.log"]]


def test_ranks_of_one_program_are_one_crash(tmp_path: Path) -> None:
    report = told(tmp_path, **{f"rank{n}": REFUSED.format(program="train.py", tried=f"{n}.25") for n in range(1, 4)})
    assert [len(incident.events) for incident in report.incidents] == [3]


def test_one_that_says_nothing_of_its_job_does_not_join_two_that_do(tmp_path: Path) -> None:
    bare = REFUSED.format(program="x.py", tried="2.00").splitlines()[-1]
    report = told(
        tmp_path,
        a=bare,
        b=REFUSED.format(program="train.py", tried="1.25"),
        c=REFUSED.format(program="serve.py", tried="3.50"),
    )
    assert [[e.file for e in report.events if e.id in i.events] for i in report.incidents] == [
        ["a.log", "b.log"], ["c.log"],
    ]  # fmt: skip


# --- The kill that explains a death -----------------------------------------------------------------------------------


def kill(
    pid: int, *, worker: str | None = None, node: str | None = None, ip: str | None = None, time: str | None = None,
    line: int = 5, file: str = "n2/raylet.out",
) -> NodeOutOfMemory:  # fmt: skip
    return NodeOutOfMemory(
        at=Place(file, line, line, f"line {line}"),
        time=time,
        process=Process(pid=pid, node=ip or node),
        node_id=node,
        used_bytes=200 * GIB + pid,
        total_bytes=251 * GIB,
        victims=(Victim(pid=pid, worker_id=worker),),
    )


def death(
    pid: int | None, *, worker: str | None = None, node: str | None = None, ip: str | None = None,
    time: str | None = None,
) -> WorkerDeath:  # fmt: skip
    return WorkerDeath(
        at=Place("driver.log", 90, 90, "The actor died unexpectedly"),
        time=time,
        process=Process(pid=pid, node=ip),
        strength=1,
        cause="killed",
        node_id=node,
        worker_id=worker,
    )


A, B = "a" * 56, "b" * 56


@pytest.mark.parametrize(
    ("one", "other", "explained"),
    [
        (kill(7, worker=A), death(None, worker=A), True),
        (kill(7, worker=A), death(7, worker=B), False),
        (kill(7), death(7), True),
        (kill(7), death(8), False),
        (kill(7), death(None), None),
        (kill(7, ip="10.0.0.2"), death(7, ip="10.0.0.2"), True),
        (kill(7, ip="10.0.0.2"), death(7, ip="10.0.0.3"), False),
        (kill(7, node=A), death(7, node=B), False),
        (kill(7, node=A), death(7, ip="10.0.0.3"), True),
        (kill(7, ip="10.0.0.2"), death(None, ip="10.0.0.3"), False),
    ],
)
def test_which_kill_explains_which_death(one: Event, other: Event, explained: bool | None) -> None:
    assert explains(one, other) is explained


def assembled(*events: Event) -> tuple[Crash, ...]:
    gathered = Gathered()
    for event in events:
        gathered.add(event)
    return crashes(gathered, Context())


def test_a_blank_death_on_the_driver_is_a_consequence_of_the_kill_on_the_node() -> None:
    """Whatever the node's clock says."""
    (crash,) = assembled(
        death(7, ip="10.0.0.2", time="2026-03-01 10:00:04,100"),
        kill(7, ip="10.0.0.2", time="2026-03-01 03:11:52,010"),
    )
    assert [(event.kind, event.role) for event in crash.events] == [
        ("worker-death", "cascade"), ("node-out-of-memory", "root"),
    ]  # fmt: skip


def test_a_death_of_another_process_hours_later_is_another_crash() -> None:
    first, second = assembled(
        kill(7, ip="10.0.0.2", time="2026-03-01 10:00:00,010"), death(9, ip="10.0.0.2", time="2026-03-01 14:11:00,100")
    )
    assert (first.proven, second.proven) == (True, False)
    assert [event.kind for event in second.events] == ["worker-death"]


def test_a_death_of_another_process_in_that_minute_may_follow_from_the_kill() -> None:
    (crash,) = assembled(
        kill(7, ip="10.0.0.2", time="2026-03-01 10:00:00,010"), death(9, ip="10.0.0.2", time="2026-03-01 10:00:40,100")
    )
    assert crash.root.kind == "node-out-of-memory"


def test_one_death_at_two_times_tells_of_two_clocks() -> None:
    told = [
        kill(7, ip="10.0.0.2", time="2026-03-01 03:11:52,010"),
        kill(8, ip="10.0.0.2", time="2026-03-01 03:11:52,010"),
        death(7, ip="10.0.0.2", time="2026-03-01 10:00:04,100"),
    ]
    (note,) = clocks_apart(told)
    assert note == (
        "the clocks of n2/raylet.out and driver.log differ: they print 2026-03-01 03:11:52,010 and "
        "2026-03-01 10:00:04,100 for one death; the order of events allows for it"
    )


@pytest.mark.parametrize("time", [None, "2026-03-01 10:01:50,100"])
def test_a_death_a_moment_later_tells_of_no_clock(time: str | None) -> None:
    assert clocks_apart([kill(7, time="2026-03-01 10:00:00,010"), death(7, time=time)]) == []


@pytest.mark.parametrize(
    ("file", "who"),
    [
        (f"logs/worker-{A}-01000000-4711.err", Process(pid=4711)),
        (f"logs/python-core-worker-{A}_4711.log", Process(pid=4711)),
        ("run_x3f9/attempt_0/3/stderr.log", Process(rank=3)),
        ("attempt_1/12/error.json", Process(rank=12)),
        ("worker-7.log", Process()),
        ("attempt_0/stderr.log", Process()),
        (f"python-core-driver-01{A}_4711.log", Process()),
    ],
)
def test_whose_a_file_is(file: str, who: Process) -> None:
    assert writer_of(file) == who
