"""What is in use of what there is, of several things, is no refusal; what a task of Spark's was lost to is one."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor

LOST = "25/01/09 08:00:01 WARN TaskSetManager: Lost task {} in stage 4.0 (TID 31) (10.0.0.9 executor 2): {}\n"
ABORTED = "25/01/09 08:00:02 ERROR TaskSetManager: Task 7 in stage 4.0 failed 4 times; aborting job\n"
SPLIT = "org.example.gpu.SplitAndRetryOOM: GPU OutOfMemory: could not split the batch and retry"


def verdict(tmp_path: Path, text: str) -> str:
    (tmp_path / "job.log").write_text(text, encoding="utf-8")
    found: str = oomdoctor.diagnose(tmp_path / "job.log").as_json()["verdict"]
    return found


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("Resources requested: 12.0/32 CPUs, 3.0/4 GPUs, 0.0/90.5 GiB heap, 0.0/40.1 GiB objects", "no-oom"),
        ("requested 2/8 GPUs and 30/256 GiB of memory", "no-oom"),
        ("insufficient memory: 2/8 GPUs, 30/256 GiB of memory are in use", "oom"),
        ("requested 9/8 GPUs and 300/256 GiB of memory: not enough memory", "oom"),
    ],
)
def test_a_list_of_what_is_in_use(tmp_path: Path, line: str, wanted: str) -> None:
    trials = "Result logdir: /r\nNumber of trials: 3/3 (1 RUNNING, 2 TERMINATED)\n"
    assert verdict(tmp_path, f"== Status ==\nMemory usage on this node: 3.4/51.6 GiB\n{line}\n{trials}") == wanted


@pytest.mark.parametrize(
    ("what", "wanted"),
    [
        (SPLIT, "oom"),
        ("java.lang.OutOfMemoryError: Java heap space", "oom"),
        ("org.example.FetchFailed: connection was reset by 10.0.0.3", "no-oom"),
        ("ExecutorLostFailure (executor 2 exited unrelated to the running tasks)", "no-oom"),
    ],
)
def test_what_a_task_was_lost_to(tmp_path: Path, what: str, wanted: str) -> None:
    assert verdict(tmp_path, LOST.format("7.0", what) + ABORTED) == wanted


def test_a_task_of_another_program_is_lost_to_nothing(tmp_path: Path) -> None:
    assert verdict(tmp_path, LOST.format("seven", "org.example.gpu.Split: no split") + ABORTED) == "no-oom"
