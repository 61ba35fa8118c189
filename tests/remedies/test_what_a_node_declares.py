"""Ray compares a request with what nodes and node types declare: which file, which option, which pod."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

ERROR = (
    "(autoscaler +25s) Error: No available node types can fulfill resource request {{{asked}}}. Add suitable node "
    "types to this cluster to resolve this issue.\n"
)
LAUNCHER = "available_node_types:\n  big:\n    min_workers: 0\n    max_workers: 6\n"
KUBERAY = "kind: RayCluster\nspec:\n  workerGroupSpecs:\n  - groupName: big\n    rayStartParams: {}\n"
FOUND_NONE = (
    "WARNING resource_demand_scheduler.py:801 -- The autoscaler could not find a node type to satisfy the request: "
    "[{{{asked}}}]. Please specify a node type with the necessary resources.\n"
)
STATUS = (
    "======== Autoscaler status: 2031-01-02 03:04:05.678901 ========\nResources\n----\nUsage:\n 0.0/16.0 CPU\n"
    " 0.0/2.0 GPU\n{rows}\nDemands:\n {{}}\n"
)
BIG = "'CPU': 7.0, 'GPU': 2.0"
LARGER = "'CPU': 7.0, 'GPU': 4.0"
SPECIAL = "'fast_disk': 0.25, 'CPU': 3.0"


def best(tmp_path: Path, log: str) -> dict[str, Any]:
    first: dict[str, Any] = body(tmp_path, log)["diagnoses"][0]
    assert first["cause"] == "ray-unschedulable"
    return first


def remedies(tmp_path: Path, log: str) -> dict[str, dict[str, Any]]:
    """In their order."""
    return {each["knob"]: each for each in best(tmp_path, log)["remedies"]}


@pytest.mark.parametrize(
    ("log", "lines"),
    [
        (
            ERROR.format(asked=BIG) + LAUNCHER,
            ['available_node_types: {TYPE: {resources: {"CPU": 7, "GPU": 2}}}   # ray up'],
        ),
        (
            ERROR.format(asked=SPECIAL) + LAUNCHER,
            ['available_node_types: {TYPE: {resources: {"CPU": 3, "fast_disk": 1}}}   # ray up'],
        ),
        (
            KUBERAY + ERROR.format(asked=BIG),
            ['rayStartParams: {num-cpus: "7", num-gpus: "2"}   # KubeRay, workerGroupSpecs'],
        ),
        (
            KUBERAY + ERROR.format(asked=SPECIAL),
            [
                'rayStartParams: {num-cpus: "3", resources: \'"{\\"fast_disk\\": 1}"\'}   # KubeRay, workerGroupSpecs',
            ],
        ),
        (
            FOUND_NONE.format(asked="'CPU': 2.0"),
            [
                'available_node_types: {TYPE: {resources: {"CPU": 2}}}   # ray up',
                'rayStartParams: {num-cpus: "2"}   # KubeRay, workerGroupSpecs',
            ],
        ),
    ],
)
def test_an_autoscaler_is_told_what_its_nodes_have(tmp_path: Path, log: str, lines: list[str]) -> None:
    knob, first = next(iter(remedies(tmp_path, log).items()))
    assert knob == "add-nodes"
    assert first["snippet"].split("\n") == lines


@pytest.mark.parametrize(
    "log",
    [
        ERROR.format(asked=BIG),  # Ray without an autoscaler says it, too
        ERROR.format(asked=BIG) + "pool:\n  max_workers: 6\n",  # of any pool of threads
        LAUNCHER + STATUS.format(rows="").replace(" {}\n", f" {{{LARGER}}}: 3+ pending tasks/actors\n"),
        ERROR.format(asked="'node:10.0.0.7': 0.001, 'GPU': 1.0") + LAUNCHER,  # one node, and none of a type
    ],
)
def test_without_one_or_without_its_word_no_node_type_is_named(tmp_path: Path, log: str) -> None:
    assert all("node type" not in each["action"] for each in remedies(tmp_path, log).values())


@pytest.mark.parametrize(("asked", "less"), [("'CPU': 1.0", False), ("'GPU': 0.5", False), ("'CPU': 2.0", True)])
def test_less_is_asked_for_where_it_can_be(tmp_path: Path, asked: str, *, less: bool) -> None:
    assert ("fix-resource-request" in remedies(tmp_path, FOUND_NONE.format(asked=asked))) is less


@pytest.mark.parametrize(
    ("log", "names"),
    [
        (ERROR.format(asked=SPECIAL), "fast_disk"),
        (ERROR.format(asked=SPECIAL) + STATUS.format(rows=" 0.0/4.0 shelf"), "fast_disk"),
        ("ray start --head --resources='{\"shelf\": 1}'\n" + ERROR.format(asked=SPECIAL), "fast_disk"),
        ("ray start --head --resources='{\"fast_disk\": 1}'\n" + ERROR.format(asked=SPECIAL), None),
        (ERROR.format(asked=SPECIAL) + STATUS.format(rows=" 0.0/4.0 fast_disk"), None),
        (ERROR.format(asked=SPECIAL) + LAUNCHER, None),  # there it is a matter of the node type
        (ERROR.format(asked=BIG), None),
        (ERROR.format(asked="'TPU': 4.0"), None),  # Ray finds them
        (ERROR.format(asked="'neuron_cores': 4.0"), None),
        (ERROR.format(asked="'accelerator_type:T4': 0.001, 'GPU': 1.0"), None),
        (ERROR.format(asked="'fast disk$(reboot)': 1.0, 'GPU': 1.0"), None),
    ],
)
def test_a_custom_resource_is_declared_by_a_node(tmp_path: Path, log: str, names: str | None) -> None:
    chosen = remedies(tmp_path, log)
    snippets = [each["snippet"] or "" for each in chosen.values()]
    line = f"ray start --address=HEAD:PORT --resources='{{\"{names}\": 1}}'"
    assert [each for each in snippets if "--resources" in each] == ([line] if names else [])
    if names:
        assert next(iter(chosen)) == "fix-resource-request"
        assert chosen["fix-resource-request"]["derivation"] == "0.25 fast_disk, rounded up = 1"


JOINS = "2031-02-03 04:05:06,789 INFO worker.py:1660 -- Connecting to existing Ray cluster at address: {head}:6379...\n"
OF_VLLM = (
    ERROR.format(asked="'node:10.0.0.7': 0.001, 'GPU': 1.0")
    + "INFO 02-03 04:06:00 ray_utils.py:212] Waiting for creating a placement group of specs for 40 seconds. "
    "specs=[{'node:10.0.0.7': 0.001, 'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` to see if you have enough "
    "resources.\n"
)


@pytest.mark.parametrize(
    ("head", "is_another"), [("192.168.4.7", True), ("10.0.0.7", False), ("127.0.0.1", False), ("head.local", False)]
)
def test_the_head_has_an_address_that_vllm_can_be_given(tmp_path: Path, head: str, *, is_another: bool) -> None:
    first = best(tmp_path, JOINS.format(head=head) + OF_VLLM)["remedies"][0]
    assert first["setting"] == "VLLM_HOST_IP"
    assert first["snippet"].startswith(f"export VLLM_HOST_IP={head} ") is is_another
    assert "ray list nodes" in first["snippet"]


WAITS = (
    "INFO 02-03 04:06:00 ray_utils.py:212] Waiting for creating a placement group of specs for 70 seconds. "
    "specs=[{'GPU': 1.0, 'node:xyz': 0.001}, {'GPU': 1.0}, {'GPU': 1.0}]. Check `ray status` to see if you have "
    "enough resources.\n"
)
ROW = "demo-ray-gpu-worker-b7x2k   0/1     {state}   0          5m20s\n"
UP = "demo-ray-head-9fk3d   1/1     Running   0          5m21s\n"


@pytest.mark.parametrize(
    ("state", "is_down"),
    [
        ("Init:0/2", True),
        ("Init:ErrImagePull", True),
        ("Pending", True),
        ("ContainerCreating", True),
        ("CrashLoopBackOff", True),
        ("Running", False),
        ("Completed", False),
        ("Error", False),  # as the pod that has submitted the job ends
        ("Pendings", False),
    ],
)
def test_a_pod_that_does_not_run_comes_first(tmp_path: Path, state: str, *, is_down: bool) -> None:
    knob, first = next(iter(remedies(tmp_path, WAITS + UP + ROW.format(state=state)).items()))
    assert (first["snippet"] == "kubectl describe pod demo-ray-gpu-worker-b7x2k") is is_down
    assert (knob == "add-nodes") is is_down
    assert (f"({state})" in first["action"]) is is_down


def test_headline_and_text_count_the_same_bundles(tmp_path: Path) -> None:
    first = best(tmp_path, WAITS)
    assert "a placement group of 3 x (1 GPU)" in first["headline"]
    assert "3 x 1 GPU: still waiting" in first["explanation"]
    assert "waited for 70 s" in first["explanation"]


@pytest.mark.parametrize(
    ("line", "scales"),
    [
        ("(autoscaler +5s) Adding 2 node(s) of type big.\n", True),
        (">>> ray.autoscaler.sdk.request_resources(num_cpus=9)\n", True),
        ("head_node_type: small\n", True),
        ("Adding 2 replicas of type big.\n", False),
        (">>> client.request_resources(num_cpus=9)\n", False),
    ],
)
def test_what_shows_an_autoscaler(tmp_path: Path, line: str, *, scales: bool) -> None:
    first = next(iter(remedies(tmp_path, line + ERROR.format(asked=BIG)).values()))
    assert ("in one node type of the autoscaler" in first["action"]) is scales


BOUND = (
    "======== Autoscaler status: 2031-01-02 03:04:05.678901 ========\nNode status\n-----------\nHealthy:\n 1 node_8\n"
    "Resources\n-----------\nTotal Usage:\n 2.0/8.0 CPU\n\nDemands:\n "
    "{%s'node:10.1.2.3': 0.01}: 2+ pending tasks/actors\n"
)


@pytest.mark.parametrize(
    ("beside", "started"), [("", "Start Ray on node"), ("'CPU': 1.0, ", "Start Ray with 1 CPU on")]
)
def test_a_request_that_is_bound_to_a_node(beside: str, started: str, tmp_path: Path) -> None:
    first = body(tmp_path, BOUND % beside)["diagnoses"][0]
    assert first["remedies"][0]["action"].startswith(started)
