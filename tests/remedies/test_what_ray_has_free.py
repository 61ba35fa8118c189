"""What is requested of Ray, what is free in the cluster or on one node, and what there is in all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

GROUP = "5d0c1b2a39485766a1b2c3d4e5f60718"
ON_NODE = (
    "WARNING worker.py:1072 -- The actor or task with ID ffffffffffffffff3c21aa0b0100 cannot be scheduled right now. "
    "It requires {{{asked}}} for placement, but this node only has remaining {left}. In total there are 2 pending "
    "tasks and 1 pending actors on this node."
)
TUNE = "Resources requested: {used}/24 CPUs, 0/2 GPUs, 0.0/40.5 GiB heap, 0.0/12.1 GiB objects{groups}"
PENDING = "Number of trials: 3/3 (3 PENDING)"
SERVE = (
    "WARNING 2025-01-02 03:04:05,100 controller 77 -- Deployment 'Embed' in application 'docs' has 1 replicas that "
    "have taken more than 30s to be scheduled. Resources required for each replica: {{{asked}}}, total resources "
    "available: {{{free}}}. Use `ray status` for more details."
)
VERL = (
    '  File "/srv/verl/trainer/ppo/ray_trainer.py", line 130, in _check_resource_available\n'
    "ValueError: Total available GPUs {free} is less than total desired GPUs {asked}"
)
NO_GPU = (
    "(autoscaler +20s) Error: No available node types can fulfill resource request {{'CPU': 2.0, 'GPU': {gpus}}}. Add "
    "suitable node types to this cluster to resolve this issue.\n"
    "======== Autoscaler status: 2026-03-01 10:00:00.000000 ========\nResources\nUsage:\n 0.0/16.0 CPU\n{rows}"
    "Demands:\n {{'CPU': 2.0, 'GPU': {gpus}}}: 1+ pending tasks/actors"
)


def told(tmp_path: Path, log: str) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    best = body(tmp_path, log)["diagnoses"][0]
    return best, [(remedy["knob"], remedy["snippet"] or "") for remedy in best["remedies"]]


@pytest.mark.parametrize(
    ("log", "headline", "words"),
    [
        (ON_NODE.format(asked="CPU: 2.000000", left="{GPU: 0.500000}"), "2 CPUs requested, 0 free on this node", ""),
        (
            TUNE.format(used=9, groups="") + "\n" + ON_NODE.format(asked="CPU: 2.000000", left="{CPU: 1.000000}"),
            "2 CPUs requested, 1 free on this node",
            "Of the cluster's 24 CPU, 9 are in use.",
        ),
        (SERVE.format(asked='"CPU": 4.0', free='"CPU": 3.0'), "4 CPUs requested, 3 free in the cluster", ""),
        (SERVE.format(asked='"GPU": 1.0', free=""), "1 GPU requested, 0 free in the cluster", ""),
        (
            VERL.format(free=8.0, asked=24),
            "24 GPUs requested, 8 free in the cluster",
            "all nodes together have too little",
        ),
    ],
)
def test_what_is_free_is_not_all_that_there_is(tmp_path: Path, log: str, headline: str, words: str) -> None:
    best, _ = told(tmp_path, log)
    assert headline in best["headline"]
    assert words in best["explanation"]
    assert "in the cluster." not in best["explanation"].replace("free in the cluster.", "")
    assert "The cluster has" not in best["explanation"]


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (ON_NODE.format(asked="CPU: 1.000000", left="{GPU: 0.500000}"), "@ray.remote(num_cpus=0.5)"),
        (ON_NODE.format(asked="CPU: 1.000000}, {GPU: 1.000000", left="{CPU: 3.000000}"), "ray status"),
        (
            SERVE.format(asked='"CPU": 3.0', free='"CPU": 12.0'),
            '@serve.deployment(ray_actor_options={"num_cpus": 1.5})',
        ),
        (VERL.format(free=8.0, asked=24), "trainer.nnodes=N trainer.n_gpus_per_node=M   # N x M = 8"),
        (
            "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=4 trainer.nnodes=6\n"
            + VERL.format(free=9.0, asked=24),
            "trainer.nnodes=2",
        ),
        (
            "python3 -m verl.trainer.main_ppo trainer.n_gpus_per_node=12 trainer.nnodes=2\n"
            + VERL.format(free=9.0, asked=24),
            "trainer.nnodes=N trainer.n_gpus_per_node=M   # N x M = 9",
        ),
        (NO_GPU.format(gpus=1.0, rows=""), "ray.init(num_gpus=1)"),
        (NO_GPU.format(gpus=0.5, rows=" 0.0/0.0 GPU\n"), "ray.init(num_gpus=1)"),
        (NO_GPU.format(gpus=2.0, rows=" 0.0/1.0 GPU\n"), "ray status"),
    ],
)
def test_the_first_line_changes_the_request(tmp_path: Path, log: str, line: str) -> None:
    _, lines = told(tmp_path, log)
    assert lines[0][0] == "fix-resource-request"
    assert lines[0][1].startswith(line)


def test_nodes_of_verl_add_up(tmp_path: Path) -> None:
    best, lines = told(tmp_path, VERL.format(free=8.0, asked=24))
    assert any("16 GPU more in all" in remedy["action"] for remedy in best["remedies"])
    assert ("fix-environment", 'ray.init(address="auto")   # or: export RAY_ADDRESS=auto') in lines


@pytest.mark.parametrize(("gpus", "adds_up"), [(1.0, False), (4.0, True)])
def test_one_of_each_is_on_one_node_anyway(tmp_path: Path, gpus: float, adds_up: bool) -> None:
    best, _ = told(tmp_path, NO_GPU.format(gpus=gpus, rows="").replace("'CPU': 2.0", "'CPU': 1.0"))
    action = next(remedy["action"] for remedy in best["remedies"] if remedy["knob"] == "add-nodes")
    assert ("do not add up" in action) is adds_up


@pytest.mark.parametrize(
    ("asked", "free", "enough"),
    [('"CPU": 2.0', '"CPU": 9.0', True), ('"CPU": 9.0', '"CPU": 9.0', True), ('"CPU": 9.5', '"CPU": 9.0', False)],
)
def test_enough_is_free_in_all(tmp_path: Path, asked: str, free: str, enough: bool) -> None:
    best, _ = told(tmp_path, SERVE.format(asked=asked, free=free))
    assert ("either no node has as much by itself" in best["explanation"]) is enough
    assert ("taken" in best["remedies"][0]["action"]) is not enough


@pytest.mark.parametrize(
    ("log", "sure"),
    [
        ("\n".join([SERVE.format(asked='"CPU": 2.0', free='"CPU": 9.0')] * 4), False),
        (VERL.format(free=8.0, asked=24), True),
        (NO_GPU.format(gpus=1.0, rows=""), True),
    ],
)
def test_what_may_be_placed_later_is_not_certain(tmp_path: Path, log: str, sure: bool) -> None:
    best, _ = told(tmp_path, log)
    assert (best["confidence"] > 0.8) is sure
    assert bool(best["against"]) is not sure


def trials(groups: str, used: int = 0) -> str:
    return "\n".join([TUNE.format(used=used, groups=groups), PENDING] * 2)


@pytest.mark.parametrize(
    ("groups", "held"),
    [
        (f" (0.0/3.0 CPU_group_{GROUP}, 0.0/1.0 CPU_group_0_{GROUP}, 0.0/2.0 CPU_group_1_{GROUP})", "3 CPUs"),
        (f" (0.0/1.0 CPU_group_0_{GROUP}, 0.0/1.0 GPU_group_{GROUP}, 0.0/1.0 CPU_group_{GROUP})", "1 GPU, 1 CPU"),
        (f" (0.0/1.0 CPU_group_{GROUP}, 1.0/1.0 CPU_group_0_{GROUP})", None),
        ("", None),
    ],
)
def test_what_groups_hold_in_vain(tmp_path: Path, groups: str, held: str | None) -> None:
    best, lines = told(tmp_path, trials(groups))
    assert (f"reserved {held} for a trial" in best["headline"]) is (held is not None)
    assert ([knob for knob, _ in lines] == ["fix-environment"]) is (held is not None)
    assert (lines[0][1] == "tail -n 20 /tmp/ray/session_latest/logs/worker-*.err") is (held is not None)
