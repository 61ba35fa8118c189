"""What stands beside a refusal decides what it is of: a call's errno, a row of mount, a fault before it, a row's end.

Beside each stand its near misses: the same words where something else was short, or nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

NCCL = "gpu03:4410:4471 [1] include/shm.h:{} NCCL WARN "
OPENED = NCCL.format(27) + "Call to shm_open failed : {}\n"
SEGMENT = NCCL.format(48) + "Error while creating shared memory segment nccl-shm-recv-5d1c0 (size 9637888)\n"
FULL_DISK = "[09:11:05 error] indexer   : caught exception No space left on device\n"
QUEUES = "[09:11:05 debug] indexer   : creating queues for IPC\n"
FILES = "[09:11:05 debug] indexer   : writing 412 files to the index\n"
MOUNTED = "shm  /dev/shm  tmpfs  rw,nosuid,nodev,noexec,relatime,size=65536k\n"
OTHER_MOUNT = "tmpfs  /run/lock  tmpfs  rw,nosuid,nodev,noexec,relatime,size=5120k\n"
STICKY = (
    "MemoryError: std::bad_alloc: CUDA error at: /opt/b/rmm/mr/device/cuda_memory_resource.hpp66: {}\n"
    "---------------------------------------------------------------------------\n"
    "MemoryError\n"
)
SPILL = (
    "2024-03-02 08:00:11,104 - distributed.worker - WARNING - RMM allocation of {} failed, spill-on-demand couldn't "
    "find any device memory to spill:\n"
    "<ProxyManager dev_limit=22.35 GiB host_limit=60.10 GiB disk=0 B(0) host=3.10 GiB(2) dev=0 B(0)>:\n"
)
CARD = 'Error: Device "{}" does not have enough memory.\n'
XLA = (
    "2025-02-03 10:11:12.345678: W external/xla/xla/tsl/framework/bfc_allocator.cc:291] Allocator (GPU_0_bfc) ran out "
    "of memory trying to allocate 31.50GiB with freed_by_count=0. The caller indicates that this is not a failure, but "
    "this may mean that there could be performance gains if more memory were available.\n"
)
FILTERED = (
    "jax.errors.SimplifiedTraceback: For simplicity, JAX has removed its internal frames from the traceback of the "
    "following exception. Set JAX_TRACEBACK_FILTERING=off to include these.\n\n"
    "The above exception was the direct cause of the following exception:\n\n"
)
CUT = (
    "Traceback (most recent call last):\n"
    '  File "/srv/walker/train.py", line 88, in main\n'
    "    state = agent.learn(env, key)\n"
    '  File "/srv/walker/rollouts.py", line 41, in unroll\n'
    "    states = scan(step, state, keys)"
)
STOPS = "WARNING:torch.distributed.elastic.multiprocessing.api:Sending process 5120{} closing signal SIGTERM"
FAILED = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: {}) local_rank: 3 (pid: 51204) of binary: "
    "/opt/env/bin/python"
)
BAR = "Loading checkpoint shards:   0%|          | 0/3 [00:00<?, ?it/s]"


SYSTEM_V = (
    "[1700000000.111222] [n04:4410:0]  sys.c:619  UCX  ERROR shmget(size=8527872 flags=0x7b0) for mm_recv_desc failed: "
    "No space left on device, please check shared memory limits by 'ipcs -l'\n"
)


def first(tmp_path: Path, text: str) -> tuple[str, list[str]]:
    said: dict[str, Any] = body(tmp_path, text)
    return said["verdict"], [diagnosis["cause"] for diagnosis in said["diagnoses"]]


@pytest.mark.parametrize(
    "errno", ["Permission denied", "Operation not permitted", "Read-only file system", "Function not implemented"]
)
def test_a_folder_of_shared_memory_that_nobody_may_write_to_is_not_full(tmp_path: Path, errno: str) -> None:
    assert first(tmp_path, OPENED.format(errno) + SEGMENT) == ("no-oom", [])


@pytest.mark.parametrize("above", ["", OPENED.format("No space left on device")])
def test_a_segment_that_found_no_room_still_is_one(tmp_path: Path, above: str) -> None:
    assert first(tmp_path, above + SEGMENT) == ("oom", ["shm-too-small"])


def test_what_was_not_allowed_long_before_tells_nothing_of_the_segment(tmp_path: Path) -> None:
    others = "".join(f"gpu03:4410:4471 [1] NCCL INFO Channel 0{n}/02 : 0 1\n" for n in range(6))
    assert first(tmp_path, "open /etc/rdma.conf: Permission denied\n" + others + SEGMENT)[0] == "oom"


def test_queues_between_processes_beside_a_look_at_shared_memory_lie_there(tmp_path: Path) -> None:
    assert first(tmp_path, QUEUES + FULL_DISK + "\n" + MOUNTED)[1][0] == "shm-too-small"


@pytest.mark.parametrize("text", [FILES + FULL_DISK + MOUNTED, QUEUES + FULL_DISK, QUEUES + FULL_DISK + OTHER_MOUNT])
def test_a_full_disk_stays_one(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text) == ("no-oom", [])


@pytest.mark.parametrize(
    "fault", ["cudaErrorIllegalAddress an illegal memory access was encountered", "unspecified launch failure"]
)
def test_a_fault_that_the_next_allocation_reports_is_no_refusal(tmp_path: Path, fault: str) -> None:
    assert first(tmp_path, STICKY.format(fault)) == ("no-oom", [])


def test_a_refusal_in_the_same_words_is_one(tmp_path: Path) -> None:
    assert first(tmp_path, STICKY.format("cudaErrorMemoryAllocation out of memory"))[0] == "oom"


@pytest.mark.parametrize("size", ["3.10 GiB", "3.10 GiB bytes", "3328599654 bytes"])
def test_rmm_that_finds_nothing_to_spill_has_failed(tmp_path: Path, size: str) -> None:
    assert first(tmp_path, SPILL.format(size))[0] == "oom"


@pytest.mark.parametrize("card", ["NVIDIA GeForce GTX 1050 Ti", "NVIDIA GeForce RTX 3060 Ti", "GTX 1660 Ti Mobile"])
def test_a_cards_name_holds_no_size(tmp_path: Path, card: str) -> None:
    said = body(tmp_path, CARD.format(card))
    assert "tried_bytes" not in str(said["events"])
    assert [diagnosis["cause"] for diagnosis in said["diagnoses"]] == ["gpu-memory-exhausted"]


def test_a_quantity_of_kubernetes_still_is_a_size(tmp_path: Path) -> None:
    said = body(tmp_path, 'level=error msg="cannot reserve buffer: not enough memory" need=12Gi free=8Gi\n')
    assert 12 * 1024**3 in [event["usage"].get("tried_bytes") for event in said["events"]]


def test_a_refused_request_above_a_traceback_that_ends_is_what_it_is_of(tmp_path: Path) -> None:
    assert first(tmp_path, XLA + FILTERED + CUT)[0] == "oom"


@pytest.mark.parametrize(
    "text",
    [
        XLA + "step 100: loss 0.81\n",
        XLA + FILTERED + CUT + "\nValueError: too many values to unpack\n",
        XLA
        + "ValueError: wrong shape\n\nThe above exception was the direct cause of the following exception:\n\n"
        + CUT,
    ],
)
def test_a_refusal_that_the_step_did_without_is_none(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text) == ("no-oom", [])


def test_rows_of_a_terminal_that_were_copied_as_one_line_are_read_one_by_one(tmp_path: Path) -> None:
    rows = (BAR + STOPS.format(1), STOPS.format(2), FAILED.format(-9), "Traceback (most recent call last):")
    assert first(tmp_path, (" " * 40).join(rows))[1][0] == "host-model-load"


@pytest.mark.parametrize(
    "text", [STOPS.format(1) + " " * 40 + STOPS.format(2), STOPS.format(1) + " " * 40 + FAILED.format(1)]
)
def test_rows_without_a_kill_tell_of_none(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text) == ("no-oom", [])


def test_a_segment_of_system_v_has_limits_of_its_own(tmp_path: Path) -> None:
    said = body(tmp_path, SYSTEM_V)
    first_answer = said["diagnoses"][0]
    assert (first_answer["cause"], first_answer["pool"]) == ("shm-too-small", "shm")
    remedy = first_answer["remedies"][0]
    assert (remedy["setting"], remedy["suggested"]) == ("kernel.shmmni", 8192)
    assert "/dev/shm" not in str(first_answer["remedies"])


@pytest.mark.parametrize("text", [SEGMENT, QUEUES + FULL_DISK + MOUNTED])
def test_segments_of_dev_shm_know_nothing_of_system_v(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["remedies"][0]["setting"] == "--shm-size"


PROBE = (
    "2023-02-01 08:00:0{}.1: E tensorflow/compiler/xla/stream_executor/rocm/rocm_driver.cc:606] failed to allocate {}"
)


def test_a_ladder_of_impossible_requests_is_what_was_counted_as_free(tmp_path: Path) -> None:
    """A paste may end before the reason of its last step."""
    steps = ("111.00TiB (122045790683136 bytes) from device: HIP_ERROR_OutOfMemory", "99.90TiB (109841211614822 bytes)")
    said = body(tmp_path, "".join(PROBE.format(n, step) + "\n" for n, step in enumerate(steps)))
    assert said["diagnoses"][0]["remedies"][0]["knob"] == "cap-preallocation"


def test_of_two_calls_the_nearest_tells_why(tmp_path: Path) -> None:
    calls = (
        "gpu03:4410:4471 [1] NCCL WARN Call to sched_setaffinity failed : Operation not permitted\n"
        "gpu03:4410:4471 [1] NCCL WARN Call to posix_fallocate failed : No space left on device\n"
    )
    assert first(tmp_path, calls + SEGMENT)[0] == "oom"


def test_a_full_disk_beside_an_empty_shared_memory_is_a_disk(tmp_path: Path) -> None:
    shown = "/dev/sda1  104857600  104857600  0  100% /\nshm  65536  0  65536  0% /dev/shm\n"
    assert first(tmp_path, QUEUES + FULL_DISK + shown) == ("no-oom", [])


def test_what_postgresql_asked_of_system_v_stands_in_its_detail(tmp_path: Path) -> None:
    text = (
        "FATAL:  could not create shared memory segment: No space left on device\n"
        "DETAIL:  Failed system call was shmget(key=5432001, size=8964661248, 03600).\n"
    )
    answer = body(tmp_path, text)["diagnoses"][0]
    assert "kernel.shmmni" in str(answer["remedies"])
    assert body(tmp_path, text)["events"][0]["usage"]["tried_bytes"] == 8_964_661_248
