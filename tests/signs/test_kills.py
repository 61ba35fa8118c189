from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import TRAINERS, kill

from oomdoctor.signs import kills


def early(rss_mib: int) -> str:
    return f'earlyoom[812]: sending SIGTERM to process 4242 uid 1000 "python3": badness 912, VmRSS {rss_mib} MiB'


def kernel(rss_kib: int) -> str:
    return (
        f"[  722.42] Out of memory: Killed process 4410 (python) total-vm:90177536kB, anon-rss:{rss_kib}kB, "
        "file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:130000kB oom_score_adj:0"
    )


def test_a_victim_below_a_gigabyte_says_nothing() -> None:
    for small in (crash(kernel(1048575)), crash(early(1023))):
        assert kills.killed_process_was_large(small) is None


def test_a_large_victim_of_nobody_knows_how_much() -> None:
    for large in (crash(kernel(1048576)), crash(early(1024))):
        assert kills.killed_process_was_large(large) is not None
        assert kills.killed_process_held_most(large) is None
        assert kills.killed_process_held_little(large) is None


@pytest.mark.parametrize(("gib", "most"), [(39.9, False), (40.1, True)])
def test_the_victim_held_most_of_the_machine_from_forty_percent(gib: float, most: bool) -> None:
    dump = ["Mem-Info:", "26214400 pages RAM", kernel(int(gib * 1024 * 1024))]
    of_100_gib = crash("python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", *dump)
    assert (kills.killed_process_held_most(of_100_gib) is not None) == most
    assert (kills.killed_process_held_little(of_100_gib) is None) == most
    assert kills.killed_process_was_large(of_100_gib) is None


def test_where_a_table_says_who_the_victims_size_is_not_asked() -> None:
    both = crash(*kill(*TRAINERS), kernel(60 * 1024 * 1024))
    assert kills.killed_process_was_large(both) is None


@pytest.mark.parametrize(("processes", "many"), [(15, False), (16, True)])
def test_so_many_workers_are_many(processes: int, many: bool) -> None:
    lines = (f"Namespace(preprocessing_num_workers={processes})", *kill())
    assert (kills.one_of_many_workers_was_killed(crash(*lines)) is not None) == many


def test_many_workers_that_a_table_lists_are_not_guessed_at() -> None:
    assert kills.one_of_many_workers_was_killed(crash("Namespace(num_workers=64)", *kill(*TRAINERS))) is None


@pytest.mark.parametrize(("percent", "full"), [(89.9, False), (90.0, True)])
def test_nearly_full_before_the_kill(percent: float, full: bool) -> None:
    report = (
        "After initializing ZeRO optimizer",
        "MA 26.8 GB         Max_MA 40.2 GB         CA 41.0 GB         Max_CA 41 GB ",
        f"CPU Virtual Memory:  used = 611.05 GB, percent = {percent}%",
    )
    killed = "['/usr/bin/python3', '-u', 'tr.py', '--local_rank=1'] exits with return code = -9"
    assert (kills.nearly_full_before_the_kill(crash(*report, killed)) is not None) == full


def test_a_kill_that_is_explained_is_none_without_a_reason() -> None:
    assert kills.killed_for_no_printed_reason(crash(*kill())) is None
    assert kills.killed_for_no_printed_reason(crash("Killed")) is not None


def test_a_bare_kill_is_not_in_a_container() -> None:
    assert kills.in_a_container(crash("Killed")) is None
    assert kills.in_a_container(crash("+ docker run --rm trainer", "Killed")) is not None


HALF = "Mem:  100000  50000  1000  0  49000  50000"
FULL = "Mem:  100000  95000  1000  0  4000  4000"


@pytest.mark.parametrize(
    ("lines", "full"),
    [
        ((FULL, "Killed"), True),
        (("RAM: 61.0/64.0 GB", "Killed"), True),
        (("host memory usage: 90.0%", "Killed"), True),
        (("host memory usage: 89.9%", "Killed"), False),
        ((HALF, "Killed"), False),
        ((FULL, HALF, "Killed"), False),  # the last counts
        (("Killed", FULL), False),  # of the machine without its victim
        ((FULL, *(f"step {n} of another thing" for n in range(2100)), "Killed"), False),
        (
            (
                "2026-03-01 10:00:00 INFO m: RAM: 61.0/64.0 GB",
                "2026-03-01 10:30:00 ERROR launcher: rank 3 (pid 41) Killed",
            ),
            True,
        ),
        (
            (
                "2026-03-01 10:00:00 INFO m: RAM: 61.0/64.0 GB",
                "2026-03-01 12:00:00 ERROR launcher: rank 3 (pid 41) Killed",
            ),
            False,
        ),
        (
            (
                "2026-03-02 10:00:00 INFO m: RAM: 61.0/64.0 GB",
                "2026-03-01 10:00:00 ERROR launcher: rank 3 (pid 41) Killed",
            ),
            False,
        ),
        (("Mar  1 10:00:00 n1 mon[1]: RAM: 61.0/64.0 GB", "Mar  1 10:10:00 n1 run[2]: line 8: 41 Killed"), True),
        (("Mar  1 10:00:00 n1 mon[1]: RAM: 61.0/64.0 GB", "Mar  1 10:10:00 n2 run[2]: line 8: 41 Killed"), False),
    ],
)
def test_the_last_print_before_a_kill_shows_it(lines: tuple[str, ...], full: bool) -> None:
    assert (kills.nearly_full_before_the_kill(crash(*lines)) is not None) == full


def test_a_victims_share_is_of_what_was_in_use() -> None:
    above = "earlyoom[812]: mem avail:  {} of 10000 MiB (50.00%), swap free: 0 of 0 MiB (0.00%)"
    assert kills.killed_process_held_most(crash(above.format(5000), early(2100))) is not None
    assert kills.killed_process_held_little(crash(above.format(5000), early(1900))) is not None
    assert kills.killed_process_held_little(crash(above.format(500), early(2100))) is not None


def test_on_a_small_machine_a_victim_below_a_gigabyte_counts() -> None:
    above = "earlyoom[812]: mem avail:    20 of {} MiB ( 2.00%), swap free: 0 of 0 MiB (0.00%)"
    assert kills.killed_process_held_most(crash(above.format(1000), early(640))) is not None
    assert kills.killed_process_held_little(crash(above.format(1000), early(300))) is not None
    assert kills.killed_process_held_most(crash(above.format(100), early(60))) is None


def test_the_largest_of_several_victims_counts() -> None:
    asked = "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
    dump = (asked, "Mem-Info:", "26214400 pages RAM")
    bystander = kernel(200 * 1024).replace("4410 (python)", "812 (gnome-shell)")
    seen = kills.killed_process_held_most(crash(*dump, bystander, kernel(80 * 1024 * 1024)))
    assert seen is not None
    assert "python (PID 4410)" in seen.words
    both = crash(early(1500), early(9000).replace("4242", "4243"))
    large = kills.killed_process_was_large(both)
    assert large is not None
    assert "4243" in large.words


def of_deepspeed(shared_kib: int, own_kib: int = 20971520) -> str:
    """What is said of one of four processes."""
    killed = kernel(own_kib).replace("shmem-rss:0kB", f"shmem-rss:{shared_kib}kB")
    ranks = [f"[INFO] [launch.py:319:sigkill_handler] Killing subprocess {pid}" for pid in (4409, 4410, 4411, 4412)]
    seen = kills.killed_process_was_large(crash(*ranks, killed))
    assert seen is not None
    return seen.words


def test_shared_memory_is_not_counted_once_for_each_process() -> None:
    assert of_deepspeed(10485760).endswith("if alike, 4 x 20.00 GiB + 10.00 GiB shared = 90.00 GiB.")


@pytest.mark.parametrize("shared_kib", [0, 524288])
def test_little_shared_memory_does_not_matter(shared_kib: int) -> None:
    whole = (20971520 + shared_kib) / 1048576
    assert of_deepspeed(shared_kib).endswith(f"if each held as much, 4 x {whole:.2f} GiB = {4 * whole:.2f} GiB.")
