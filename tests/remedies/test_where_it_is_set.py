"""An option where the log shows that it is set: on every node of a cluster, for the tasks of a step, in a window."""

from __future__ import annotations

import pytest
from remedy_logs import advise, cuda

STEP = (
    "slurmstepd: error: Detected 1 oom_kill event in StepId=90210.0. Some of the step tasks have been OOM Killed.\n"
    "srun: error: node17: {tasks}: Out Of Memory\n"
)
FREE = (
    "              total        used        free      shared  buff/cache   available\n"
    "Mem:         515000       90000      400000        1000       25000      {available}\n"
    "Swap:             0           0           0\n"
)
FULL = (
    "ray.exceptions.RayTaskError: ray::first() (pid=11, ip=10.3.0.1)\n"
    '  File "python/ray/_raylet.pyx", line 464, in ray._raylet.execute_task\n'
    "ray.exceptions.RayTaskError: ray::second() (pid=12, ip={other})\n"
    '  File "python/ray/_raylet.pyx", line 1591, in ray._raylet.CoreWorker.store_task_outputs\n'
    "ray.exceptions.ObjectStoreFullError: Failed to put object {name} in object store because it is full."
    "{size}\n"
)
SIZE = " Object size is 1073741824 bytes.\nThe local object store is full of objects that are still in scope"


def full(other: str, size: str = "") -> str:
    return FULL.format(other=other, name="ab" * 20, size=size)


def test_each_node_of_a_cluster_has_a_store_of_its_own() -> None:
    remedy = advise(full("10.3.0.2"), "bigger-object-store")[0]["bigger-object-store"]
    assert remedy.action == ("Make Ray's object store larger on every node: ray start --object-store-memory=BYTES")
    assert remedy.setting == "--object-store-memory"


@pytest.mark.parametrize("log", [full("10.3.0.1"), full("10.3.0.2").partition("\n")[2].partition("\n")[2]])
def test_a_program_with_one_node_states_it_itself(log: str) -> None:
    remedy = advise(log, "bigger-object-store")[0]["bigger-object-store"]
    assert remedy.action == "Make Ray's object store larger: ray.init(object_store_memory=BYTES)"


def test_a_store_that_is_started_by_hand_stays_as_it_is_spelled() -> None:
    remedy = advise("ray start --head\n" + full("10.3.0.2"), "bigger-object-store")[0]["bigger-object-store"]
    assert "every node" not in remedy.action
    assert remedy.setting == "--object-store-memory"


@pytest.mark.parametrize("tasks", ["tasks 4-7", "tasks 0,3"])
def test_tasks_that_ran_out_together_share_the_limit(tasks: str) -> None:
    remedy = advise(STEP.format(tasks=tasks), "fewer-workers", cause="container-limit")[0]["fewer-workers"]
    assert remedy.action == "Start fewer tasks on each node (--ntasks-per-node): they share the limit"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (STEP.format(tasks="task 4"), "one task"),
        (STEP.format(tasks="tasks 4-7") + "torch.OutOfMemoryError was not raised\n", "ranks of PyTorch"),
        (STEP.partition("\n")[0], "no task is named"),
    ],
)
def test_no_fewer_tasks_where_they_are_not_several(log: str, why: str) -> None:
    assert "fewer-workers" not in advise(log, "fewer-workers", cause="container-limit")[0], why


def test_what_the_node_has_says_how_far_a_limit_can_go() -> None:
    log = STEP.format(tasks="tasks 4-7") + FREE.format(available=420000)
    remedy = advise(log, "raise-container-limit", cause="container-limit")[0]["raise-container-limit"]
    assert remedy.derivation == "free after the failure: 410.16 GiB of 502.93 GiB available on the node"


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (STEP.format(tasks="tasks 4-7"), "no tool prints it"),
        (FREE.format(available=420000) + STEP.format(tasks="tasks 4-7"), "it was printed before"),
        (STEP.format(tasks="tasks 4-7") + FREE.format(available=0), "nothing is available"),
    ],
)
def test_nothing_is_said_of_a_node_that_nobody_measured(log: str, why: str) -> None:
    remedy = advise(log, "raise-container-limit", cause="container-limit")[0]["raise-container-limit"]
    assert remedy.derivation is None, why


def test_an_extension_of_the_web_ui_has_switches_and_no_flags() -> None:
    log = "***** Running training *****\nVAE ENCODE\nException training db: " + cuda(tried="1.00 GiB")
    chosen, _ = advise(log, "smaller-microbatch", "gradient-checkpointing")
    assert chosen["gradient-checkpointing"].snippet == "Gradient Checkpointing: on"
    assert chosen["smaller-microbatch"].snippet == "Batch Size: 1"


@pytest.mark.parametrize(
    ("above", "action"),
    [
        (
            "[Unload] Trying to free 900.00 MB for cuda:0 ... Done.\n",
            "Close other programs, or use a machine with more ",
        ),
        ('  File "/e/torch/nn/modules/module.py", line 9, in f\n', "Use a node with more memory"),
    ],
)
def test_what_runs_at_a_desk_runs_on_no_node(above: str, action: str) -> None:
    chosen, _ = advise(above + "Killed\n", "more-host-memory", cause="killed-without-evidence")
    assert chosen["more-host-memory"].action.startswith(action)
