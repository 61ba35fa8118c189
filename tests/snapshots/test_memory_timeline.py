"""torch.profiler's memory timelines: what is read of them, what is none, and what a report says with one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from snapshot_maker import GIB, MIB, WEIGHTS, dumped, filled
from test_snapshot_reports import LOG, first, report, rows

import oomdoctor
from oomdoctor.snapshots import timeline
from oomdoctor.snapshots.model import Account
from oomdoctor.sources.recognised import may_be_timeline

BEGIN = 1_763_000_000_000_000
Row = Sequence[int]
# Parameters, optimizer states, inputs, temporary, activations, gradients, autograd's, without a category
STATIC = (3 * GIB, 6 * GIB, 64 * MIB, 0, 0, 0, 0, 0)
FORWARD = (3 * GIB, 6 * GIB, 64 * MIB, 0, 12 * GIB, 0, 0, 8 * MIB)
BACKWARD = (3 * GIB, 6 * GIB, 64 * MIB, 256 * MIB, 5 * GIB, 2 * GIB, GIB, 8 * MIB)
WEIGHT = (20 * GIB, 0, 0, 0, GIB, 0, 0, 0)
OPTIMIZER = (6 * GIB, 12 * GIB, 64 * MIB, 256 * MIB, 0, 3 * GIB, 0, 0)


def exported(*sizes: Row, begin: int = BEGIN) -> bytes:
    """As PyTorch's `export_memory_timeline` writes it."""
    return json.dumps([[begin + 40 * number for number in range(len(sizes))], [[0, *row] for row in sizes]]).encode()


STEPS = exported(STATIC, *[FORWARD, BACKWARD, STATIC] * 40)


def read(data: bytes, size: int = 64 * 1024) -> Account | None:
    return timeline.read(data[at : at + size] for at in range(0, len(data), size))


def log(allocated: int) -> str:
    return LOG.format(tried="2.00 GiB", allocated=f"{allocated / GIB:.2f} GiB", idle="310.00 MiB")


@pytest.mark.parametrize("size", [1, 7, 300, 64 * 1024])
def test_the_peak_by_category(size: int) -> None:
    found = read(STEPS, size)
    assert found is not None
    assert {one.holder: one.bytes for one in found.holdings} == {
        "activations": 12 * GIB,
        "optimizer states": 6 * GIB,
        "parameters": 3 * GIB,
        "input batches": 64 * MIB,
        "other allocations": 8 * MIB,
    }
    assert found.allocated == sum(FORWARD)
    assert found.entries == 121


def test_other_spaces_and_a_line_break_at_the_end() -> None:
    whole = read(STEPS)
    assert read(STEPS.replace(b", ", b",")) == read(STEPS + b"\n") == whole


@pytest.mark.parametrize(
    "data",
    [
        json.dumps([[BEGIN, BEGIN + 1], [[0, *STATIC]]]),  # a row too few
        json.dumps([[BEGIN], [[0, *STATIC], [0, *STATIC]]]),
        json.dumps([[BEGIN], [STATIC]]),  # without the 0
        json.dumps([[BEGIN], [[1, *STATIC]]]),
        json.dumps([[BEGIN], [[0, *STATIC, 0]]]),  # a category more
        json.dumps([[BEGIN], [[0, *STATIC]], []]),
        json.dumps([[BEGIN], [[0, *STATIC]]]) + "]",
        json.dumps([[BEGIN], [[0] * 9]]),
        json.dumps([[BEGIN], [[0, 2**63, *[0] * 7]]]),
        json.dumps([[BEGIN], [[0, 10**40, *[0] * 7]]]),
        json.dumps([[BEGIN], [[0, *[float(size) for size in STATIC]]]]),
        json.dumps([["a", BEGIN], [[0, *STATIC]]]),
        json.dumps([[BEGIN, BEGIN + 1], [BEGIN, BEGIN]]),
        json.dumps([[BEGIN, 1, 4096, 0], [BEGIN, 2, 512, 4]]),  # `export_memory_timeline`'s raw form
        json.dumps([[BEGIN]]),
        "[[" + "[" * 100_000,
        "[[" + "1" * 100_000,
        "[[" + " " * 100_000 + "]",
        json.dumps([[BEGIN] * 3, [[0, *STATIC]] * 3])[:-3],
        "",
        "{}",
    ],
)
@pytest.mark.parametrize("size", [3, 1024])
def test_other_json_is_none(data: str, size: int) -> None:
    assert read(data.encode(), size) is None


def test_many_rows_are_not_kept() -> None:
    row = json.dumps([0, *FORWARD]).encode()

    def text() -> Iterator[bytes]:
        yield b"[[%d" % BEGIN
        for _ in range(200):
            yield b", %d" % BEGIN * 100
        yield b"], [" + row
        for _ in range(200):
            yield (b", " + row) * 100
        yield b"]]"

    begin = time.process_time()
    found = timeline.read(text())
    assert found is not None
    assert found.entries == 20_001
    assert time.process_time() - begin < 5


@pytest.mark.parametrize(
    ("head", "is_one"),
    [
        (STEPS[:256], True),
        (exported(STATIC), True),
        (b"[[1763000000000000, 1763000000000040], [3, 4]]", True),  # its rows say later that it is none
        (b"[[1, 2, 3], [[0, 1, 2]]]", False),
        (b'[["a"], [1]]', False),
        (b"[[1763000000000000.5, 2]", False),
        (b"[[1763000000000000, 2]", False),
        (b"2026-11-23 [[1763000000000000, 1763000000000040]", False),
        (b"", False),
    ],
)
def test_first_bytes(head: bytes, is_one: bool) -> None:
    assert may_be_timeline(head) is is_one


@pytest.mark.parametrize(
    ("cause", "peak"), [("activations", FORWARD), ("optimizer-states", OPTIMIZER), ("model-does-not-fit", WEIGHT)]
)
def test_it_decides_beside_the_log(cause: str, peak: Row, tmp_path: Path) -> None:
    found = report(tmp_path, ("train.log", log(sum(peak))), ("timeline.json", exported(STATIC, peak, STATIC)))
    assert found["verdict"] == "oom"
    assert first(found) == cause
    held = rows(found)
    assert "live tensors" not in held
    assert held["parameters"] == peak[0]
    assert "The memory timeline shows where the memory was at its peak" in str(found["diagnoses"][0])


def test_a_timeline_of_another_run_says_nothing(tmp_path: Path) -> None:
    text = log(sum(FORWARD) - GIB)
    found = report(tmp_path, ("train.log", text), ("timeline.json", exported(STATIC, FORWARD)))
    (tmp_path / "alone").mkdir()
    alone = report(tmp_path / "alone", ("train.log", text))
    assert rows(found) == rows(alone)
    assert [one["cause"] for one in found["diagnoses"]] == [one["cause"] for one in alone["diagnoses"]]


@pytest.mark.parametrize("name", ["timeline.json", "timeline.json.gz"])
def test_alone_it_is_told(name: str, tmp_path: Path) -> None:
    found = report(tmp_path, (name, gzip.compress(STEPS) if name.endswith("gz") else STEPS))
    assert found["verdict"] == "no-oom"
    held = "12.00 GiB activations, 6.00 GiB optimizer states, 3.00 GiB parameters"
    assert found["notes"] == [f"{name}: memory timeline of torch.profiler: 21.07 GiB at its peak: {held}"]


def test_a_near_miss_is_read_as_before(tmp_path: Path) -> None:
    found = report(tmp_path, ("data.json", json.dumps([[BEGIN, BEGIN + 1], [[0, 1], [0, 2]]])))
    assert (found["verdict"], found["notes"], found["errors"]) == ("no-oom", [], [])


def test_a_folder_gives_its_timelines_and_no_other_json(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(log(sum(FORWARD)))
    (tmp_path / "timeline.json").write_bytes(STEPS)
    (tmp_path / "metrics.json").write_text("[[1, 2, 3], [4, 5, 6]]")
    found = oomdoctor.diagnose(tmp_path).as_json()
    assert first(found) == "activations"
    assert found["stats"]["files"] == 2


def test_a_snapshot_beside_it_is_asked_first(tmp_path: Path) -> None:
    snapshot = dumped(filled([(WEIGHTS, GIB, 22)], request=2 * GIB))
    found = report(tmp_path, ("train.log", log(22 * GIB)), ("timeline.json", exported(FORWARD)), ("s.pickle", snapshot))
    assert first(found) == "model-does-not-fit"


def test_a_log_without_one_loads_none_of_it(tmp_path: Path) -> None:
    text = tmp_path / "train.log"
    text.write_text("[[" + log(22 * GIB))
    program = f"import oomdoctor, sys; oomdoctor.diagnose({str(text)!r}); print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60)
    loaded = done.stdout.split()
    assert "oomdoctor.snapshots.timeline" not in loaded
