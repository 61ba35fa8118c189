from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import limits

HEAD = "CONTAINER ID   NAME   CPU %   MEM USAGE / LIMIT   MEM %   NET I/O   BLOCK I/O   PIDS"


def row(gib: float) -> str:
    return f"5f1c22ab90d1   a   80.20%   {gib}GiB / 100GiB   {gib}%   1GB / 2GB   0B / 0B   412"


@pytest.mark.parametrize(
    ("lines", "full"),
    [
        ((HEAD, row(90.0), "Killed"), True),
        ((HEAD, row(89.9), "Killed"), False),
        ((HEAD, row(99.0), HEAD, row(20.0), "Killed"), False),
        (("Killed", HEAD, row(99.0)), False),
        (("RAM: 99.0/100.0 GB", "Killed"), False),  # the machine's
    ],
)
def test_dockers_last_print_before_a_kill(lines: tuple[str, ...], full: bool) -> None:
    seen = limits.container_was_nearly_full(crash(*lines))
    assert (seen is not None) == full
    assert seen is None or seen.pool == "cgroup"


SLURM = (
    "slurmstepd: error: Detected 2 oom-kill event(s) in step 771.0 cgroup. Some of your processes may have been killed."
)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c11: task 40: Bus error"), True),
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c04: task 10: Bus error"), False),
        (("srun: error: c04: task 9: Out Of Memory", "srun: error: c11: task 40: Killed"), False),
        (("srun: error: c[04-12]: tasks 9-14: Out Of Memory", "srun: error: c11: task 40: Bus error"), False),
        (("srun: error: c11: task 40: Bus error",), False),
    ],
)
def test_a_bus_error_of_another_host_is_no_matter_of_the_limit(lines: tuple[str, ...], told: bool) -> None:
    seen = limits.manager_reports_its_limit(crash(SLURM, *lines))
    assert seen is not None
    assert ("a bus error on" in seen.words) == told


TASKS = (
    "[ 6878.61] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "[ 6878.61] memory: usage 409600kB, limit 409600kB, failcnt 0",
    "[ 6878.61] Tasks state (memory values in pages):",
    "[ 6878.61] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[ 6878.61] [    801]     0   801     9000     {}   155648        0             0 python",
    (
        "[ 6878.61] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/j,"
        "task_memcg=/j,task=python,pid=801,uid=0"
    ),
    (
        "[ 6878.61] Memory cgroup out of memory: Killed process 801 (python) total-vm:36000kB, anon-rss:{}kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:152kB oom_score_adj:0"
    ),
)


@pytest.mark.parametrize(("pages", "is_elsewhere"), [(5_000, True), (51_000, True), (60_000, False), (102_000, False)])
def test_what_no_process_holds_lies_in_files(pages: int, is_elsewhere: bool) -> None:
    killed = crash(*(line.format(pages if "python" in line and "]     0" in line else pages * 4) for line in TASKS))
    assert (limits.most_is_in_no_process(killed) is not None) is is_elsewhere


def test_a_victim_without_a_table_says_nothing_of_others() -> None:
    assert (
        limits.most_is_in_no_process(crash(*(line.format(5_000) for line in (TASKS[0], TASKS[1], *TASKS[5:])))) is None
    )
