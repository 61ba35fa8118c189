from __future__ import annotations

import pytest
from gpu_logs import finding, frame, missing, ranking, ruled_out, says
from host_logs import REWARD_SERVER, kill

from oomdoctor.causes.cpu_offload_overcommit import CAUSE
from oomdoctor.signs import Grade

TRAINERS = tuple((5300 + n, 52.0, "ray::PolicyModelActor.fit") for n in range(4))


def test_not_without_a_word_of_offloading() -> None:
    assert says(CAUSE, *kill(*TRAINERS)) is None


def test_not_where_it_is_switched_off() -> None:
    assert says(CAUSE, "Namespace(adam_offload=False, zero_stage=2)", *kill(*TRAINERS)) is None


def test_not_the_engine_s_default_swap() -> None:
    assert says(CAUSE, "Namespace(swap_space=4, n_gpus_per_node=8)", *kill(*TRAINERS)) is None


def test_not_much_where_somebody_else_holds_the_memory() -> None:
    found = finding(CAUSE, "Namespace(adam_offload=True)", *kill(REWARD_SERVER))
    assert found.grade is Grade.HINTS


def test_the_optimizer_is_on_the_host() -> None:
    lines = ("Namespace(adam_offload=True, zero_stage=3)", *kill(*TRAINERS))
    found = finding(CAUSE, *lines)
    assert "adam_offload True" in found.why
    assert "208.00 GiB" in found.why
    assert ranking(*lines)[0] == "cpu-offload-overcommit"


def test_swap_space_of_all_gpus_against_the_node() -> None:
    found = finding(CAUSE, "Namespace(swap_space=40, n_gpus_per_node=8)", *kill(used=600.0, total=630.0))
    assert "40 GiB x 8 GPUs = 320.00 GiB: 51% of the node's 630.00 GiB" in found.why
    assert found.grade is Grade.PROVES


def test_not_swap_space_of_all_gpus_that_the_node_can_bear() -> None:
    why = ruled_out(CAUSE, "Namespace(swap_space=8, n_gpus_per_node=2)", *kill(*TRAINERS))
    assert "8 GiB x 2 GPUs = 16.00 GiB: 6.4% of the node's 251.60 GiB" in why


def test_swap_space_of_one_gpu_proves_nothing_where_their_number_is_not_known() -> None:
    assert "how many GPUs" in missing(CAUSE, "Namespace(swap_space=16)", *kill(*TRAINERS))
    assert "160 GiB per GPU: 64%" in finding(CAUSE, "Namespace(swap_space=160)", *kill(*TRAINERS)).why


def test_not_ruled_out_by_swap_space_where_states_are_offloaded_as_well() -> None:
    found = finding(CAUSE, "Namespace(swap_space=8, n_gpus_per_node=2, adam_offload=True)", *kill(*TRAINERS))
    assert "adam_offload True" in found.why


def test_an_offloaded_cache_is_one_for_all_ranks() -> None:
    lines = ("Namespace(kv_offloading_size=200, n_gpus_per_node=8)", *kill(used=600.0, total=630.0))
    assert "200 GiB per engine: 32% of the node's 630.00 GiB" in finding(CAUSE, *lines).why


def test_swap_space_that_the_engine_refuses() -> None:
    line = (
        "ValueError: Too large swap space. 96.00 GiB out of the 125.60 GiB total CPU memory is allocated for the "
        "swap space."
    )
    assert finding(CAUSE, line).grade is Grade.PROVES


PARTITIONS = (
    "Traceback (most recent call last):",
    *frame("deepspeed/runtime/zero/parameter_offload.py", "_convert_to_zero_parameters", "param.partition()"),
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:73] . DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 30064771072 bytes. Error code 12 (Cannot allocate memory)"
    ),
)
OFFLOADS = "Namespace(offload_param='cpu', zero_stage=3)"
FREE = (
    "              total        used        free      shared",
    "Mem:           125G         {used}         {free}         31M",
)


def _free(used: str, free: str) -> tuple[str, ...]:
    return tuple(line.format(used=used, free=free) for line in FREE)


def test_an_allocation_refused_for_offloaded_parameters() -> None:
    assert finding(CAUSE, *PARTITIONS).grade is Grade.NAMES


def test_free_memory_speaks_against_offloading_that_nobody_set() -> None:
    found = finding(CAUSE, *PARTITIONS, *_free("3.1G", "121G"))
    assert found.grade is Grade.POINTS
    assert found.against == ("121.90 GiB of RAM is unused, and no setting in the log offloads states",)


def test_too_little_free_memory_does_not_speak_against_it() -> None:
    assert finding(CAUSE, *PARTITIONS, *_free("112G", "13G")).grade is Grade.NAMES


def test_free_memory_does_not_speak_against_a_setting() -> None:
    assert finding(CAUSE, OFFLOADS, *PARTITIONS, *_free("3.1G", "121G")).grade is Grade.NAMES


def test_ranks_that_offload_and_a_kill_of_one_of_them() -> None:
    offload = "[INFO] offload_optimizer=DeepSpeedZeroOffloadOptimizerConfig(device='cpu', nvme_path=None)"
    killed = (
        "[9.1] Out of memory: Killed process 31 (python) total-vm:90000000kB, anon-rss:60000000kB, file-rss:8kB, "
        "shmem-rss:0kB, UID:0 pgtables:1000kB oom_score_adj:0"
    )
    assert "Every rank on the node" in finding(CAUSE, "deepspeed --num_gpus 8 fit.py", offload, killed).why
    assert "Every rank" not in finding(CAUSE, "deepspeed --num_gpus 1 fit.py", offload, killed).why


HOST_POOLS = tuple(
    f"[2026-01-14 10:00:0{rank} TP{rank}] Allocating 96.00 GB host memory for hierarchical KV cache."
    for rank in range(4)
)


def test_host_pools_of_all_ranks_against_the_node() -> None:
    found = finding(CAUSE, *HOST_POOLS, *kill(used=600.0, total=630.0))
    assert "357.63 GiB (89.41 GiB + 89.41 GiB + 89.41 GiB + 89.41 GiB)" in found.why
    assert "57% of the node's 630.00 GiB" in found.why
    assert found.grade is Grade.PROVES


def test_not_a_host_pool_that_the_node_can_bear() -> None:
    assert says(CAUSE, HOST_POOLS[0], *kill(used=600.0, total=630.0)) is None


def test_a_host_pool_of_a_node_of_which_nothing_is_printed_is_a_hint() -> None:
    found = finding(CAUSE, HOST_POOLS[0], "Killed")
    assert "89.41 GiB of weights and KV cache in host memory" in found.why
    assert found.grade is Grade.HINTS
    assert "the node's memory size" in found.against[0]


def test_a_kill_in_the_step_of_the_optimizer_on_the_host() -> None:
    step = frame("deepspeed/ops/adam/cpu_adam.py", "step", "self.ds_opt_adam.adam_update(")
    switched = "Namespace(adam_offload=True)"
    assert finding(CAUSE, switched, "Traceback (most recent call last):", *step, "Killed").grade is Grade.NAMES
    assert finding(CAUSE, switched, "Killed").grade is Grade.POINTS


@pytest.mark.parametrize(
    ("device", "where"), [("nvme", "buffers for them in host memory"), ("cpu", "states in host memory")]
)
def test_states_on_a_disk_are_not_in_ram(device: str, where: str) -> None:
    config = f'"zero_optimization": {{"stage": 3, "offload_optimizer": {{"device": "{device}"}}}}'
    assert where in finding(CAUSE, config, "run.sh: line 3:  71 Killed                  deepspeed fit.py").why
