"""What is advised for a container that was killed at its limit as soon as it was started, and for KubeRay's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from remedy_logs import advise, crashes_of

from oomdoctor import diagnose
from oomdoctor.families.container import LimitKill

YAML = """\
$ kubectl get pod {name} -o yaml | yq .status
lastState:
  terminated:
    exitCode: 137
    finishedAt: "2026-06-02T08:15:{end}Z"
    reason: OOMKilled
    startedAt: "2026-06-02T08:{start}Z"
"""
JSON = """\
"lastState": {{
    "terminated": {{
        "startedAt": "2026-06-02T08:{start}Z",
        "reason": "OOMKilled",
        "exitCode": 137,
        "finishedAt": "2026-06-02T08:15:{end}Z"
    }}
}}
"""


def first_of(folder: Path, text: str) -> dict[str, Any]:
    path = folder / "pod.log"
    path.write_text(text, encoding="utf-8")
    incident: dict[str, Any] = diagnose(path).as_json()["incidents"][0]["diagnoses"][0]
    return incident


@pytest.mark.parametrize("record", [YAML, JSON])
@pytest.mark.parametrize(
    ("start", "end", "seconds"),
    [("15:02", "14", 12), ("14:14", "14", 60), ("14:13", "14", None), ("15:20", "14", None), ("10:02", "14", None)],
)
def test_how_long_it_ran_is_told_of_one_that_died_at_its_start(
    record: str, start: str, end: str, seconds: int | None, tmp_path: Path
) -> None:
    first = first_of(tmp_path, record.format(name="trainer-0", start=start, end=end))
    assert first["cause"] == "container-limit"
    assert ("after the container started" in first["explanation"]) is (seconds is not None)
    assert seconds is None or f"hit {seconds} s after" in first["explanation"]
    knobs = advise(record.format(name="trainer-0", start=start, end=end), "clear-references", cause=first["cause"])[0]
    if start != "15:20":  # the other way round it says nothing
        assert ("clear-references" in knobs) is (seconds is None)


def test_times_of_another_state_are_not_the_containers() -> None:
    text = (
        "lastState:\n  terminated:\n    exitCode: 137\n    reason: OOMKilled\n"
        'state:\n  running:\n    startedAt: "2026-06-02T08:15:14Z"\n'
    )
    kill = crashes_of(text)[0].first(LimitKill)
    assert kill is not None
    assert kill.started is None
    assert kill.time is None


@pytest.mark.parametrize(
    ("name", "is_ray"),
    [("$RAY_HEAD", True), ("raycluster-demo-head-x7k2p", True), ("trainer-0", False), ("array-head-0", False)],
)
def test_the_pods_of_a_ray_cluster_are_made_from_it(name: str, *, is_ray: bool, tmp_path: Path) -> None:
    first = first_of(tmp_path, YAML.format(name=name, start="10:02", end="14"))
    raised = next(one for one in first["remedies"] if one["knob"] == "raise-container-limit")
    assert ("headGroupSpec.template" in raised["action"]) is is_ray
    assert ("pod spec" in raised["action"]) is not is_ray


@pytest.mark.parametrize(("name", "is_ray"), [("ray-head-0", True), ("trainer-0", False)])
def test_where_the_limit_is_printed_it_is_raised_there_too(name: str, *, is_ray: bool, tmp_path: Path) -> None:
    text = YAML.format(name=name, start="10:02", end="14") + "resources:\n  limits:\n    memory: 12Gi\n"
    first = first_of(tmp_path, text)
    raised = next(one for one in first["remedies"] if one["knob"] == "raise-container-limit")
    assert "12.00 GiB" in raised["action"]
    assert ("headGroupSpec.template" in raised["action"]) is is_ray
    assert ("kubectl edit raycluster" in raised["snippet"]) is is_ray
    assert ("kubectl set resources statefulset trainer -c " in raised["snippet"]) is not is_ray
