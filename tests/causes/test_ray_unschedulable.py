from __future__ import annotations

from pathlib import Path

import pytest
from gpu_logs import finding, ranking, says
from host_logs import TRAINERS, kill
from system_logs import crashes_of

from oomdoctor import diagnose
from oomdoctor.causes.ray_unschedulable import CAUSE
from oomdoctor.signs import Grade

WAITS = (
    "(autoscaler +1m55s) Warning: The following resource request cannot be scheduled right now: {'GPU': 1.0, "
    "'CPU': 1.0}. This is likely due to all cluster resources being claimed by actors. Consider creating fewer "
    "actors or adding more nodes to this Ray cluster."
)
NEVER = (
    "(autoscaler +11s) Error: No available node types can fulfill resource request {'CPU': 1.0, 'GPU': 8.0}. Add "
    "suitable node types to this cluster to resolve this issue."
)
TABLE = (
    "======== Autoscaler status: 2026-03-01 10:00:00.000000 ========",
    "Resources",
    "Usage:",
    " 0.0/96.0 CPU",
    " 0.0/1.0 GPU",
    " 0B/410.20GiB memory",
    "Demands:",
    " {'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK): 1+ pending placement groups",
)
LAUNCH = (
    "ray start --head --num-cpus=4 --num-gpus=4",
    (
        "ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --actor_num_nodes 1 --actor_num_gpus_per_node 2 "
        "--ref_num_nodes 1 --ref_num_gpus_per_node 2 --reward_num_nodes 1 --reward_num_gpus_per_node 1 "
        "--vllm_num_engines 2 --vllm_tensor_parallel_size 1"
    ),
)


TRIALS = (
    "Resources requested: {used}/8 CPUs, 0/2 GPUs, 0.0/12.5 GiB heap",
    "Number of trials: 2/2 (2 PENDING)",
)


@pytest.mark.parametrize(("used", "knob"), [(0, "fix-resource-request"), (8, "fix-environment")])
def test_nobody_holds_what_is_not_in_use(used: int, knob: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text("\n".join(line.format(used=used) for line in TRIALS * 2) + "\n")
    assert diagnose(str(log)).incidents[0].diagnoses[0].remedies[0].knob == knob


WITHIN = (
    "WARNING worker.py:1093 -- The actor or task with ID ffffffffffffffff4139de48 cannot be scheduled right now. It "
    "requires {{{asked}}} for placement, but this node only has remaining {{3.000000/4.000000 CPU, 0.000000/1.000000 "
    "CPU_group_1f0e2d3c4b5a69788796a5b4c3d2e1f0}}"
)


@pytest.mark.parametrize(
    ("asked", "group"),
    [
        ("CPU_group_1f0e2d3c4b5a69788796a5b4c3d2e1f0: 1.000000", "1f0e2d3c"),
        (
            (
                "bundle_group_1f0e2d3c4b5a69788796a5b4c3d2e1f0: 0.001000, "
                "CPU_group_1f0e2d3c4b5a69788796a5b4c3d2e1f0: 1.000000"
            ),
            "1f0e2d3c",
        ),
        ("CPU: 9.000000", None),
    ],
)
def test_inside_a_group_its_bundles_count(asked: str, group: str | None, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(WITHIN.format(asked=asked) + "\n")
    first = diagnose(str(log)).incidents[0].diagnoses[0]
    assert ("placement group" in first.headline) is (group is not None)
    assert group is None or group in first.headline
    assert group is None or ("bundle" not in first.headline and '{"CPU": 1}' in (first.remedies[0].snippet or ""))
    knobs = [remedy.knob for remedy in first.remedies]
    assert (knobs == ["fix-resource-request"]) is (group is not None)


def test_not_a_kill_for_memory() -> None:
    assert says(CAUSE, *kill(*TRAINERS)) is None


def test_not_a_request_that_was_served() -> None:
    later = [f"(PolicyModelActor pid=40{n}) step {n} loss 0.7" for n in range(10, 17)]
    assert ranking(WAITS, *later, *kill(*TRAINERS))[0] != "ray-unschedulable"


def test_one_that_may_still_be_served_says_so() -> None:
    assert "may have placed the request" in finding(CAUSE, WAITS).against[0]


def test_one_that_no_node_can_serve() -> None:
    found = finding(CAUSE, NEVER)
    assert found.grade is Grade.PROVES
    assert "1 CPU, 8 GPU: no node can serve the request" in found.why


def test_the_table_says_what_is_lacking() -> None:
    found = finding(CAUSE, *TABLE)
    assert found.grade is Grade.PROVES
    assert "GPU: 8 requested, 1 in the cluster" in found.why
    assert ranking(*TABLE)[0] == "ray-unschedulable"


def test_the_launch_line_is_added_up() -> None:
    why = finding(CAUSE, *LAUNCH, WAITS).why
    assert "2 (actor) + 2 (ref) + 1 (reward) + 2 x 1 (engines) = 7 GPUs" in why
    assert "GPUs missing: 3" in why


def test_colocated_models_count_once() -> None:
    launch = LAUNCH[1] + " --colocate_actor_ref"
    assert "2 (actor) + 1 (reward) + 2 x 1 (engines) = 5 GPUs" in finding(CAUSE, LAUNCH[0], launch, WAITS).why


def test_a_remote_reward_model_takes_no_gpu() -> None:
    launch = LAUNCH[1] + " --remote_rm_url http://10.0.0.3:5000/get_reward"
    assert "(reward)" not in finding(CAUSE, LAUNCH[0], launch, WAITS).why


def test_enough_is_free_but_on_no_node_alone() -> None:
    table = (
        "======== Autoscaler status: 2026-03-01 10:00:00.000000 ========",
        "Node status",
        "Active:",
        " 1 ray.head.default",
        " 3 ray.worker.small",
        "Pending:",
        " (no pending nodes)",
        "Resources",
        "Usage:",
        " 4.0/32.0 CPU",
        " 2.0/8.0 GPU",
        "Demands:",
        " {'CPU': 1.0, 'GPU': 4.0} * 1 (PACK): 1+ pending placement groups",
    )
    found = finding(CAUSE, *table)
    assert "enough is free in total, but not on one node" in found.why


def test_not_even_the_jobs_supervisor() -> None:
    line = "Job supervisor actor could not be scheduled: The actor is not schedulable: No node has the resources."
    assert "not even the job's supervisor could be placed" in finding(CAUSE, line).why


@pytest.mark.parametrize(("between", "waits"), [("*** SIGTERM received at time=1 on cpu 0 ***", True), ("", False)])
def test_what_is_printed_at_a_jobs_end_is_no_progress(between: str, waits: bool) -> None:
    later = [f"(pid=4{n}) @ 0x7f21c1a5a050 (unknown) (unknown)" for n in range(10, 20)]
    assert bool(crashes_of("\n".join((WAITS, between, *later)))) is waits
