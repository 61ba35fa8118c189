"""What the kernel's victims held, and a machine's figures that say nothing of the failure."""

from __future__ import annotations

import pytest
from system_logs import crash_of

from oomdoctor.causes import host_memory_exhausted, process_ram_hog
from oomdoctor.incident.node import held_by, held_in_words, largest_kill, node_memory
from oomdoctor.report.headline import headline
from oomdoctor.signs.kills import (
    killed_process_was_large,
    largest_process_held_little,
    only_small_processes_were_killed,
)
from oomdoctor.signs.node import one_process_has_it

KILLED = (
    "[ 1810.11] Out of memory: Killed process {pid} ({name}) total-vm:99999999kB, anon-rss:{anon}kB, file-rss:8kB, "
    "shmem-rss:{shared}kB, UID:0 pgtables:8kB oom_score_adj:{adj}\n"
)


def killed(pid: int, anon: int, shared: int = 0, name: str = "python", adj: int = 0) -> str:
    return KILLED.format(pid=pid, anon=anon, shared=shared, name=name, adj=adj)


def test_shared_memory_counts_and_is_named() -> None:
    kill = largest_kill(crash_of(killed(7, 22_957_108, 15_143_164)))
    assert kill is not None
    assert held_by(kill) == (22_957_108 + 15_143_164) * 1024
    assert held_in_words(kill) == "36.34 GiB (14.44 GiB of it shared memory)"


@pytest.mark.parametrize("shared", [0, 900_000])
def test_little_shared_memory_is_no_news(shared: int) -> None:
    kill = largest_kill(crash_of(killed(7, 22_000_000, shared)))
    assert kill is not None
    assert "shared" not in held_in_words(kill)


def test_one_of_several_ranks() -> None:
    ranks = "".join(f"[launch.py:319:sigkill_handler] Killing subprocess {pid}\n" for pid in (7, 8, 9))
    seen = killed_process_was_large(crash_of(ranks + killed(7, 20_971_520)))
    assert seen is not None
    assert "3 x 20.00 GiB = 60.00 GiB" in seen.words
    other = killed_process_was_large(crash_of(ranks + killed(70, 20_971_520)))
    assert other is not None
    assert "DeepSpeed" not in other.words


def test_only_small_processes_were_left_to_kill() -> None:
    crash = crash_of(killed(7, 4290) + killed(8, 4066, name="(resolved)"))
    seen = only_small_processes_were_killed(crash)
    assert seen is not None
    assert seen.next_evidence[0].startswith("free -m; df -h -t tmpfs")
    assert headline(host_memory_exhausted.CAUSE, crash).startswith("The kernel killed 2 processes of at most 5 MiB")
    assert seen.words.startswith("The kernel killed 2 processes; none held more than 5 MiB.")
    alone = crash_of(killed(7, 4290))
    assert headline(host_memory_exhausted.CAUSE, alone).startswith("The kernel killed python (PID 7, 4.19 MiB)")
    told = only_small_processes_were_killed(alone)
    assert told is not None
    assert told.words.startswith("The kernel killed python (PID 7) with 4.2 MiB.")
    assert headline(process_ram_hog.CAUSE, crash)
    assert largest_process_held_little(crash) is None


def test_pages_of_files_count_in_what_the_small_ones_held() -> None:
    mapped = killed(8, 3072).replace("file-rss:8kB", "file-rss:4000kB")  # 6.9 MiB, more than the one of 4 MiB
    crash = crash_of(killed(7, 4088) + mapped)
    seen = only_small_processes_were_killed(crash)
    assert seen is not None
    assert "none held more than 7 MiB." in seen.words
    assert headline(host_memory_exhausted.CAUSE, crash).startswith("The kernel killed 2 processes of at most 7 MiB")


@pytest.mark.parametrize(
    "log",
    [
        killed(7, 4290).replace("file-rss:8kB", "file-rss:70000kB"),  # it maps much
        killed(7, 4290) + killed(8, 9_000_000),  # the second is large
        killed(7, 4290, 900_000),  # shared memory is its own too
        killed(7, 4290, adj=1000),  # the first to be killed, whatever it holds
    ],
)
def test_a_large_victim_or_a_marked_one_says_nothing_of_that_kind(log: str) -> None:
    assert only_small_processes_were_killed(crash_of(log)) is None


FREE = """\
              total        used        free      shared  buff/cache   available
Mem:          2.0Ti        61Gi       1.9Ti       112Mi        14Gi       1.9Ti
Swap:            0B          0B          0B
"""


def test_a_print_above_the_job_does_not_say_where_its_memory_was() -> None:
    assert not [one for one in crash_of(FREE + "loading\nKilled\n").ledgers if one.pool == "host_ram"]


def test_what_is_rounded_is_no_figure_to_reckon_with() -> None:
    (ledger,) = [one for one in crash_of("a\nb\nc\nd\n" + FREE + "Killed\n").ledgers if one.pool == "host_ram"]
    assert [(row.what, row.basis) for row in ledger.rows] == [
        ("in use by all processes", "printed"),
        ("free", "printed"),
    ]


ROW = "[ 1810.10] [{pid:7d}]     0 {pid}   200000    {pages}   450560        0             0 {name}\n"
OF_A_NODE = "[ 1810.10] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),global_oom,task=indexer,pid=71,uid=0\n"


@pytest.mark.parametrize(
    ("others", "is_a_table"),
    [("", False), (ROW.format(pid=70, pages=900, name="bash"), True)],
)
def test_one_row_of_the_kernels_table_is_no_table(others: str, *, is_a_table: bool) -> None:
    row = ROW.format(pid=71, pages=51200, name="indexer")
    crash = crash_of(others + row + OF_A_NODE + killed(71, 204_800, name="indexer"))
    assert (node_memory(crash) is not None) is is_a_table
    assert (one_process_has_it(crash) is not None) is is_a_table
