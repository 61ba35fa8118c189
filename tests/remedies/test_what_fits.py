"""Values that follow from what the job held, or from one piece against the limit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

KILLED = (
    "Memory cgroup out of memory: Killed process 8376 (python) total-vm:1601096kB, anon-rss:1020648kB, "
    "file-rss:91976kB, shmem-rss:0kB, UID:0 pgtables:2520kB oom_score_adj:0\n"
)
FILLED = "step 24000 replay buffer {}/100000\nstep 28000 replay buffer {}/100000\n"
PIECE = (
    "Traceback (most recent call last):\n"
    '  File "/srv/fit.py", line 9, in <module>\n    loss = model(x).pow(2).mean()\n'
    '  File "/v/site-packages/torch/nn/modules/linear.py", line 125, in forward\n'
    "    return F.linear(input, self.weight, self.bias)\n"
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {} bytes. Error code 12 (Cannot allocate memory)\n"
)


def first(tmp_path: Path, text: str, knob: str) -> dict[str, Any] | None:
    diagnoses = body(tmp_path, text)["diagnoses"]
    return next((one for one in diagnoses[0]["remedies"] if one["knob"] == knob), None)


@pytest.mark.parametrize(
    ("option", "counts", "then"),
    [
        ("--buffer_size 100000", (23999, 27999), 19000),
        ("--replay_capacity 100000", (23999, 27999), 19000),
        ("--buffer_size 50000", (23999, 27999), 14000),  # another buffer's: half of the steps until then
    ],
)
def test_as_much_of_a_buffer_fits_as_it_held(option: str, counts: tuple[int, int], then: int, tmp_path: Path) -> None:
    text = f"+ python -u fit.py {option}\n{FILLED.format(*counts)}{KILLED}"
    found = first(tmp_path, text, "smaller-buffers")
    assert found is not None
    assert found["suggested"] == then
    assert found["snippet"] == f"{option.partition(' ')[0]} {then}"


@pytest.mark.parametrize(
    ("size", "then"),
    [
        (19660800, 128),  # small: nobody knows how much is missing
        (2**31, 32),  # 3 x 2 GiB / 8 in half of 1.66 GiB
        (2**30, 64),
    ],
)
def test_a_piece_as_large_as_the_limit_asks_for_more_than_a_half(size: int, then: int, tmp_path: Path) -> None:
    text = f"+ ulimit -v 1740800\n+ python -u fit.py --batch_size 256\n{PIECE.format(size)}"
    found = first(tmp_path, text, "smaller-microbatch")
    assert found is not None
    assert found["suggested"] == then


def test_steps_that_went_well_point_to_what_they_leave(tmp_path: Path) -> None:
    steps = "".join(f"step {number} loss 0.4\n" for number in range(5))
    head = "+ ulimit -v 1740800\n+ python -u fit.py --batch_size 256\n"
    after, before = (
        [one["knob"] for one in body(tmp_path, head + some + PIECE.format(2**20))["diagnoses"][0]["remedies"]]
        for some in (steps, "")
    )
    assert "clear-references" in after[:2]
    assert "clear-references" not in before[:2]


@pytest.mark.parametrize(
    ("options", "knob", "line"),
    [
        ("--database :memory:", "spill-to-disk", "--database data.db"),
        ("--chunk-users 0", "smaller-partitions", "--chunk-users 64"),
        ("--concurrency 0", "fewer-workers", "--concurrency 64"),
    ],
)
def test_a_program_has_options_of_its_own(options: str, knob: str, line: str, tmp_path: Path) -> None:
    text = f"+ python -u fit.py {options}\nloaded 100 rows\nloaded 200 rows\nloaded 300 rows\n{KILLED}"
    found = [one for each in body(tmp_path, text)["diagnoses"] for one in each["remedies"] if one["knob"] == knob]
    assert line in [one["snippet"] for one in found]
