from __future__ import annotations

import time
from pathlib import Path

import pytest

from oomdoctor import diagnose, families, streams
from oomdoctor.families.kernel import KernelKill, UserspaceKill

FIXTURES = Path(__file__).parent.parent.parent / "fixtures" / "kernel"
LINE = "Killed process {} (python3) total-vm:9000000kB, anon-rss:6000000kB, file-rss:0kB, shmem-rss:0kB"


def kills(text: str) -> list[KernelKill]:
    page = streams.page("kern.log", 1, text.encode())
    return [found for found in families.read(page) if isinstance(found, KernelKill)]


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("limit-hit-6.18", "cgroup"),
        ("two-line-kill-3.10", "cgroup"),
        ("group-kill-of-a-pod", "cgroup"),
        ("machine-full-5.15", "host_ram"),
        ("table-without-head", "host_ram"),
        ("arm-64k-pages", "host_ram"),
        ("reaper-alone", "host_ram"),
    ],
)
def test_the_pool_is_the_groups_only_where_a_limit_was_hit(name: str, pool: str) -> None:
    found = kills((FIXTURES / f"{name}.log").read_text())
    assert found
    assert {kill.pool for kill in found} == {pool}


@pytest.mark.parametrize("held", ["6000000kB", "6,000,000kB", "600,000,0kB"])
def test_a_figure_may_have_separators_wherever_they_stand(held: str) -> None:
    (kill,) = kills("Out of memory: " + LINE.format(4711).replace("6000000kB", held) + "\n")
    assert kill.anon_rss_bytes == 6_000_000 * 1024


@pytest.mark.parametrize(("blanks", "held"), [(8, 6_000_000), (120, 6_000_000), (3, None)])
def test_a_console_fills_a_broken_line_up(blanks: int, held: int | None) -> None:
    broken = LINE.format(4711).replace("6000000kB", f"6000000{' ' * blanks}kB")
    (kill,) = kills(f"Out of memory: {broken}\n")
    assert kill.anon_rss_bytes == (held * 1024 if held else None)


FIRST_HALF = "{}Out of memory: Kill process 4711 (python3) score {} or sacrifice child\n"
SECOND_HALF = "[105744.79] Killed process {} (python3) total-vm:9000000kB, anon-rss:6000000kB, file-rss:0kB\n"


@pytest.mark.parametrize("stamp", ["", "[105744.79] "])
def test_the_halves_of_a_kill_are_one(stamp: str) -> None:
    (kill,) = kills(FIRST_HALF.format(stamp, 174) + SECOND_HALF.format(4711))
    assert (kill.score, kill.anon_rss_bytes) == (174, 6_000_000 * 1024)


def test_a_child_that_was_sacrificed_has_no_score_of_its_own() -> None:
    (kill,) = kills(FIRST_HALF.format("[105744.79] ", 174) + SECOND_HALF.format(4712))
    assert (kill.process.pid, kill.score) == (4712, None)


def test_who_asked_is_not_who_was_killed() -> None:
    (kill,) = kills((FIXTURES / "machine-full-5.15.log").read_text())
    assert kill.invoker == "ray::IDLE"
    assert kill.process.name == "ray::LLMRayAc"
    assert kill.tasks[0].name == "ray::RewardMode"


def test_a_full_machine_with_a_group_in_its_trace_stays_a_full_machine() -> None:
    (kill,) = kills(
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        "task_memcg=/kubepods/pod1,task=python3,pid=7,uid=0\nOut of memory: " + LINE.format(7)
    )
    assert kill.pool == "host_ram"
    assert kill.task_cgroup == "/kubepods/pod1"
    assert kill.cgroup is None


def test_a_limit_that_means_none_is_none() -> None:
    (kill,) = kills(
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        "memory: usage 4096kB, limit 9007199254740988kB, failcnt 0\nMemory cgroup out of memory: " + LINE.format(7)
    )
    assert kill.used_bytes == 4 * 1024**2
    assert kill.limit_bytes is None


def test_a_record_that_was_cut_holds_what_it_says() -> None:
    (kill,) = kills("Out of memory: Killed process 7 (python3) total-vm:9000000kB, anon-r")
    assert kill.process.pid == 7
    assert kill.total_vm_bytes == 9000000 * 1024
    assert kill.anon_rss_bytes is None


def test_the_killer_of_another_day_is_another_kill() -> None:
    silence = "usb 1-1: new device\n" * 400
    first, second = kills(
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n"
        + silence
        + "Out of memory: "
        + LINE.format(9)
    )
    assert first.process.pid is None
    assert second.process.pid == 9


def test_the_reaper_confirms_and_adds_no_kill() -> None:
    reaped = "oom_reaper: reaped process 7 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB"
    assert len(kills(f"Out of memory: {LINE.format(7)}\n{reaped}\n")) == 1


def test_the_dump_and_its_quotation_are_one_happening() -> None:
    dump, quoted = kills(
        f"Out of memory: {LINE.format(7)}\nsome line\nWarning OOMKilling kernel-monitor {LINE.format(7)}\n"
    )
    assert dump.identity() == quoted.identity()


def test_pressure_is_a_share() -> None:
    page = streams.page("j.log", 1, (FIXTURES / "systemd-oomd-pressure.log").read_bytes())
    first, second = (found for found in families.read(page) if isinstance(found, UserspaceKill))
    assert (first.pressure_fraction, first.limit_fraction) == (0.6112, 0.5)
    assert (second.pressure_fraction, second.limit_fraction) == (None, 0.9)


@pytest.mark.slow
def test_a_long_row_of_kills_is_read_in_linear_time() -> None:
    text = "\n".join(f"Memory cgroup out of memory: {LINE.format(pid)}" for pid in range(1, 1001))
    start = time.process_time()
    assert len(kills(text)) == 1000
    assert time.process_time() - start < 15


TABLE = (
    "[ pid ]   uid  tgid total_vm      rss nr_ptes swapents oom_score_adj name\n"
    "[ 4120]     0  4120   364930    91200      71       44             0 tiler\n"
)
SUMMARY = "Free swap  = 16kB\nTotal swap = 4194300kB\n16678438 pages RAM\n"


def test_a_table_whose_head_was_cut_off_keeps_what_stands_right_above_it() -> None:
    assert [kill.total_swap_bytes for kill in kills(SUMMARY + TABLE)] == [4194300 * 1024]
    assert [kill.total_swap_bytes for kill in kills(SUMMARY + "\n" * 12 + TABLE)] == [None]
    assert [kill.total_swap_bytes for kill in kills(TABLE)] == [None]


@pytest.mark.parametrize(
    ("line", "at_its_limit"),
    [
        ("memory+swap: usage 2097152kB, limit 2097152kB, failcnt 31", True),
        ("memory+swap: usage 2097152kB, limit 2097152kB", True),
        ("memory+swap: usage 2097150kB, limit 2097152kB", False),
        ("memory+swap: usage 2097152kB, limit 2097152kB, failcnt 0", False),
        ("kmem: usage 2097152kB, limit 2097152kB, failcnt 31", False),
    ],
)
def test_the_account_of_a_group_at_its_limit(line: str, at_its_limit: bool, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"process 2 terminated with signal SIGKILL\n\n{line}\n", encoding="utf-8")
    found = [one["cause"] for one in diagnose(log).as_json()["diagnoses"][:1]]
    assert (found == ["container-limit"]) is at_its_limit


WRAPPED = (
    "[  {pid}]     0  {pid}  5120000  3072000 31457280  512000\n 0 python3\n"
    "[  {other}]  1000  {other}      700      400    45056        0\n 0 bash\n"
)


def test_rows_that_a_terminal_has_broken_are_read() -> None:
    (kill,) = kills(WRAPPED.format(pid=4711, other=812) + LINE.format(4711))
    assert [(task.pid, task.name) for task in kill.tasks] == [(4711, "python3"), (812, "bash")]
    assert (kill.tasks[0].total_vm_pages, kill.tasks[0].rss_pages, kill.tasks[0].swap_pages) == (
        5120000,
        3072000,
        512000,
    )


@pytest.mark.parametrize(
    "between",
    [
        "[  4711]     0  4711  5120000  3072000 31457280  512000\n[  812]  1000  812  700  400  45056  0\n",
        "[  4711]     0  4711  5120000  3072000 31457280  512000\nCPU 3 is idle again now\n",
        "[  4711]     0  4711  5120000  3072000 31457280  512000\n0 CPUs are idle again now\n",
        "[  4711]     0  4711  5120000  3072000 31457280  512000\n",
    ],
)
def test_rows_without_their_rest_are_no_tasks(between: str) -> None:
    (kill,) = kills(between + LINE.format(4711))
    assert kill.tasks == ()


GROUP = "[ 91.20] Tasks in /slurm/uid_1000/job_88/step_0 are going to be killed due to memory.oom.group set\n"
MEMBER = (
    "[ 91.{}] Memory cgroup out of memory: Killed process {} (python) total-vm:201kB, anon-rss:80kB, file-rss:4kB\n"
)


def test_a_group_that_dies_is_a_kill_where_nothing_else_tells_of_one() -> None:
    (kill,) = kills(GROUP)
    assert (kill.pool, kill.cgroup) == ("cgroup", "/slurm/uid_1000/job_88/step_0")


def test_a_group_that_dies_is_that_of_the_kill_above_it() -> None:
    assert [kill.process.pid for kill in kills(MEMBER.format(10, 700) + GROUP + MEMBER.format(30, 701))] == [700, 701]
    assert [kill.process.pid for kill in kills(MEMBER.format(10, 700) + GROUP)] == [700]
    assert [kill.process.pid for kill in kills(GROUP + MEMBER.format(30, 701))] == [701]


@pytest.mark.parametrize("line", ["echo 1 > memory.oom.group set", "memory.oom.group is set for /system.slice"])
def test_the_setting_kills_nobody(line: str) -> None:
    assert kills(line) == []
