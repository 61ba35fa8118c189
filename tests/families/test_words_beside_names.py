"""Failures in words beside names, levels and releases; what is given back or waited for is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

from oomdoctor.families.shortage import shortfall, waits

NONE = (
    "oom_observer: registered for rank 3",
    "OOM_DUMP enabled, markers in /tmp/d",
    "slurmstepd: OOMKillStep was requested but memory.oom.group interface is not available.",
)


@pytest.mark.parametrize("text", NONE)
def test_a_name_alone_is_no_failure(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("WARNING: callbacks.oom_observer: Out Of Memory (OOM) observed", "oom"),
        (
            "[2026-05-02][ERROR] [OOM_DUMP] OOM device=3 failed_alloc=2147483648 free=402653184 marker=/a/oom_1.txt",
            "oom",
        ),
        ("W20260511 09:40:12.551002  7719 store.cpp:304] Failed to allocate pinned restore arena", "no-oom"),
        ("E20260511 09:40:12.551002  7719 store.cpp:304] Failed to allocate pinned restore arena", "oom"),
        ("[w 1104 09:12:44.120031 77 alloc.cc:31] Unable to alloc cuda device memory for size1207959552", "no-oom"),
        ("[f 1104 09:12:44.120031 77 alloc.cc:31] Unable to alloc cuda device memory for size1207959552", "oom"),
    ],
)
def test_what_a_line_says_beside_its_names_and_level(tmp_path: Path, text: str, verdict: str) -> None:
    assert body(tmp_path, text)["verdict"] == verdict


@pytest.mark.parametrize(
    "text",
    [
        "Unable to detach shared memory segment at 0x7f12: No such segment",
        "Failed to clear mmap cache of ram mmap index",
        "shared memory munmap(address=0x7f12, length=4096) failed: out of range",
        "RuntimeError: 12.5 MB of GPU memory was not freed after execution.",
        "RuntimeError: attempted allocation of 5000000 ports, but only 4000000 free",
        "Attempted allocation of 33554432, but only 268435456 free",
    ],
)
def test_no_shortage(text: str) -> None:
    assert shortfall(text, raised=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "Unable to release enough memory: out of memory",
        "RuntimeError: GPU memory was not freed.",
        "AllocationError: Attempted allocation of 268435456, but only 33554432 free",
        "Failed to create deferred work task, Out of memory",
    ],
)
def test_a_shortage(text: str) -> None:
    found = shortfall(text, raised=True)
    assert found is not None
    assert not found.kept


@pytest.mark.parametrize("text", ["Waiting for more resources.", "Waiting for resource server 'math' at 10.0.0.1"])
def test_a_wait_of_another_program(text: str) -> None:
    assert waits(text) is None


def test_a_wait_of_a_cluster() -> None:
    assert waits("Waiting for cluster resources") is not None
    assert waits("waiting for 4 GPUs") is not None


@pytest.mark.parametrize(
    ("line", "failed"),
    [
        ("mydaemon: error: failed to allocate 1048576 bytes, 0 bytes free", True),
        ("ERROR: Failed to allocate KV cache: need 1.5 GiB, 0 bytes free", True),
        ("ERROR cannot allocate 4096 bytes: pool of 1048576 bytes has 0 bytes left", True),
        ("reached memory limit while trying to allocate 0 bytes, currently at 64/10495852544", False),
        ("WARN memory limit exceeded: process killed (limit 512 MB, used 600 MB)", True),
        ("WARNING insufficient memory: need 600 MB, have 512 MB. Exiting.", True),
        ("sort: write failed: sorted_bed: No space left on device", False),
    ],
)
def test_nothing_left_is_not_nothing_asked(line: str, failed: bool, tmp_path: Path) -> None:
    assert bool(body(tmp_path, f"{line}\n")["events"]) is failed


KILOSORT = "9471.83 sec, 5401 / 8421 batches, 154 units, mu: 17.1072, nst0: 2342\n"


@pytest.mark.parametrize(
    ("log", "failed"),
    [
        # rows of one width are no wrapped lines
        (f"{KILOSORT}{KILOSORT.replace('71.83', '98.16')}Out of memory. Type HELP MEMORY for your options.\n", True),
        ("Caught a critical exception: cuda_malloc(): out of memory!\ncuda_shutdown()\n", True),
        ("Caught an exception (out of memory), going on with half of the batch\n", False),
        ("Allocation on device 0 took 12 ms\n", False),
    ],
)
def test_the_same_words_in_another_dress(log: str, failed: bool, tmp_path: Path) -> None:
    assert bool(body(tmp_path, log)["events"]) is failed


def test_a_frame_behind_the_level_of_its_log(tmp_path: Path) -> None:
    log = (
        'ERROR:  File "/opt/env/lib/python3.10/site-packages/torch/optim/adam.py", line 505, in _multi_tensor_adam\n'
        "    root = torch._foreach_sqrt(device_exp_avg_sqs)\n"
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 246.00 MiB (GPU 3; 39.59 GiB total "
        "capacity; 37.60 GiB already allocated; 99.69 MiB free; 38.17 GiB reserved in total by PyTorch)\n"
    )
    assert body(tmp_path, log)["diagnoses"][0]["cause"] == "optimizer-states"
