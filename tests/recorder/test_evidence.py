"""A flight record beside a log: what it decides, and where it is of another job and decides nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import oomdoctor
from oomdoctor.units import GIB

RECORDS = Path(__file__).parent.parent.parent / "fixtures" / "flight_record"
BARE = "epoch 1 step 40 loss 0.71\nKilled\n"
SAME_TIME = (
    "2026-11-20 08:14:20 INFO epoch 1 step 40\n2026-11-20 08:14:25 INFO node7: python train.py exited with code 137\n"
)
OTHER_DAY = SAME_TIME.replace("2026-11-20", "2026-11-17").replace("08:14", "03:47")
TORCHRUN = """\
E1120 08:14:25.000000 4120 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) local_rank: 0 \
(pid: {pid}) of binary: /env/bin/python
"""
OTHER_ZONE = SAME_TIME.replace("08:14", "17:14")


def report(log: str, record: str, folder: Path) -> dict[str, Any]:
    (folder / "train.log").write_text(log)
    return oomdoctor.diagnose(folder / "train.log", RECORDS / f"{record}.log").as_json()


def cause(found: dict[str, Any]) -> str | None:
    return str(found["incidents"][0]["diagnoses"][0]["cause"]) if found["incidents"] else None


@pytest.mark.parametrize("log", [BARE, SAME_TIME, OTHER_ZONE, TORCHRUN.format(pid=4120)])
@pytest.mark.parametrize(
    ("record", "verdict", "named"),
    [
        ("limit-of-a-container", "oom", "container-limit"),
        ("limit-above-the-container", "oom", "container-limit"),
        ("killed-by-a-stranger-of-the-machine", "no-oom", None),
    ],
)
def test_a_record_decides_what_a_bare_kill_leaves_open(
    log: str, record: str, verdict: str, named: str | None, tmp_path: Path
) -> None:
    found = report(log, record, tmp_path)
    assert (found["verdict"], cause(found)) == (verdict, named)
    assert len(found["incidents"]) == (verdict == "oom")


@pytest.mark.parametrize("log", [OTHER_DAY, TORCHRUN.format(pid=909)])
def test_memory_that_was_left_to_another_job_explains_no_kill(log: str, tmp_path: Path) -> None:
    found = report(log, "killed-by-a-stranger-of-the-machine", tmp_path)
    assert (found["verdict"], cause(found)) == ("inconclusive", "killed-without-evidence")


def test_a_kill_of_another_day_explains_no_kill_of_today(tmp_path: Path) -> None:
    found = report(OTHER_DAY, "limit-of-a-container", tmp_path)
    assert (found["verdict"], cause(found)) == ("inconclusive", "killed-without-evidence")
    assert any("another time" in each["why"] for each in found["lookalikes"])


def test_a_failure_that_the_log_proves_stays_one_beside_a_record_with_memory_left(tmp_path: Path) -> None:
    log = """\
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 0 has a total capacity of 23.60 GiB of \
which 1.25 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch.
Killed
"""
    found = report(log, "killed-by-a-stranger-of-the-machine", tmp_path)
    assert found["verdict"] == "oom"
    assert found["incidents"][0]["diagnoses"][0]["cause"] not in ("container-limit", "killed-without-evidence")


def test_the_last_sample_is_the_ledger_of_a_machine_that_ran_out(tmp_path: Path) -> None:
    found = report(BARE, "machine-ran-out", tmp_path)
    assert cause(found) == "process-ram-hog"
    assert "prepare.py (PID 4120)" in found["incidents"][0]["headline"]


def test_what_the_environment_has_is_no_framework_of_the_job(tmp_path: Path) -> None:
    record = (RECORDS / "limit-of-a-container.log").read_text()
    packages = '{"flight":"packages","packages":["torch==2.5.1","vllm==0.8.3"]}\n'
    first, _, rest = record.partition("\n")
    (tmp_path / "flight.jsonl").write_text(f"{first}\n{packages}{rest}")
    (tmp_path / "train.log").write_text(
        '  File "/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 9\nKilled\n'
    )
    found = oomdoctor.diagnose(tmp_path / "train.log", tmp_path / "flight.jsonl").as_json()
    frameworks = found["context"]["frameworks"]
    assert frameworks.get("torch") == "2.5.1"
    assert "vllm" not in frameworks


def test_the_command_of_a_record_is_the_jobs_launch_line(tmp_path: Path) -> None:
    found = report(BARE, "limit-of-a-container", tmp_path)
    assert found["context"]["settings"]["batch_size"] == 8


CUDA = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB "
    "of which 1.02 GiB is free. Of the allocated memory 30.10 GiB is allocated by PyTorch, and 512.00 MiB is reserved "
    "by PyTorch but unallocated.\n"
)


def test_the_gpus_of_a_record_show_who_else_held_them(tmp_path: Path) -> None:
    first, *_, last = (RECORDS / "killed-by-hand.log").read_text().splitlines()[1:-1]
    card = [0, 78 * GIB, 79 * GIB, [[4120, 31 * GIB], [991, 46 * GIB]]]
    sample = {"flight": "sample", "s": 20.0, "available": 40 * GIB, "processes": [], "cards": [card]}
    end = json.loads(last) | {"signal": None, "status": 1}
    lines = [
        first,
        '{"flight":"process","pid":4120,"name":"python train.py"}',
        json.dumps(sample, separators=(",", ":")),
    ]
    ended = {name: value for name, value in end.items() if value is not None}
    (tmp_path / "flight.jsonl").write_text("\n".join([*lines, json.dumps(ended, separators=(",", ":"))]) + "\n")
    (tmp_path / "train.log").write_text(CUDA)
    found = oomdoctor.diagnose(tmp_path / "train.log", tmp_path / "flight.jsonl").as_json()
    assert cause(found) == "gpu-shared"
    assert "991" in json.dumps(found["incidents"][0]["diagnoses"][0])


def test_who_was_killed_is_in_the_table_that_the_report_rests_on(tmp_path: Path) -> None:
    """The sample after the kill shows who is left."""
    *lines, last = (RECORDS / "limit-of-a-container.log").read_text().splitlines()
    after = json.loads(lines[-1]) | {
        "s": 83.2,
        "used": 2 * GIB,
        "kills": 1,
        "processes": [[4188, 429916160, 398458880]],
    }
    lines = [*lines, json.dumps(after, separators=(",", ":")), last]
    (tmp_path / "flight.jsonl").write_text("\n".join(lines) + "\n")
    found = oomdoctor.diagnose(tmp_path / "flight.jsonl").as_json()
    told = json.dumps(found["incidents"][0]["diagnoses"])
    assert "train.py (PID 4120)" in told
    assert "PID 4188) held" not in told
