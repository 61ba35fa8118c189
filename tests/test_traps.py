"""Memory words that are no memory failure: each is quiet, is named with its reason, and hides no failure beside it.

`traps.json` is the table: the side whose failures a trap imitates, its lines, and why it is none.
"""

from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import pytest

from oomdoctor import Report, diagnose

TRAPS: Final[list[dict[str, Any]]] = json.loads((Path(__file__).parent / "traps.json").read_text(encoding="utf-8"))

# One failure per pool; its last line tells of it. A loop's lines keep it apart from the trap.
FAILURES: Final = {
    "gpu": """\
Traceback (most recent call last):
  File "/srv/app/train.py", line 88, in step
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.11 GiB \
of which 1.31 GiB is free. Including non-PyTorch memory, this process has 77.79 GiB memory in use. Of the \
allocated memory 74.02 GiB is allocated by PyTorch, and 1.60 GiB is reserved by PyTorch but unallocated.""",
    "kv_cache": """\
ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the \
engine.""",
    "host_ram": """\
[ 9120.331204] Out of memory: Killed process 8834 (trainer) total-vm:91827364kB, anon-rss:61234567kB, \
file-rss:1024kB, shmem-rss:2048kB, UID:1000 pgtables:120000kB oom_score_adj:0""",
    "cgroup": """\
slurmstepd: error: Detected 1 oom_kill event in StepId=77120.0. Some of the step tasks have been OOM Killed.""",
    "shm": """\
RuntimeError: unable to allocate shared memory(shm) for file </torch_2210_771_12>: No space left on device (28)""",
}
OTHERS: Final = {
    "gpu": ("host_ram", "cgroup", "shm", "kv_cache"),
    "host": ("gpu", "kv_cache"),
    "text": ("gpu", "host_ram", "cgroup", "shm"),
}
LOOP: Final = [f"step {number}: loss 1.{number}" for number in range(12)]

_turns: Final = {side: cycle(pools) for side, pools in OTHERS.items()}
BESIDE: Final = [(trap, next(_turns[trap["side"]])) for trap in TRAPS]


def name_of(value: object) -> str | None:
    return str(value["log"][-1])[:60] if isinstance(value, dict) else None


def report_on(lines: list[str], folder: Path) -> Report:
    log = folder / "job.log"
    log.write_text("\n".join(lines) + "\n")
    return diagnose(log)


def named(report: Report, why: str, lines: range) -> bool:
    return any(quote.why == why and quote.line in lines for quote in report.lookalikes)


@pytest.mark.parametrize("trap", TRAPS, ids=name_of)
def test_a_trap_is_quiet_and_named(trap: dict[str, Any], tmp_path: Path) -> None:
    report = report_on(trap["log"], tmp_path)
    assert report.verdict == "no-oom"
    assert named(report, trap["why"], range(1, len(trap["log"]) + 1)), report.lookalikes


@pytest.mark.parametrize(("trap", "pool"), BESIDE, ids=name_of)
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_trap_neither_hides_a_failure_nor_takes_its_place(
    trap: dict[str, Any], pool: str, order: str, tmp_path: Path
) -> None:
    failure = FAILURES[pool].splitlines()
    lines = [*trap["log"], *LOOP, *failure] if order == "before" else [*failure, *LOOP, *trap["log"]]
    at = lines.index(failure[-1]) + 1
    first = lines.index(trap["log"][0]) + 1
    trapped = range(first, first + len(trap["log"]))

    report = report_on(lines, tmp_path)

    assert report.verdict == "oom"
    answer = report.incidents[0].diagnoses[0]
    assert answer.pool == pool
    assert {evidence.line for evidence in answer.evidence} & {at}
    assert not {evidence.line for evidence in answer.evidence} & set(trapped)
    assert not [event for event in report.events if event.role == "root" and event.line in trapped]
    assert named(report, trap["why"], trapped), report.lookalikes


def test_every_side_has_many_traps_and_many_reasons() -> None:
    for side in OTHERS:
        reasons = {trap["why"] for trap in TRAPS if trap["side"] == side}
        assert len(reasons) >= 10, side
