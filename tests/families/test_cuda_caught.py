"""Refusals that a program catches, and those that it dies of: what is printed behind the last of them tells."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

from oomdoctor import families, streams
from oomdoctor.families import Lookalike
from oomdoctor.families.cuda import DeviceOutOfMemory

REFUSAL = (
    "batch {n} is too large, CUDA out of memory. Tried to allocate 2.{n:02d} GiB (GPU 0; 79.15 GiB total capacity)"
)


def found(lines: list[str]) -> list[families.Read]:
    return list(families.read(streams.page("job.log", 1, "\n".join(lines).encode())))


def test_progress_behind_the_last_of_them_shows_that_all_were_caught() -> None:
    lines = [REFUSAL.format(n=n) for n in range(20)]
    assert all(isinstance(read, Lookalike) for read in found([*lines, "step 21 loss 0.5"]))
    assert sum(isinstance(read, DeviceOutOfMemory) for read in found(lines)) == 20


def test_only_what_stands_behind_the_death_is_survived() -> None:
    lines = [REFUSAL.format(n=1), "Killed", REFUSAL.format(n=2), "step 3 loss 0.5"]
    kinds = [type(read) for read in found(lines) if isinstance(read, DeviceOutOfMemory | Lookalike)]
    assert kinds[0] is DeviceOutOfMemory
    assert kinds[-1] is Lookalike


CAUGHT = (
    "2031-02-03 04:05:06 | WARNING | trainer | OOM: Ran out of memory with exception: CUDA out of memory. Tried to "
    "allocate 60.50 GiB (GPU 2; 47.50 GiB total capacity; 2.25 GiB already allocated; 44.10 GiB free)"
)
FAILED_ITEMS = (
    "INFO | predict | item 7 in 9.5s. 1 / 3 completed.\nINFO | predict | Failed (CUDA out of memory) on item 8.",
    "INFO: Failed to fold item_8: CUDA out of memory",
    "INFO - Could not process clip_8.mp4 (out of memory)",
    "2031-01-01 10:00:00,000 INFO tiles: error on tile 4: out of memory",
    "[INFO] page 12 failed: not enough memory",
    CAUGHT,
)
NO_FAILURE = (
    "INFO 0 items failed (CUDA out of memory)",
    "INFO Failed items are retried if CUDA out of memory occurs",
    "INFO Failed (CUDA out of memory) on item 8, retrying with chunks of 64",
    "INFO Failed (CUDA out of memory) on item 8\nstep 9 loss 0.5",
    "INFO test failed (as expected): out of memory is simulated",
    f"{CAUGHT}\n2031-02-03 04:05:09 | INFO | train | epoch 001: 10 / 200 loss=8.2",
    f"{CAUGHT}\n Skipping batch",
)


@pytest.mark.parametrize("text", FAILED_ITEMS)
def test_an_item_that_fails_of_memory_is_a_failure_at_any_level(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"


@pytest.mark.parametrize("text", NO_FAILURE)
def test_what_went_on_is_none(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"
