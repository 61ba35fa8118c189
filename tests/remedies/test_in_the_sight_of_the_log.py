"""What the log shows to be far from full, elsewhere, of one machine or already listed, is not asked for again."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import run_text
from remedy_logs import advise, kill

from oomdoctor import diagnose
from oomdoctor.report.contract import Diagnosis

WORKERS, NODE, NODES, SHARDS = "fewer-workers", "more-host-memory", "add-nodes", "shard-states"
VERL = "python3 -m verl.trainer.main_ppo trainer.nnodes=1\n"
PINS = (
    "│ /srv/site-packages/torch/accel/host.py:41 in pin_memory                          │\n"
    "│                                                                                  │\n"
    "│   40 │   def pin_memory(self, tensor):                                            │\n"
    "│ ❱ 41 │   │   return tensor.pin_memory()                                           │\n"
    "│   42                                                                             │\n"
)
USED = (
    "[2024-02-03 04:05:06,700] [INFO] [utils.py:800:see_memory_usage] Before the states\n"
    "[2024-02-03 04:05:06,701] [INFO] [utils.py:801:see_memory_usage] MA 1.5 GB         Max_MA 1.5 GB         "
    "CA 1.75 GB         Max_CA 2 GB\n"
    "[2024-02-03 04:05:06,702] [INFO] [utils.py:808:see_memory_usage] CPU Virtual Memory:  used = {used} GB, "
    "percent = {percent}%\n"
)
AVERAGES = (
    'Traceback (most recent call last):\n  File "fit.py", line 90, in main\n    {code}\n'
    '  File "/x/site-packages/torch/distributed/distributed_c10d.py", line 2806, in all_reduce\n'
    "    work = group.allreduce([tensor], opts)\n"
    "torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:328, unhandled cuda error, NCCL version 2.26.2\n"
    "ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 512 bytes\n"
)
WORLDS = (
    "from isaacgym import gymapi\n{}Physics Engine: PhysX\n"
    "PxgCudaDeviceMemoryAllocator fail to allocate memory 41943040 bytes!! Result = 2\n"
)


def first(tmp_path: Path, text: str) -> Diagnosis:
    log = tmp_path / "job.log"
    log.write_text(text)
    return diagnose(log).incidents[0].diagnoses[0]


def knobs(tmp_path: Path, text: str) -> list[str]:
    return [one.knob for one in first(tmp_path, text).remedies]


@pytest.mark.parametrize(
    ("used", "percent", "advised"), [("7.30", "14.6", False), ("24.90", "49.8", False), ("31.00", "62.0", True)]
)
def test_a_node_that_is_mostly_free_need_not_be_larger(used: str, percent: str, advised: bool) -> None:
    log = USED.format(used=used, percent=percent) + PINS
    assert (NODE in advise(log, NODE, cause="pinned-memory-exhausted")[0]) is advised


def test_a_job_that_was_killed_grew_behind_its_own_prints() -> None:
    killed = USED.format(used="7.30", percent="14.6") + "run.sh: line 3: 4242 Killed    python fit.py\n"
    assert NODE in advise(killed, NODE, cause="killed-without-evidence")[0]


def test_what_is_printed_behind_the_failure_says_nothing_of_it() -> None:
    assert NODE in advise(PINS, NODE, cause="pinned-memory-exhausted")[0]
    assert NODE in advise(PINS + USED.format(used="2.00", percent="4.0"), NODE, cause="pinned-memory-exhausted")[0]


def test_what_was_in_use_speaks_against_a_failure_to_pin(tmp_path: Path) -> None:
    found = first(tmp_path, USED.format(used="7.30", percent="14.6") + PINS)
    assert found.cause == "pinned-memory-exhausted"
    assert found.against[1] == "only 15% of the node's memory was in use at the last report"
    full = first(tmp_path, USED.format(used="49.00", percent="98.0") + PINS)
    assert not any("last report" in one for one in full.against)
    assert not any("last report" in one for one in first(tmp_path, PINS).against)


@pytest.mark.parametrize(
    ("line", "given"),
    [
        ("INFO worker.py:1786 -- Started a local Ray instance.", False),
        ("INFO worker.py:1600 -- Connected to Ray cluster.", True),
        ("INFO worker.py:1432 -- Connecting to existing Ray cluster at address: 10.4.5.6:6379...", True),
        ("(raylet) Started a local worker.", True),
    ],
)
def test_a_ray_of_one_machine_has_no_nodes_to_add(line: str, given: bool) -> None:
    killed = kill(59.0, 62.0, "")
    assert (NODES in advise(f"{line}\n{killed}", NODES)[0]) is given


@pytest.mark.parametrize(
    ("smallest", "whole"), [("0.20", True), ("3.70", True), ("4.00", False), ("14.00", False), (None, False)]
)
def test_a_table_that_goes_down_to_small_ones_lists_all_of_a_kind(smallest: str | None, whole: bool) -> None:
    rows = "".join(f"{30 + each}\t15.00\tray::Sampler.run\n" for each in range(4))
    if smallest is not None:
        rows += f"99\t{smallest}\tpython notebook.py\n"
    remedy = advise(kill(95.0, 100.0, rows), WORKERS, cause="too-many-workers")[0][WORKERS]
    assert ("of the same kind" in " ".join(remedy.assumes)) is not whole
    assert ("35.00 GiB of others" in str(remedy.derivation)) is whole


@pytest.mark.parametrize(
    ("used", "rows", "ahead"),
    [
        (870.0, "", True),
        (100.0, "", False),  # the one that was killed held 9 % of it
        (870.0, "71\t300.00\tpython store.py\n", False),
    ],
)
def test_workers_that_hold_next_to_nothing_come_behind_the_table(
    tmp_path: Path, used: float, rows: str, ahead: bool
) -> None:
    killed = kill(used, used / 0.955, rows).replace("LLMRayActor.__init__", "agent_loop_worker_2:AgentLoopWorker.run")
    if not rows:
        killed = killed.replace(" Top 10 memory users:\nPID\tMEM(GB)\tCOMMAND\n", "\n")
    listed = knobs(tmp_path, VERL + killed)
    assert (listed[0] == "collect-evidence") is ahead


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("dist.all_reduce(param.data, op=dist.ReduceOp.AVG)", False),
        ("dist.all_reduce(p.data)", False),
        ("dist.all_reduce(param.grad.data)", True),
        ("dist.all_reduce(loss)", True),
        ("dist.broadcast(param.data, 0)", True),
    ],
)
def test_parameters_that_a_loop_averages_itself_are_not_sharded(code: str, given: bool) -> None:
    assert (SHARDS in advise(AVERAGES.format(code=code), SHARDS, cause="non-torch-memory")[0]) is given


@pytest.mark.parametrize(("options", "ahead"), [("", True), ("+ python train.py num_envs=2048\n", False)])
def test_a_second_simulation_is_looked_for_before_what_nobody_stated(tmp_path: Path, options: str, ahead: bool) -> None:
    assert (knobs(tmp_path, WORLDS.format(options))[0] == "free-the-gpu") is ahead


def test_a_default_is_written_as_somebody_types_it(tmp_path: Path) -> None:
    remedies = {one.knob: one for one in first(tmp_path, WORLDS.format("")).remedies}
    buffers = remedies["resize-sim-buffers"]
    assert "8388608 (default) -> 4194304" in buffers.action
    assert "8388608" in " ".join(buffers.assumes)


@pytest.mark.parametrize(
    ("died", "shown"),
    [
        ("exits with return code = -7", True),
        ("exits with return code = -9", False),
    ],
)
def test_a_larger_shm_stands_before_a_smaller_batch(tmp_path: Path, died: str, shown: bool) -> None:
    log = tmp_path / "job.log"
    line = "[2024-02-03 04:05:06,700] [ERROR] [launch.py:321:sigkill_handler] ['python3', '-u', 'fit.py', {}] {}\n"
    log.write_text(line.format("'--per_device_train_batch_size', '6'", died))
    assert ("--shm-size=8g" in run_text("diagnose", str(log)).stdout) is shown
