from __future__ import annotations

import pytest
from gpu_logs import crash
from host_logs import kill

from oomdoctor.decision.diagnosis import decide
from oomdoctor.incident.model import Crash
from oomdoctor.signs import host_caches, offload

SLEPT = "[2026-01-14 10:00:00 TP0] Allocating {:.2f} GB host memory for hierarchical KV cache."


def job(*lines: str) -> Crash:
    """A job on a node of 200 GiB that Ray killed, without a table."""
    return crash(*lines, *kill(used=190.0, total=200.0))


@pytest.mark.parametrize(
    ("gib", "quarter", "half"), [(24, False, False), (25, True, False), (49, True, False), (50, True, True)]
)
def test_what_settings_reserve(gib: int, quarter: bool, half: bool) -> None:
    log = job(f"Namespace(swap_space={gib}, n_gpus_per_node=2)")
    assert (offload.settings_reserve_a_quarter_of_the_node(log) is not None) == quarter
    assert (offload.settings_reserve_half_of_the_node(log) is not None) == half
    assert (offload.settings_reserve_little(log) is None) == quarter


def test_the_engines_default_reserves_nothing() -> None:
    log = job("Namespace(swap_space=4, n_gpus_per_node=2)")
    assert offload.settings_reserve_little(log) is None
    assert offload.gpus_are_not_counted(log) is None


def test_little_that_is_reserved_rules_nothing_out_where_more_is_shown() -> None:
    settings = "Namespace(swap_space=8, n_gpus_per_node=2)"
    assert offload.settings_reserve_little(job(settings)) is not None
    refused = (
        "ValueError: Too large swap space. 96.00 GiB out of the 125.60 GiB total CPU memory is allocated for the swap "
        "space."
    )
    assert offload.settings_reserve_little(crash(settings, *kill(used=190.0, total=200.0), refused)) is None
    assert offload.settings_reserve_little(job(settings, SLEPT.format(90.0))) is None


@pytest.mark.parametrize(
    ("gb", "quarter", "half"), [(53.6, False, False), (53.7, True, False), (107.3, True, False), (107.4, True, True)]
)
def test_what_engines_keep(gb: float, quarter: bool, half: bool) -> None:
    log = job(SLEPT.format(gb))
    assert (host_caches.engines_keep_a_quarter_of_the_node(log) is not None) == quarter
    assert (host_caches.engines_keep_half_of_the_node(log) is not None) == half
    assert host_caches.engines_keep_some_of_a_node(log) is None


def test_what_engines_keep_of_a_node_whose_size_is_not_printed() -> None:
    assert host_caches.engines_keep_some_of_a_node(crash(SLEPT.format(96.0), "Killed")) is not None
    assert host_caches.engines_keep_some_of_a_node(crash("Killed")) is None


def workers(gib: float) -> Crash:
    rows = ((7, gib, "ray::WorkerDict.update_actor"), (8, 20.0, "python index.py"))
    return crash("Namespace(adam_offload=True)", *kill(*rows, used=100.0, total=110.0))


@pytest.mark.parametrize(("gib", "has_it"), [(39.9, False), (40.1, True)])
def test_workers_that_offload(gib: float, has_it: bool) -> None:
    assert (offload.workers_that_offload_have_it(workers(gib)) is not None) == has_it
    assert (offload.workers_that_offload_have_little(workers(gib)) is None) == has_it


def test_nothing_that_is_switched_off_is_offloaded() -> None:
    off = job("Namespace(adam_offload=False, offload_param=none)")
    for question in (
        offload.states_are_offloaded,
        offload.workers_that_offload_have_it,
        offload.workers_that_offload_have_little,
    ):
        assert question(off) is None


def test_an_engine_makes_its_cache_and_its_swap_space_anew() -> None:
    both = job("Namespace(free_cache_engine=True, swap_space=40)")
    assert offload.engine_makes_cache_and_swap_space_anew(both) is not None
    for half in ("free_cache_engine=False, swap_space=40", "free_cache_engine=True, swap_space=0"):
        assert offload.engine_makes_cache_and_swap_space_anew(job(f"Namespace({half})")) is None


USED = "CPU Virtual Memory:  used = 41.7 GB, percent = 33.1%"
ANNOUNCED = (
    "[2026-02-03 09:10:11,512] [INFO] [utils.py:781:see_memory_usage] Before initializing optimizer states",
    "[2026-02-03 09:10:11,513] [INFO] [utils.py:782:see_memory_usage] MA 5.2 GB  Max_MA 5.2 GB  CA 5.3 GB  Max_CA 5 GB",
    f"[2026-02-03 09:10:11,514] [INFO] [utils.py:789:see_memory_usage] {USED}",
)
DIED = (
    "[2026-02-03 09:10:40,112] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', 'fit.py'] exits with return "
    "code = {}"
)


@pytest.mark.parametrize(
    ("lines", "seen"),
    [
        ((*ANNOUNCED, DIED.format(-9)), True),
        (
            (
                *(line.replace("initializing optimizer states", "creating fp32 partitions") for line in ANNOUNCED),
                "Killed",
            ),
            True,
        ),
        ((*ANNOUNCED[:2], DIED.format(-9)), False),  # nothing of the host
        ((*(line.replace("Before", "After") for line in ANNOUNCED), DIED.format(-9)), False),
        ((*ANNOUNCED, *(line.replace("Before", "After") for line in ANNOUNCED), DIED.format(-9)), False),
        ((*(line.replace("optimizer states", "dataset") for line in ANNOUNCED), DIED.format(-9)), False),
        ((*ANNOUNCED, "{'loss': 1.93, 'epoch': 0.1}", DIED.format(-9)), False),
        (("Namespace(offload_optimizer='none')", *ANNOUNCED, DIED.format(-9)), False),
        ((*ANNOUNCED, *kill(used=190.0, total=200.0)), False),
        ((*ANNOUNCED, *["waiting"] * 9, DIED.format(-9)), False),  # it is long over
    ],
)
def test_a_kill_where_deepspeed_makes_the_states(lines: tuple[str, ...], *, seen: bool) -> None:
    assert (offload.killed_while_states_were_made(crash(*lines)) is not None) is seen


def test_states_that_were_made_stand_before_the_kill_that_nothing_explains() -> None:
    decision = decide(crash(*ANNOUNCED, DIED.format(-9)))
    assert decision.verdict == "inconclusive"
    assert [one.cause.id for one in decision.answers[:2]] == ["cpu-offload-overcommit", "killed-without-evidence"]
