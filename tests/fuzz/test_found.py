"""Inputs that the fuzzers found: each once made a reader raise, print what it should not, or take its time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import oomdoctor
from fuzz.checks import ALL, check, printed
from oomdoctor import families, streams

FOUND = {
    "two reports of memory on one line": (
        b"(after 10 iterations) memory (MB) | allocated: 29451.43 | max allocated: 70200.50 | reserved: 75000.00 "
        b"Theoretical memory footprints: weight and optimizer=3.5 GB, activation=2.0 GB, total=5.5 GB\n"
    ),
    "a carriage return in an actor's name": b"(Policy\rModelActor pid=5120) step 1\n(\rA pid=2) CUDA out of memory\n",
    "a carriage return behind a launcher's prefix": (
        b"node-17: a\nnode-17: \rnode-17: ValueError: Not enough host memory available. Requesting 96.00 GB but only "
        b"have 41.50 GB free.\nnode-17: b\n"
    ),
    "characters that nobody sees": "CUDA out of memo\U0001d173\U000e0101\u3164\ufe01ry. Tried".encode(),
    "circled digits in nvidia-smi's table": (
        "index, memory.used [MiB], memory.total [MiB]\n\u2460, \u2460 MiB, \u2460 MiB\n"
        "pid, process_name, used_gpu_memory [MiB]\n\u2460, python, \u2460 MiB\n"
    ).encode(),
    "thousands of digits": b"MemTotal:        " + b"9" * 5000 + b" kB\nCUDA out of memory. Tried to allocate 1 GiB\n",
    "a signal with hundreds of digits": b"Killing process 'python3' with signal " + b"9" * 400 + b"\n",
    "lists of sizes in an offload plan": (
        b"time=2025-08-11T00:42:49.545+02:00 level=INFO source=server.go:543 msg=offload library=rocm "
        b'layers.requested=99 layers.model=37 layers.offload=37 memory.available="[61.2 GiB]"\n'
        b"RuntimeError: cuda runtime error (2) : out of memory\n"
    ),
}  # fmt: skip

# Each of these took 20 to 300 seconds per megabyte: around every line a window of hundreds was looked through again.
REPEATED = {
    "failures of nobody that is known": "RuntimeError:  out of memory.ry.ry.ry",
    "refusals that may be caught": "ERROR in stage 2: CUDA out of memory.",
    "exit codes": "exit code: 137",
    "dicts of which none closes": '        "HostConfig": {',
    "heads of a table": "Top 10 memory users: PID\tMEM(GB)\tCOMMAND",
    "dead workers": "    exit_type: NODE_OUT_OF_MEMORY",
}

MOST_CALLS = 2000  # for each of these lines; before, it were up to 40,000


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_does_not_come_back(name: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_bytes(FOUND[name])
    check(log, len(FOUND[name]), ALL)


def calls(log: Path) -> int:
    """How many functions a diagnosis calls, those of C among them: the same on every machine, and busy or not."""
    count = 0

    def counted(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        oomdoctor.diagnose(log)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATED)
def test_the_work_grows_with_the_log_and_no_faster(name: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    line = REPEATED[name] + "\n"
    log.write_text(line)
    oomdoctor.diagnose(log)  # grammars are built on first use
    log.write_text(line * 1000)
    once = calls(log)
    log.write_text(line * 2000)
    assert calls(log) < 2.5 * once
    assert once < MOST_CALLS * 1000


TORN = {
    "a size": "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 1.2.3 GiB total capacity)",
    "megabytes": "Job has gone over memory limit of 17.97 megabytes. Peak usage: 1.2.3 megabytes.",
    "pages": "a invoked oom-killer: order=0\n1.2.97 pages RAM\nOut of memory: Killed process 7 (a) total-vm:9kB",
}


@pytest.mark.parametrize("name", TORN)
def test_no_figure_is_torn_out_of_a_number(name: str, tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(TORN[name] + "\n")
    report = oomdoctor.diagnose(log).as_json()
    assert report["events"]
    assert printed(log.read_bytes(), report) == []
    assert {"total_bytes", "limit_bytes", "peak_bytes"}.isdisjoint(report["events"][0]["usage"])


@pytest.mark.parametrize("share", ["-7", "-0.5"])
def test_no_share_is_negative(share: str) -> None:
    text = f"Node memory usage above threshold, used: 8, threshold_bytes: 7, threshold fraction: {share}"
    (event,) = (found for found in families.read(streams.page("job.log", 1, text.encode())))
    assert isinstance(event, families.Event)
    assert event.figures("threshold") == {"bytes": 7}


def test_the_digits_behind_a_point_are_no_figure(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(
        "panic: insufficient memory - required allocations: {CPU:{Name:CPU Weights:[17179869183.97F 0U]} GPUs:[]}\n"
    )
    (event,) = oomdoctor.diagnose(log).as_json()["events"]
    assert event["usage"] == {}
