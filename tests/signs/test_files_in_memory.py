"""Files in /dev/shm fill a memory limit: the job's prints say how much all of them will take."""

from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.incident.model import Crash
from oomdoctor.signs.files_in_memory import files_in_memory

KERNEL = (
    "[ 6878.61] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "[ 6878.61] memory: usage 409600kB, limit 409600kB, failcnt 0",
    "[ 6878.61] Tasks state (memory values in pages):",
    "[ 6878.61] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name",
    "[ 6878.61] [    801]     0   801     9000     {pages}   155648        0             0 python",
    (
        "[ 6878.61] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/j,"
        "task_memcg=/j,task=python,pid=801,uid=0"
    ),
    (
        "[ 6878.61] Memory cgroup out of memory: Killed process 801 (python) total-vm:36000kB, anon-rss:20000kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:152kB oom_score_adj:0"
    ),
)
PRINTS = (
    ("clip {n} of 80, /dev/shm/clips: {mb} MB of 500 MB used", (360, 20, 80)),
    ("[rank 0] {n}/80 shards, {mb} MB written to /dev/shm", (360, 20, 80)),
    ("2026-01-30 10:00:00 {n} of 80 done; tmpfs holds {mb}.0 MB", (360, 20, 80)),
    ("{n} of 80 tables; /dev/shm/job-7 = {mb} MiB", (377.48736, 20, 80)),
    ("clip {n}: /dev/shm/clips: {mb} MB used", None),  # of how many?
    ("clip {n} of 80, cache: {mb} MB used", None),  # in memory or on a disk
    ("clip {n} of 80, {mb} MB read", None),
    ("{n} of 80, rss {mb} MB, shm is on", None),
    ("clip 20 of 80, /dev/shm: {mb} MB used, batch {n}", None),  # none came
    ("clip {n} of 80, /dev/shm: 360 MB used", None),  # it does not grow
)


def killed(line: str, counts: tuple[int, ...] = (5, 10, 20), pages: int = 5000) -> Crash:
    prints = [line.format(n=n, mb=18 * n) for n in counts]
    return crash(*prints, *(each.format(pages=pages) for each in KERNEL))


@pytest.mark.parametrize(("line", "found"), PRINTS)
def test_what_a_print_counts(line: str, found: tuple[float, int, int] | None) -> None:
    files = files_in_memory(killed(line))
    assert (files and (files.used_bytes / 10**6, files.done, files.count)) == found


def test_all_of_them_and_the_processes_beside() -> None:
    files = files_in_memory(killed(PRINTS[0][0]))
    assert files is not None
    assert files.whole_bytes == 1_440_000_000
    assert files.held_bytes == 5000 * 4096


@pytest.mark.parametrize(
    ("counts", "pages"),
    [
        ((20,), 5000),  # one print shows no growth
        ((20, 10), 5000),  # files that go away
        ((5, 80), 5000),  # all were there
        ((5, 10, 20), 80_000),  # the process holds it
    ],
)
def test_what_shows_no_files_that_come(counts: tuple[int, ...], pages: int) -> None:
    assert files_in_memory(killed(PRINTS[0][0], counts, pages)) is None
