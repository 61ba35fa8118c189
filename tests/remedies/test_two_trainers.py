"""A framework with two trainers has an option of each: written is that of the one that runs."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

from oomdoctor.remedies import Remedy

KNOBS = (
    "offload-optimizer",
    "offload-parameters",
    "gradient-checkpointing",
    "sequence-parallel",
    "shard-states",
    "lora",
)
STEP = '({worker} pid=611)   File "/opt/nemo_rl/models/policy/workers/w.py", line 40, in train\n'
VERL = '  File "/opt/verl/workers/actor/{file}.py", line 77, in update_policy\n'
MEGATRON = '  File "/opt/megatron/core/transformer/mlp.py", line 12, in forward\n'


def lines(log: str) -> dict[str, Remedy]:
    return advise(f"{log}torch.OutOfMemoryError: {cuda()}", *KNOBS, cause="activations")[0]


def written(found: dict[str, Remedy]) -> str:
    return " ".join(f"{one.setting} {one.snippet}" for one in found.values())


@pytest.mark.parametrize(
    ("worker", "own", "others"),
    [
        ("MegatronPolicyWorker", "megatron_cfg", ("dtensor_cfg", "fsdp_offload", "checkpointing_enabled")),
        ("DTensorPolicyWorker", "dtensor_cfg", ("megatron_cfg",)),
        ("DTensorPolicyWorkerV2", "dtensor_cfg", ("megatron_cfg",)),
    ],
)
def test_the_keys_of_nemo_rl_are_those_of_the_worker(worker: str, own: str, others: tuple[str, ...]) -> None:
    found = written(lines(STEP.format(worker=worker)))
    assert own in found
    assert not [other for other in others if other in found]


@pytest.mark.parametrize(
    ("above", "own", "other"),
    [
        (VERL.format(file="dp_actor"), "fsdp_config", ".megatron."),
        (VERL.format(file="megatron_actor") + MEGATRON, ".megatron.", "fsdp_config"),
    ],
)
def test_the_keys_of_verl_are_those_of_its_strategy(above: str, own: str, other: str) -> None:
    found = written(lines(above))
    assert own in found
    assert other not in found
