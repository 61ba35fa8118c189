"""Placement groups whose strategy keeps all bundles on one node, beside those that may lie on several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose

STATUS = (
    "======== Autoscaler status: 2031-01-02 03:04:05.678901 ========\nNode status\n----\nActive:\n{nodes}\n"
    "Pending:\n (no pending nodes)\nRecent failures:\n (no failures)\n\nResources\n----\n"
    "Usage:\n 0.0/{cpus}.0 CPU\n 0.0/{gpus}.0 GPU\n 0B/64.00GiB memory\n 0B/9.00GiB object_store_memory\n\n"
    "Demands:\n {demand}: 1+ pending placement groups\n"
)
HEAD, TWO = " 1 node_5f1e", " 1 ray.head.default\n 1 ray.worker.default"


def incident(folder: Path, demand: str, *, gpus: int, cpus: int = 64, nodes: str = HEAD) -> dict[str, Any] | None:
    log = folder / "status.log"
    log.write_text(STATUS.format(demand=demand, gpus=gpus, cpus=cpus, nodes=nodes))
    found: list[dict[str, Any]] = diagnose(log).as_json()["incidents"]
    return found[0] if found else None


def remedies(folder: Path, demand: str, *, gpus: int, nodes: str = HEAD) -> dict[str, dict[str, Any]]:
    found = incident(folder, demand, gpus=gpus, nodes=nodes)
    assert found is not None
    return {each["knob"]: each for each in found["diagnoses"][0]["remedies"]}


@pytest.mark.parametrize(
    ("demand", "gpus", "needed"),
    [
        ("{'GPU': 1.0, 'CPU': 1.0} * 6 (STRICT_PACK)", 2, "6 GPU, 6 CPU"),
        ("{'GPU': 2.0, 'CPU': 3.0} * 4 (STRICT_PACK)", 2, "8 GPU, 12 CPU"),
        ("{'GPU': 4.0, 'CPU': 8.0} * 1 (STRICT_PACK)", 2, "4 GPU, 8 CPU"),
    ],
)
def test_one_node_has_to_have_all_of_them(demand: str, gpus: int, needed: str, tmp_path: Path) -> None:
    action = remedies(tmp_path, demand, gpus=gpus)["add-nodes"]["action"]
    assert action == f"Add a node that has {needed} by itself: smaller nodes do not add up"


@pytest.mark.parametrize("strategy", ["PACK", "SPREAD"])
def test_bundles_that_may_be_apart_add_up(strategy: str, tmp_path: Path) -> None:
    action = remedies(tmp_path, f"{{'GPU': 1.0, 'CPU': 1.0}} * 6 ({strategy})", gpus=2)["add-nodes"]["action"]
    assert "with 4 GPU more in all" in action


def test_a_row_of_several_kinds_is_not_summed(tmp_path: Path) -> None:
    """Only its first kind is read."""
    demand = "{'GPU': 1.0} * 6, {'CPU': 2.0} * 3 (STRICT_PACK)"
    assert "6 GPU" not in remedies(tmp_path, demand, gpus=0)["add-nodes"]["action"]


def test_the_report_says_why_one_node(tmp_path: Path) -> None:
    found = incident(tmp_path, "{'GPU': 1.0, 'CPU': 1.0} * 6 (STRICT_PACK)", gpus=2)
    assert found is not None
    assert "STRICT_PACK keeps them on one node: 6 GPU, 6 CPU." in found["diagnoses"][0]["explanation"]


@pytest.mark.parametrize(
    ("strategy", "gpus", "told"),
    [("STRICT_PACK", 8, True), ("PACK", 8, False), ("SPREAD", 8, False), ("STRICT_PACK", 16, False)],
)
def test_two_nodes_have_enough_together_and_none_alone(strategy: str, gpus: int, told: bool, tmp_path: Path) -> None:
    found = incident(tmp_path, f"{{'GPU': 1.0, 'CPU': 1.0}} * 8 ({strategy})", gpus=gpus, nodes=TWO)
    assert (found is not None and found["verdict"] == "oom") is told


def test_where_the_sum_is_there_another_strategy_is_enough(tmp_path: Path) -> None:
    found = remedies(tmp_path, "{'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK)", gpus=8, nodes=TWO)
    assert found["fix-resource-request"]["snippet"] == 'placement_group(BUNDLES, strategy="PACK")'
    assert "8 GPU, 8 CPU" in found["add-nodes"]["action"]


def test_where_the_sum_is_missing_no_strategy_helps(tmp_path: Path) -> None:
    found = remedies(tmp_path, "{'GPU': 1.0, 'CPU': 1.0} * 8 (STRICT_PACK)", gpus=2, nodes=TWO)
    assert "strategy=" not in (found["fix-resource-request"]["snippet"] or "")


def test_a_bundle_that_is_larger_than_a_node_is_no_matter_of_the_strategy(tmp_path: Path) -> None:
    found = remedies(tmp_path, "{'CPU': 1.0, 'GPU': 5.0} * 1 (STRICT_PACK)", gpus=8, nodes=TWO)
    assert "strategy=" not in (found["fix-resource-request"]["snippet"] or "")
