"""Data that an option keeps in memory, of a job that is killed for no printed reason in its first epoch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import oomdoctor

DATA, BARE = "dataset-in-ram", "killed-without-evidence"
RUN = "python tag.py --batch-size 48 --cache memory"
KERAS = ["{}/90 ━━━━━━━━━━━━ 30s 400ms/step - loss: 2.1", "{}/90 [===>....] - ETA: 30s - loss: 2.1"]
STEPS = "step {} loss 2.1"


def diagnosed(tmp_path: Path, command: str, *lines: str) -> dict[str, Any]:
    ended = [f"+ {command}", *lines, f"run.sh: line 3:    12 Killed     {command}", "exit code: 137", ""]
    (tmp_path / "job.log").write_text("\n".join(ended), encoding="utf-8")
    found: dict[str, Any] = oomdoctor.diagnose(tmp_path / "job.log").as_json()["diagnoses"][0]
    return found


def counted(line: str, *numbers: int) -> list[str]:
    return [line.format(number) for number in numbers or (11, 12, 13)]


@pytest.mark.parametrize(
    ("command", "lines", "cause"),
    [
        (RUN, ["Epoch 1/3", *counted(KERAS[0])], DATA),
        (RUN, counted(KERAS[1]), DATA),
        (RUN, counted(STEPS), DATA),
        (RUN.replace("--cache memory", "--in-memory true"), counted(STEPS), DATA),
        (RUN.replace("memory", "disk"), counted(STEPS), BARE),
        (RUN.replace("memory", "none"), counted(STEPS), BARE),
        (RUN.replace("--cache", "--kv-cache"), counted(STEPS), BARE),
        (RUN, ["Epoch 2/3", *counted(KERAS[0])], BARE),
        (RUN, ["epoch 12", *counted(STEPS)], BARE),
        (RUN, counted(STEPS, 1), BARE),
        (RUN, counted(KERAS[0], 1, 2), BARE),
        (RUN, ["loading", "warming up"], BARE),
    ],
)
def test_a_cache_that_each_batch_adds_to(tmp_path: Path, command: str, lines: list[str], cause: str) -> None:
    found = diagnosed(tmp_path, command, *lines)
    knobs = [one["knob"] for one in found["remedies"]]
    assert found["cause"] == cause
    assert cause != DATA or ("smaller-microbatch" not in knobs and knobs[0] == "stream-data")


@pytest.mark.parametrize("option", ["--cache disk", "--cache none", "--kv-cache memory"])
def test_what_is_not_in_memory_needs_no_other_place(tmp_path: Path, option: str) -> None:
    found = diagnosed(tmp_path, RUN.replace("--cache memory", option), *counted(STEPS))
    assert [one["knob"] for one in found["remedies"]][:2] == ["smaller-microbatch", "more-host-memory"]


def test_it_goes_to_the_disk(tmp_path: Path) -> None:
    remedy = diagnosed(tmp_path, RUN, *counted(STEPS))["remedies"][0]
    assert remedy["action"] == "Cache the data on disk, or not at all, instead of in memory: --cache is memory now"
    assert (remedy["setting"], remedy["current"]) == ("--cache", "memory")
