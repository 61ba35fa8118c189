from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.incident.model import Crash
from oomdoctor.signs import node


def full(*gib: float, used: float = 100.0) -> Crash:
    """A node of which so much was in use when Ray killed, by processes of these sizes, each of its own name."""
    return crash(*kill(*((n, size, f"python job_{n}.py") for n, size in enumerate(gib, 1)), used=used, total=110.0))


def test_a_table_that_explains_half_misses_nothing() -> None:
    assert node.table_misses_half(full(30.0, 20.0)) is None
    assert node.table_misses_half(crash(*kill())) is None


def test_a_table_that_explains_less_than_half() -> None:
    seen = node.table_misses_half(full(30.0, 19.9))
    assert seen is not None
    assert "hold 49.90 GiB of it (50%)" in seen.words


def test_nobody_stands_out_where_the_largest_is_no_more_than_twice_the_next() -> None:
    assert node.nobody_stands_out(full(39.9, 30.0)) is not None
    assert node.a_table_names_the_holder(full(39.9, 30.0)) is None


def test_somebody_stands_out_with_forty_percent() -> None:
    assert node.nobody_stands_out(full(40.1, 30.0)) is None
    assert node.a_table_names_the_holder(full(40.1, 30.0)) is not None


def test_a_table_that_misses_half_names_nobody() -> None:
    assert node.a_table_names_the_holder(full(45.0, 1.0)) is None


@pytest.mark.parametrize(
    ("largest", "following", "has_it"),
    [(39.9, 20.0, False), (40.1, 39.0, True), (24.9, 1.0, False), (25.1, 10.0, True), (25.1, 10.1, False)],
)
def test_the_largest_has_it_alone_or_by_far(largest: float, following: float, has_it: bool) -> None:
    one = full(largest, following)
    assert (node.one_process_has_it(one) is not None) == has_it
    assert (node.no_process_has_it(one) is None) == has_it


def test_without_a_table_no_process_is_the_largest() -> None:
    for question in (
        node.one_process_has_it,
        node.no_process_has_it,
        node.table_without_sizes,
        node.use_is_not_printed,
    ):
        assert question(crash(*kill())) is None


def with_store(gib: float) -> Crash:
    status = ["======== Autoscaler status: 2026-03-01 10:00:00.000000 ========", "Resources", "Usage:"]
    status += [" 2.0/4.0 CPU", f" {gib:.2f}GiB/120.00GiB object_store_memory", "Demands:", " (no resource demands)"]
    return crash(*status, *kill((501, 100.0, "python produce.py"), used=120.0, total=130.0))


def test_the_store_may_be_a_row_where_it_is_nearly_as_large() -> None:
    assert node.store_may_be_the_largest_row(with_store(79.0)) is None
    assert node.store_may_be_the_largest_row(with_store(81.0)) is not None


def reward(*gib: float, other: float) -> Crash:
    servers = ((900 + n, size, "python -m serve_reward_model") for n, size in enumerate(gib))
    return crash(*kill(*servers, (7, other, "python train.py"), used=100.0, total=110.0))


def test_a_reward_model_below_a_quarter_is_small() -> None:
    for small in (reward(24.9, other=5.0), reward(30.0, other=35.0)):
        assert node.a_reward_model_is_small(small) is not None
        assert node.a_reward_model_leads(small) is None


def test_reward_models_lead_together_and_one_has_it_alone() -> None:
    assert node.a_reward_model_leads(reward(20.0, 20.0, other=35.0)) is not None
    assert node.a_reward_model_has_it(reward(20.0, 20.0, other=35.0)) is None
    assert node.a_reward_model_has_it(reward(40.1, other=35.0)) is not None


def test_a_reward_model_that_is_not_the_largest_process() -> None:
    assert node.a_reward_model_is_the_largest(reward(30.0, other=35.0)) is None
    assert node.a_reward_model_is_the_largest(reward(36.0, other=35.0)) is not None


def top(free: int, *gib: float, late: bool = False) -> Crash:
    rows = (f"{n:>6} ann 20 0 90g {size}g 1000 R 9.0 9.0 1:00.00 job_{n}" for n, size in enumerate(gib, 1))
    head = f"MiB Mem : 102400.0 total, {free}.0 free, {102400 - free}.0 used, 0.0 buff/cache"
    table = (head, f"MiB Swap: 0.0 total, 0.0 free, 0.0 used. {free}.0 avail Mem", "",
             "   PID USER PR NI VIRT RES SHR S %CPU %MEM TIME+ COMMAND", *rows)  # fmt: skip
    return crash(*(("Killed", *table) if late else (*table, "Killed")))


def test_a_full_table_before_the_kill_names_the_holder() -> None:
    seen = node.one_process_has_it(top(1000, 80.0, 5.0))
    assert seen is not None
    assert seen.shows_memory
    assert "job_1 (PID 1) holds 80.00 GiB" in seen.words


def test_a_table_with_room_or_behind_the_kill_names_nobody() -> None:
    assert node.one_process_has_it(top(20_000, 70.0, 5.0)) is None
    assert node.one_process_has_it(top(1000, 80.0, 5.0, late=True)) is None
    assert node.one_process_has_it(top(1000, 30.0, 29.0, 28.0)) is None


def test_rays_table_comes_before_tops() -> None:
    lines = (
        "host memory usage: 97%",
        "  PID   RSS COMMAND",
        "  501 99000000 sleeper",
        *kill((7, 60.0, "python job.py")),
    )
    seen = node.one_process_has_it(crash(*lines))
    assert seen is not None
    assert "job.py" in seen.words


@pytest.mark.parametrize(
    ("command", "drives"),
    [("ray::TaskRunner.run", True), ("python train.py", False), ("ray::WorkerDict.update_actor", False)],
)
def test_a_worker_of_ray_that_drives_the_job(command: str, drives: bool) -> None:
    log = crash(*kill((7, 80.0, command), (8, 20.0, "ray::IDLE"), used=100.0, total=110.0))
    assert (node.a_driver_is_the_largest(log) is not None) is drives
