"""What a report says where a memory snapshot is among its inputs."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from snapshot_maker import (
    BACKWARD,
    BATCH,
    FORWARD,
    GIB,
    KEPT,
    LOSS,
    MIB,
    STATES,
    STEP,
    WEIGHTS,
    Allocator,
    dumped,
    filled,
    steps,
)

import oomdoctor

LOG = """\
Traceback (most recent call last):
  File "/job/train.py", line 200, in <module>
    main()
  File "/job/model.py", line 31, in forward
    x = self.layer(x)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried}. GPU 0 has a total capacity of 23.60 GiB of \
which 300.00 MiB is free. Including non-PyTorch memory, this process has 23.30 GiB memory in use. Of the allocated \
memory {allocated} is allocated by PyTorch, and {idle} is reserved by PyTorch but unallocated.
"""


def report(folder: Path, *inputs: tuple[str, bytes | str]) -> dict[str, Any]:
    paths = []
    for name, content in inputs:
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    return oomdoctor.diagnose(*paths).as_json()


def first(found: dict[str, Any]) -> str:
    return str(found["diagnoses"][0]["cause"])


def rows(found: dict[str, Any]) -> dict[str, int]:
    return {row["what"]: row["bytes"] for row in found["ledger"][0]["rows"]}


def leaking() -> Allocator:
    allocator = steps(20, leak=600 * MIB)
    allocator.entry("oom", GIB, FORWARD, device_free=100 * MIB)
    return allocator


OPTIMIZER = [(WEIGHTS, GIB, 6), (STATES, GIB, 12), (FORWARD, GIB // 2, 6), (BACKWARD, GIB // 4, 4)]
PASSES = [(WEIGHTS, GIB, 3), (STATES, GIB, 6), (FORWARD, GIB // 2, 30), (BATCH, MIB * 64, 1)]


@pytest.mark.parametrize(
    ("cause", "allocator"),
    [
        ("optimizer-states", filled(OPTIMIZER, request=2 * GIB, free=300 * MIB)),
        ("optimizer-states", filled(OPTIMIZER, request=2 * GIB, free=300 * MIB, asker=STATES)),
        ("activations", filled(PASSES, request=2 * GIB, free=300 * MIB)),
        ("activations", filled(PASSES, request=2 * GIB, free=300 * MIB, asker=STEP)),
        ("model-does-not-fit", filled([(WEIGHTS, GIB, 22)], request=GIB, free=300 * MIB, asker=WEIGHTS)),
        ("model-does-not-fit", filled([(WEIGHTS, GIB, 22)], request=GIB, free=300 * MIB)),
        ("allocator-fragmentation", filled(PASSES, request=2 * GIB, free=300 * MIB, holes=[200 * MIB] * 30)),
        ("activations", filled(PASSES, request=2 * GIB, free=300 * MIB, holes=[200 * MIB] * 5)),
        ("gpu-memory-leak", leaking()),
        (
            "model-does-not-fit",  # three quarters are parameters
            filled([(WEIGHTS, GIB, 9), (STATES, GIB, 3)], request=8 * GIB, free=300 * MIB, asker=LOSS),
        ),
    ],
)
def test_the_snapshot_decides(cause: str, allocator: Allocator, tmp_path: Path) -> None:
    for protocol in (0, 4):
        found = report(tmp_path, ("snapshot.pickle", dumped(allocator, protocol)))
        assert found["verdict"] == "oom"
        assert first(found) == cause


def test_the_ledger_is_by_who_holds_the_memory(tmp_path: Path) -> None:
    found = report(tmp_path, ("snapshot.pickle", dumped(filled(OPTIMIZER, request=2 * GIB, holes=[GIB] * 2))))
    assert rows(found) == {
        "optimizer states": 12 * GIB,
        "parameters": 6 * GIB,
        "activations": 3 * GIB,
        "backward pass": GIB,
        "reserved but unallocated": 2 * GIB,
    }


def test_beside_a_log_the_tensors_row_is_taken_apart(tmp_path: Path) -> None:
    log = LOG.format(tried="2.00 GiB", allocated="22.00 GiB", idle="310.00 MiB")
    alone = report(tmp_path, ("train.log", log))
    assert first(alone) == "activations"
    found = report(tmp_path, ("train.log", log), ("snapshot.pickle", dumped(filled(OPTIMIZER, request=2 * GIB))))
    assert len(found["incidents"]) == 1
    assert first(found) == "optimizer-states"
    assert found["diagnoses"][0]["headline"] == "Optimizer states hold 12 GiB of 22 GiB allocated on GPU 0"
    assert rows(found)["optimizer states"] == 12 * GIB
    assert "live tensors" not in rows(found)
    assert found["ledger"][0]["total_bytes"] == alone["ledger"][0]["total_bytes"]
    assert [event["role"] for event in found["events"] if event["kind"] == "out-of-memory"] == ["root"]


@pytest.mark.parametrize(
    "log",
    [
        LOG.format(tried="6.00 GiB", allocated="22.00 GiB", idle="310.00 MiB"),  # another request
        LOG.format(tried="512.00 MiB", allocated="9.00 GiB", idle="310.00 MiB"),
    ],
)
def test_a_snapshot_of_another_failure_is_not_believed(log: str, tmp_path: Path) -> None:
    found = report(tmp_path, ("train.log", log), ("snapshot.pickle", dumped(filled(OPTIMIZER, request=2 * GIB))))
    assert found["diagnoses"][0]["cause"] == "activations"


def test_a_snapshot_from_after_the_crash_tells_of_the_crash(tmp_path: Path) -> None:
    """The exception's handler dumps it: most of what was held is freed by then, and the trace says what it was."""
    allocator = filled([(WEIGHTS, GIB, 3)])
    places = [(0x100000000000 + number * GIB, GIB // 2) for number in range(30)]
    for address, size in places:
        allocator.take(address, size, FORWARD)
    allocator.entry("oom", 2 * GIB, FORWARD, device_free=300 * MIB)
    for address, size in places:
        allocator.give(address, size)
    found = report(tmp_path, ("snapshot.pickle", dumped(allocator)))
    assert rows(found) == {"activations": 15 * GIB, "parameters": 3 * GIB}
    assert first(found) == "activations"


def test_what_was_freed_since_says_nothing_of_pieces(tmp_path: Path) -> None:
    allocator = filled([(WEIGHTS, GIB, 8)], request=2 * GIB, holes=[200 * MIB] * 30)
    allocator.give(allocator.trace[0]["addr"], GIB)
    allocator.segments[0]["blocks"][0]["state"] = "inactive"
    found = report(tmp_path, ("snapshot.pickle", dumped(allocator)))
    assert "free blocks" not in found["diagnoses"][0]["explanation"]


@pytest.mark.parametrize("stream", [1, 7])
def test_free_blocks_of_another_stream_serve_nobody(stream: int, tmp_path: Path) -> None:
    allocator = filled(PASSES, request=2 * GIB, holes=[200 * MIB] * 30)
    for segment in allocator.segments:
        segment["stream"] = stream
    assert first(report(tmp_path, ("snapshot.pickle", dumped(allocator)))) != "allocator-fragmentation"


def test_free_blocks_of_a_private_pool_serve_nobody(tmp_path: Path) -> None:
    allocator = filled(PASSES, request=2 * GIB, holes=[200 * MIB] * 30)
    for segment in allocator.segments:
        segment["segment_pool_id"] = (0, 1)
    assert first(report(tmp_path, ("snapshot.pickle", dumped(allocator)))) != "allocator-fragmentation"


def test_no_growth_is_seen_where_there_is_none(tmp_path: Path) -> None:
    quiet = steps(20)
    quiet.entry("oom", GIB, FORWARD, device_free=100 * MIB)
    once = filled([(WEIGHTS, GIB, 4), (KEPT, GIB, 30)], request=GIB)  # one pass, and no step
    few = steps(2, leak=GIB)
    few.entry("oom", GIB, FORWARD, device_free=100 * MIB)
    for allocator in (quiet, once, few):
        found = report(tmp_path, ("snapshot.pickle", dumped(allocator)))
        assert "gpu-memory-leak" not in [one["cause"] for one in found["diagnoses"]]


def test_a_failure_that_the_job_survived_is_told_and_is_no_crash(tmp_path: Path) -> None:
    allocator = filled(PASSES, request=2 * GIB)
    for number in range(200):
        allocator.take(0x200000000000 + number * MIB, MIB, FORWARD)
    found = report(tmp_path, ("snapshot.pickle", dumped(allocator)))
    assert found["verdict"] == "no-oom"
    assert "failed and the job went on" in found["notes"][0]


def test_without_a_failure_it_is_told_what_is_in_it(tmp_path: Path) -> None:
    found = report(tmp_path, ("snapshot.pickle", dumped(filled(PASSES))))
    assert found["verdict"] == "no-oom"
    assert "no failed allocation" in found["notes"][0]


def test_a_snapshot_without_stacks_names_no_holder(tmp_path: Path) -> None:
    found = report(tmp_path, ("snapshot.pickle", dumped(filled([((), GIB, 20)], request=2 * GIB, asker=()))))
    assert rows(found) == {"allocated without a stack": 20 * GIB}
    assert first(found) == "activations"


def test_compressed_snapshots_are_read(tmp_path: Path) -> None:
    data = dumped(filled(OPTIMIZER, request=2 * GIB))
    found = report(tmp_path, ("snapshot.pickle.gz", gzip.compress(data)))
    assert first(found) == "optimizer-states"
    cut = report(tmp_path, ("snapshot.pickle.gz", gzip.compress(data)[:-200]))
    assert len(cut["errors"]) == 1


def test_a_folder_gives_its_snapshots_and_no_other_pickles(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG.format(tried="2.00 GiB", allocated="22.00 GiB", idle="310.00 MiB"))
    for name, data in (("rank0.pickle", dumped(filled(OPTIMIZER, request=2 * GIB))), ("other.pkl", pickle.dumps([1]))):
        (tmp_path / name).write_bytes(data)
    (tmp_path / "rank1.pickle.gz").write_bytes(gzip.compress(dumped(filled(OPTIMIZER))))
    found = oomdoctor.diagnose(tmp_path).as_json()
    assert first(found) == "optimizer-states"
    assert found["errors"] == []
    assert found["stats"]["files"] == 3


class Exploit:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch owned",)


def test_other_pickles_get_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = report(tmp_path, ("a.pkl", pickle.dumps({"weights": [1]})), ("b.pkl", pickle.dumps(Exploit())))
    assert [error["why"] for error in found["errors"]] == [
        "a pickle that is not a PyTorch memory snapshot",
        "a pickle that names code to run, which a PyTorch memory snapshot never does; nothing of it was run",
    ]
    assert found["verdict"] == "inconclusive"
    assert not (tmp_path / "owned").exists()


def test_names_in_a_snapshot_are_disarmed(tmp_path: Path) -> None:
    hostile = ("/job/\x1b[31m<script>alert(1)</script>.py:3 run\u202e", *FORWARD)
    found = report(tmp_path, ("snapshot.pickle", dumped(filled([(hostile, GIB, 20)], request=2 * GIB, asker=hostile))))
    text = str(found)
    assert "\\x1b" not in text
    assert "\u202e" not in text


def test_a_log_without_a_snapshot_loads_none_of_the_reader(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(LOG.format(tried="2.00 GiB", allocated="22.00 GiB", idle="310.00 MiB"))
    program = f"import oomdoctor, sys; oomdoctor.diagnose({str(log)!r}); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    reader = {f"oomdoctor.snapshots.{name}" for name in ("reading", "machine", "rows", "tally", "account", "holders")}
    assert not reader & set(done.stdout.split())
