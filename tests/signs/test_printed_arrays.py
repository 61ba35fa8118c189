"""Arrays whose shapes a job prints, beside the memory that there was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import oomdoctor

DATA, LIMIT, BARE = "dataset-in-ram", "container-limit", "killed-without-evidence"
GROUP = """\
[ 90.10] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 90.11] memory: usage 2097152kB, limit 2097152kB, failcnt 40
[ 90.12] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job,\
task=python,pid=88,uid=0
[ 90.13] Memory cgroup out of memory: Killed process 88 (python) total-vm:4871108kB, anon-rss:2053812kB, \
file-rss:4288kB, shmem-rss:0kB, UID:0 pgtables:7112kB oom_score_adj:0
"""
RUN = "python -u fit.py --things 40000 --keep-type float64 --flush-every 0"


def diagnosed(tmp_path: Path, *lines: str, group: str = GROUP) -> dict[str, Any]:
    ended = [f"+ {RUN}", *lines, f"run.sh: line 3:    12 Killed     {RUN}", "exit code: 137", ""]
    (tmp_path / "job.log").write_text("\n".join(ended), encoding="utf-8")
    if group:
        (tmp_path / "dmesg.log").write_text(group, encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    return found


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("table (40000, 5000) float64", DATA),  # 1.49 GiB of 2
        ("x: torch.Size([40000, 5000]), dtype=torch.float64", DATA),
        ("a (20000, 5000) float64, b (20000, 5000) float64", DATA),  # together
        ("table shape=(40000, 8000) float32", DATA),
        ("table (40000, 2000) float64", LIMIT),  # 0.6 GiB
        ("table (40000, 5000)", LIMIT),  # of which type?
        ("logits (40000, 5000) float64", LIMIT),  # of a pass
        ("layer.weight (40000, 5000) float64", LIMIT),
        ("float64 is used for (40000, 5000)", LIMIT),
        ("table (40000, 5000) of 8 shards in float64", LIMIT),
    ],
)
def test_the_arrays_take_much_of_the_limit(tmp_path: Path, line: str, cause: str) -> None:
    assert diagnosed(tmp_path, "ready", line)["cause"] == cause


def test_the_product_is_shown(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "table (40000, 5000) float64")
    assert found["headline"].endswith("fill its memory: table (40000, 5000) of float64")
    assert "40000 x 5000 x 8 = 1.49 GiB (float64)" in found["explanation"]
    assert "75% of the 2.00 GiB" in found["explanation"]
    halved = next(one for one in found["remedies"] if one["knob"] == "smaller-input")
    assert (halved["setting"], halved["suggested"]) == ("--things", 20000)


def test_a_buffer_is_turned_as_one(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "rollout storage: frames (40000, 5000) float64")
    assert found["cause"] == DATA
    assert "stream-data" not in [one["knob"] for one in found["remedies"]]


@pytest.mark.parametrize(
    ("line", "cause"), [("table (40000, 5000) float64", DATA), ("table (40000, 2000) float64", BARE)]
)
def test_without_a_limit_a_gibibyte_is_much(tmp_path: Path, line: str, cause: str) -> None:
    assert diagnosed(tmp_path, "ready", line, group="")["cause"] == cause


def course(shape: str, last: int, kind: str = "float64") -> list[str]:
    return [f"{number} of 900: plate {shape} {kind}" for number in range(last - 20, last + 1, 10)]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (course("(2000, 500)", 200), DATA),  # 1.49 GiB, held were 1.96
        (course("(2000, 500)", 400), LIMIT),  # more than it held
        (course("(2000, 500)", 90), LIMIT),  # less than half of it
        (course("(2000, 500)", 200, ""), LIMIT),  # of which type?
        (course("(1000000)", 200), LIMIT),  # one length is as well a size
        ([f"plate {shape} float64" for shape in ("(2000, 500)", "(2000, 400)")], LIMIT),
    ],
)
def test_results_of_one_shape_are_kept(tmp_path: Path, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, *lines)
    assert found["cause"] == cause
    if cause == DATA:
        assert "200 x 2000 x 500 x 8 = 1.49 GiB" in found["explanation"]
        assert (found["remedies"][0]["setting"], found["remedies"][0]["suggested"]) == ("--flush-every", 50)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["building the knn graph of 40,000 points"], DATA),  # 40000^2 x 8 = 12 GiB of 2
        (["points: 40000", "pairwise distances of 40000 points"], DATA),
        (["building the knn graph of 40,000 points in chunks"], LIMIT),
        (["building the sparse knn graph of 40,000 points"], LIMIT),
        (["40,000 points, kernel size 3"], LIMIT),
        (["40,000 samples", "step 1 loss 0.3 gp 0.9"], LIMIT),  # a gradient penalty
        (["building the knn graph"], LIMIT),  # of how many?
    ],
)
def test_all_pairs_of_what_is_counted_take_much_of_the_limit(tmp_path: Path, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, *lines)
    assert found["cause"] == cause
    assert found["confidence"] <= 0.8 or cause == LIMIT


def test_pairs_are_multiplied_out_and_their_number_is_halved(tmp_path: Path) -> None:
    found = diagnosed(tmp_path, "building the knn graph of 40,000 points")
    assert found["headline"].endswith("all pairs of 40,000")
    assert "40000 x 40000 x 8 = 11.92 GiB (float64)" in found["explanation"]
    first = found["remedies"][0]
    assert (first["knob"], first["setting"], first["suggested"]) == ("smaller-input", "--things", 20000)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (["Total params: 333,320", "x (20000, 20) int32 y (20000, 5000) float32"], DATA),  # 381 MiB
        (["Total params: 33,333,320", "x (20000, 20) int32 y (20000, 5000) float32"], BARE),
        (["x (20000, 20) int32 y (20000, 5000) float32"], BARE),  # what else there is, nobody knows
        (["Total params: 333,320", "x (20000, 20) int32 y (20000, 500) float32"], BARE),
    ],
)
def test_arrays_beside_a_small_model_and_no_known_limit(tmp_path: Path, lines: list[str], cause: str) -> None:
    assert diagnosed(tmp_path, *lines, group="")["cause"] == cause
