"""What a pipeline keeps ready of its data, by its options and the shape that it prints; and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from gpu_logs import crash

import oomdoctor
from oomdoctor.signs import kept_ready

KILL = (
    "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0",
    "memory: usage 1048576kB, limit 1048576kB, failcnt 0",
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,task_memcg=/job,task=python,pid=712,uid=0",
    "Memory cgroup out of memory: Killed process 712 (python) total-vm:2329060kB, anon-rss:1008192kB",
)
SPEC = "clips: TensorSpec(shape=(None, 256, 256, 4), dtype=tf.float32, name=None)"  # 1 MiB each
RUN = "+ python fit.py --batch-size 16 {}"


def ready(options: str, spec: str = SPEC) -> kept_ready.Ready | None:
    told = crash(RUN.format(options), spec, "epoch 1", *KILL)
    return kept_ready.kept_ready(told) if kept_ready.more_is_kept_ready_than_there_is(told) is not None else None


@pytest.mark.parametrize(
    ("options", "spec", "size"),
    [
        ("--prefetch-batches 32", SPEC, 512),  # x 16 x 1 MiB: half of the limit
        ("--prefetch-batches 31", SPEC, None),
        ("--shuffle-buffer 600", SPEC, 600),
        ("--shuffle-buffer 500", SPEC, None),
        ("--prefetch-batches 127", SPEC.replace("float32", "uint8"), None),  # a quarter of the bytes
        ("--prefetch-batches 128", SPEC.replace("float32", "uint8"), 512),
        ("--prefetch-factor 640", SPEC, None),  # of each worker
        ("--shuffle-seed 4000", SPEC, None),
        ("--replay-buffer 4000", SPEC, None),
        ("--shuffle-buffer 600", "clips: (None, 256, 256, 4)", None),  # of which type
    ],
)
def test_an_option_that_keeps_much_ready(options: str, spec: str, size: int | None) -> None:
    found = ready(options, spec)
    assert (found.bytes >> 20 if found is not None else None) == size


def test_a_batch_of_no_size_has_no_batches() -> None:
    told = crash("+ python fit.py --prefetch-batches 64", SPEC, *KILL)
    assert kept_ready.kept_ready(told) is None


def report(tmp_path: Path, *lines: str) -> dict[str, Any]:
    (tmp_path / "job.log").write_text("\n".join((*lines, "")), encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(tmp_path).as_json()["diagnoses"][0]
    return found


def test_as_many_are_advised_as_fit(tmp_path: Path) -> None:
    found = report(tmp_path, RUN.format("--prefetch-batches 64"), SPEC, "step 4/90", *KILL)
    assert (found["cause"], found["remedies"][0]["snippet"]) == ("dataset-in-ram", "--prefetch-batches 19")
    assert found["remedies"][0]["derivation"] == "19 x 16 MiB = 304 MiB of 1.00 GiB"
    assert "64 x 16 MiB = 1.00 GiB (16 x 256 x 256 x 4 x 4)" in found["explanation"]


def test_a_quarter_is_advised_where_nobody_knows_the_memory(tmp_path: Path) -> None:
    killed = "run.sh: line 3:    12 Killed     python fit.py --batch-size 16 --prefetch-batches 64"
    found = report(tmp_path, RUN.format("--prefetch-batches 64"), SPEC, killed)
    assert (found["cause"], found["remedies"][0]["snippet"]) == ("dataset-in-ram", "--prefetch-batches 16")
