from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.incident.model import Crash
from oomdoctor.signs import host_growth


def steps(*gib: float, used: float = 200.0) -> Crash:
    """A node with so much in use when Ray killed, and what a job printed of its memory at each step."""
    prints = [f"(main_task pid=7) [step {n}] memory used = {size:.2f} GiB" for n, size in enumerate(gib, 1)]
    return crash(*prints, *kill(used=used, total=251.6))


def prints(*gib: float) -> Crash:
    return crash(*(f"(main_task pid=7) memory used = {size:.2f} GiB" for size in gib), *kill(used=200.0, total=251.6))


def megabytes(*mib: int) -> Crash:
    """A process that prints its size, and a kill that says nothing of the machine's."""
    killed = "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0."
    return crash(*(f"step {n} RSS: {size} MiB" for n, size in enumerate(mib)), killed)


def test_two_prints_are_no_growth() -> None:
    assert host_growth.host_memory_grew(steps(40.0, 90.0)) is None
    assert host_growth.host_memory_grew(steps(40.0, 90.0, 140.0)) is not None


def test_growth_of_nobody_knows_how_much_has_to_be_worth_a_word() -> None:
    assert host_growth.host_memory_grew(megabytes(1000, 1040, 1080, 1127)) is None
    assert host_growth.host_memory_grew(megabytes(1000, 1040, 1080, 1128)) is not None


def test_a_figure_that_grows_does_not_stay() -> None:
    assert host_growth.host_memory_stays(steps(40.0, 90.0, 140.0, 190.0)) is None
    level = steps(*(190.0 + n % 2 / 10 for n in range(12)))
    assert host_growth.host_memory_stays(level) is not None
    assert host_growth.host_memory_grew(level) is None


@pytest.mark.parametrize(("last", "before"), [(199.0, True), (200.0, False)])
def test_a_fifth_of_what_was_in_use_came_while_the_job_ran(last: float, before: bool) -> None:
    grew = steps(160.0, 173.0, 186.0, last)
    assert (host_growth.most_was_in_use_before(grew) is not None) == before


def test_what_does_not_grow_was_not_in_use_before() -> None:
    assert host_growth.most_was_in_use_before(steps(190.0, 190.0, 190.0, 190.0)) is None


def test_four_prints_without_steps_may_be_a_start_and_five_are_not() -> None:
    assert host_growth.few_prints_show_growth(prints(40.0, 80.0, 120.0, 160.0)) is not None
    assert host_growth.few_prints_show_growth(prints(40.0, 80.0, 120.0, 160.0, 200.0)) is None
    assert host_growth.few_prints_show_growth(steps(40.0, 90.0, 140.0)) is None


def kills(*gib: float) -> Crash:
    """One process in the tables of so many kills."""
    tables = (kill((501, size, "ray::Learner.fit"), used=200.0, total=210.0, pid=900 + n) for n, size in enumerate(gib))
    return crash(*(line for lines in tables for line in lines))


def test_growth_from_kill_to_kill_needs_six_of_them() -> None:
    assert host_growth.tables_of_kills_show_growth(steps(40.0, 90.0, 140.0)) is None
    five, six = kills(20.0, 50.0, 80.0, 110.0, 140.0), kills(20.0, 50.0, 80.0, 110.0, 140.0, 170.0)
    assert host_growth.tables_of_kills_show_growth(five) is not None
    assert host_growth.few_kills_show_growth(five) is not None
    assert host_growth.few_kills_show_growth(six) is None


def table(used: int, total: int = 100_000) -> str:
    return f"Mem:  {total}  {used}  {total - used - 1000}  0  1000  {total - used}"


def filled(*used: int, between: str = "step", last: str = "Killed") -> Crash:
    return crash(*(line for size in used for line in (between, table(size))), last)


@pytest.mark.parametrize(
    ("used", "three", "two"),
    [
        ((20_000, 50_000, 90_000), True, False),
        ((20_000, 90_000), False, True),
        ((20_000, 50_000, 89_000), False, False),  # room is left
        ((75_000, 80_000, 94_000), False, False),  # most was in use at the beginning
        ((20_000, 95_000, 60_000, 95_000), False, False),  # it came and went
        ((95_000,), False, False),
    ],
)
def test_a_machine_that_fills_from_print_to_print(used: tuple[int, ...], three: bool, two: bool) -> None:
    assert (host_growth.machine_filled_up(filled(*used)) is not None) == three
    assert (host_growth.machine_was_full_the_next_time(filled(*used)) is not None) == two


@pytest.mark.parametrize(
    ("used", "at_once"),
    [
        ((3_000, 6_000, 10_000, 95_000), True),
        ((3_000, 3_100, 96_000), True),
        ((3_000, 95_000), False),  # with nothing to compare
        ((20_000, 40_000, 62_000, 94_000), False),
        ((20_000, 75_000, 80_000, 93_000), False),  # it had jumped before, and grew until the kill
        ((10_000, 45_000, 48_000, 51_000, 92_000), False),  # half of it came before
    ],
)
def test_what_comes_between_two_prints_is_no_growth(used: tuple[int, ...], *, at_once: bool) -> None:
    assert (host_growth.machine_filled_at_once(filled(*used)) is not None) == at_once


def test_a_print_that_stands_later_than_the_others_may_show_more() -> None:
    def at(*minutes: int) -> Crash:
        prints = zip(minutes, (3_000, 6_000, 9_000, 95_000), strict=True)
        stamped = (f"2031-02-03 {4 + m // 60:02}:{m % 60:02}:00,000 {table(size)}" for m, size in prints)
        return crash(*stamped, "Killed")

    assert host_growth.machine_filled_at_once(at(0, 1, 2, 3)) is not None
    assert host_growth.prints_that_fill(at(0, 1, 2, 60)) is not None
    assert host_growth.machine_filled_at_once(at(0, 1, 2, 60)) is None


def test_prints_behind_the_kill_fill_nothing() -> None:
    late = crash("Killed", *(table(size) for size in (20_000, 50_000, 95_000)))
    assert host_growth.machine_filled_up(late) is None


def test_what_is_left_on_the_machine_falls() -> None:
    left = crash(*(f"epoch {n} available RAM: {100 - 12 * n}.0 GB" for n in range(8)), *kill(used=200.0, total=251.6))
    seen = host_growth.host_memory_grew(left)
    assert seen is not None
    assert "fell from 100.00 GiB" in seen.words
    steady = crash(*(f"epoch {n} available RAM: {90 + n % 2}.0 GB" for n in range(9)), *kill(used=200.0, total=251.6))
    assert host_growth.host_memory_grew(steady) is None


STEPS = "2017-07-20 13:58:20.441224: step {step}, loss = 0.14 (3076.2 examples/sec; 0.042 sec/batch)"
EXHAUSTED = (
    "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[{shape}]"
)
NODE = '\t [[Node: avg/sub_1 = Sub[T=DT_FLOAT, _device="/job:localhost/replica:0/task:0/{device}"]]'


def average(step: int = 500_000, shape: str = "1024,640", device: str = "cpu:0") -> Crash:
    warning = "W tensorflow/core/framework/op_kernel.cc:1158] Resource exhausted: OOM when allocating tensor with shape"
    message = EXHAUSTED.format(shape=shape)
    return crash(STEPS.format(step=step), f"{warning}[{shape}]", message, NODE.format(device=device))


@pytest.mark.parametrize("device", ["cpu:0", "device:CPU:0"])
def test_a_small_array_of_a_node_on_the_cpu_after_many_steps(device: str) -> None:
    it = average(device=device)
    assert it.pool == "host_ram"
    seen = host_growth.small_array_refused_after_many_steps(it)
    assert seen is not None
    assert "500000 steps" in seen.words


@pytest.mark.parametrize(
    "it", [average(step=40), average(shape="65536,4096"), average(device="gpu:0"), average(device="device:GPU:1")]
)
def test_few_steps_a_large_array_or_a_card_show_no_growth_of_the_host(it: Crash) -> None:
    assert host_growth.small_array_refused_after_many_steps(it) is None
