from __future__ import annotations

import pytest

from oomdoctor.arithmetic import host, training
from oomdoctor.units import GIB


def test_swap_space_in_page_locked_powers_of_two() -> None:
    assert host.swap_space(40, 28, 8) == 448 * GIB
    assert host.swap_space(4, 28, 1) == 7 * GIB
    assert host.pinned(GIB) == GIB
    assert host.pinned(GIB + 1) == 2 * GIB


def test_adam_in_host_memory() -> None:
    assert host.adam(70_000_000_000) == 840_000_000_000
    assert host.adam(70_000_000_000, nodes=4) == 210_000_000_000


def test_model_states_by_stage() -> None:
    parameters = 70_553_706_496
    assert training.states_on_gpu(parameters, 32, 3) / 1e9 == pytest.approx(39.7, abs=0.05)
    assert training.states_on_gpu(parameters, 32, 3, optimizer_offloaded=True) / 1e9 == pytest.approx(4.4, abs=0.05)
    stages = [training.states_on_gpu(parameters, 8, stage) for stage in (0, 1, 2, 3)]
    assert stages == sorted(stages, reverse=True)


@pytest.mark.parametrize(
    ("stage", "offloaded", "per_parameter"),
    [
        (0, False, 16),
        (1, False, 4 + 12 / 8),
        (2, False, 2 + 18 / 8),
        (3, False, 18 / 8),
        (1, True, 2),
        (2, True, 2),
        (3, True, 2 / 8),
    ],
)
def test_what_each_stage_shards_over_eight_gpus(stage: int, offloaded: bool, per_parameter: float) -> None:
    assert training.states_on_gpu(8000, 8, stage, optimizer_offloaded=offloaded) == 8000 * per_parameter


def test_logits_are_recognised_by_their_size() -> None:
    assert training.tokens_of_logits(16384 * 152064 * 4, 152064) == 16384
    assert training.tokens_of_logits(64 * 152064 * 4, 152064) == 64
    assert training.tokens_of_logits(63 * 152064 * 4, 152064) is None
