"""The files of a control group: which value is of which file, and what a second print adds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose

EVENTS = "$ cat /sys/fs/cgroup/memory.events\nmax 4\noom {oom}\noom_kill {kills}\n"
JOB = "step 1 loss 2.1\nstep 2 loss 2.0\nKilled\n"


def report(folder: Path, text: str) -> Any:
    log = folder / "job.log"
    log.write_text(text)
    return diagnose(log)


def test_only_what_is_added_while_the_job_ran_is_its_kill(tmp_path: Path) -> None:
    before, after = EVENTS.format(oom=2, kills=2), EVENTS.format(oom=3, kills=3)
    found = report(tmp_path, before + JOB + after)
    assert found.verdict == "oom"
    (kill,) = [event for event in found.events if event.kind == "limit-kill"]
    assert (kill.line, kill.fields["kills"]) == (11, 1)


def test_an_old_count_that_does_not_grow_denies_the_kill(tmp_path: Path) -> None:
    counters = EVENTS.format(oom=2, kills=2)
    found = report(tmp_path, counters + JOB + counters)
    assert found.verdict == "inconclusive"
    assert "Another process sent SIGKILL" in found.incidents[0].diagnoses[0].explanation


def test_two_prints_behind_the_job_are_of_one_kill(tmp_path: Path) -> None:
    counters = EVENTS.format(oom=2, kills=2)
    assert report(tmp_path, JOB + counters + counters).verdict == "oom"


@pytest.mark.parametrize(
    ("oom", "kills", "cause"),
    [(1, 1, "container-limit"), (0, 1, "host-memory-exhausted"), (1, 0, "killed-without-evidence")],
)
def test_the_level_whose_limit_was_hit_counts_it(tmp_path: Path, oom: int, kills: int, cause: str) -> None:
    found = report(tmp_path, JOB + EVENTS.format(oom=oom, kills=kills))
    assert found.incidents[0].diagnoses[0].cause == cause


@pytest.mark.parametrize(
    "command",
    [
        "$ cat memory.peak memory.max",
        "+ cat memory.peak memory.max",
        "root@5f0a6c11d2b9:/# cat /sys/fs/cgroup/memory.{peak,max} 2>/dev/null",
        "[u1@node7 run]$ sudo cat memory.peak && cat memory.max",
        "cat memory.peak memory.max",
    ],
)
def test_the_command_tells_which_bare_line_is_which(tmp_path: Path, command: str) -> None:
    found = report(tmp_path, f"{JOB}{command}\n1073741824\n2147483648\n")
    (group,) = [event for event in found.events if event.kind == "group-counters"]
    assert group.usage["peak_bytes"] == 1 << 30
    assert group.threshold["limit_bytes"] == 1 << 31


def test_a_file_that_is_not_there_shifts_nothing(tmp_path: Path) -> None:
    missing = "cat: memory.peak: No such file or directory\n"
    found = report(tmp_path, f"{JOB}$ cat memory.peak memory.max\n{missing}2147483648\n")
    (group,) = [event for event in found.events if event.kind == "group-counters"]
    assert "peak_bytes" not in group.usage
    assert group.threshold["limit_bytes"] == 1 << 31


def test_bare_numbers_without_a_command_are_of_no_file(tmp_path: Path) -> None:
    assert not [event for event in report(tmp_path, JOB + "2147483648\nmax\n").events if event.family == "cgroup"]


@pytest.mark.parametrize(
    "printed",
    [
        "oom 1 oom_kill 1",
        "low 0 high 0 max 91 oom 2 oom_kill 2 oom_group_kill 0",
        "memory.events: oom 1 oom_kill 1\nmemory.max 17179869184\nmemory.peak 17179869184",
        "memory.max = 17179869184\nmemory.events: oom_kill=1",
        "/sys/fs/cgroup/memory.events oom_kill 1\n/sys/fs/cgroup/memory.max 8589934592",
        "{'low': 0, 'high': 0, 'max': 91, 'oom': 1, 'oom_kill': 1}",
    ],
)
def test_counters_on_one_line_are_counters(tmp_path: Path, printed: str) -> None:
    assert report(tmp_path, f"{JOB}{printed}\n").incidents[0].diagnoses[0].cause == "container-limit"


def test_a_file_and_its_value_may_stand_apart_by_a_blank(tmp_path: Path) -> None:
    found = report(tmp_path, f"{JOB}memory.max 17179869184\nmemory.peak 8589934592\nmemory.events: oom_kill=0\n")
    (group,) = [event for event in found.events if event.kind == "group-counters"]
    assert (group.threshold["limit_bytes"], group.usage["peak_bytes"]) == (16 << 30, 8 << 30)


@pytest.mark.parametrize(
    "printed",
    [
        "oom 0 oom_kill 0",
        "memory.max 17179869184\nmemory.events: oom_kill=0",
        "memory.max is 17179869184, oom_kill is what counts",
        "oom_kill 3 tests 4",
        "memory.events oom_kill",
        "memory.events: max 3 high 2",
        "swap 1 oom_kill 1 pgfault 91223",
    ],
)
def test_what_counts_no_kill_on_one_line(tmp_path: Path, printed: str) -> None:
    assert report(tmp_path, f"{JOB}{printed}\n").verdict == "inconclusive"
