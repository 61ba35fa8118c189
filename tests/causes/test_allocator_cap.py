from __future__ import annotations

from typing import Any

from gpu_logs import BACKWARD, finding, ranking, refused, ruled_out, says, trace

from oomdoctor.causes.allocator_cap import CAUSE
from oomdoctor.decision.judgement import Finding
from oomdoctor.signs import Grade


def test_not_a_message_without_a_limit() -> None:
    assert says(CAUSE, refused()) is None


def test_not_a_limit_that_is_kept() -> None:
    line = refused(
        tried="1.00 GiB", own="40.00 GiB", allocated="38.00 GiB", unallocated="1.00 GiB", allowed="60.00 GiB"
    )
    assert "within the 60.00 GiB limit" in ruled_out(CAUSE, line)


def test_not_first_when_the_card_is_full_as_well() -> None:
    found = finding(CAUSE, *trace(BACKWARD), refused(tried="2.00 GiB", allowed="77.80 GiB"))
    assert found.grade == Grade.POINTS
    assert found.against


def test_not_a_large_request_on_xpu_that_did_not_fit_anyway() -> None:
    line = refused(tried="5.00 GiB", total="15.11 GiB", free="1.00 GiB", own=None, allocated="13.00 GiB", device="XPU")
    assert not isinstance(says(CAUSE, line), Finding)


def test_a_fraction_with_most_of_the_card_free() -> None:
    line = refused(
        tried="20.00 MiB",
        free="31.40 GiB",
        own="47.70 GiB",
        allocated="47.40 GiB",
        unallocated="58.00 MiB",
        allowed="47.46 GiB",
    )
    assert finding(CAUSE, line).grade == Grade.PROVES
    assert ranking(line)[0] == "allocator-cap"


def test_one_allocation_too_large_for_the_driver() -> None:
    assert finding(CAUSE, "RuntimeError: Invalid buffer size: 22.75 GB").grade == Grade.PROVES
    line = refused(
        tried="4.50 GiB",
        total="15.11 GiB",
        free="14.00 GiB",
        own=None,
        allocated="0 bytes",
        unallocated="0 bytes",
        device="XPU",
    )
    assert "limits the size of a single allocation" in finding(CAUSE, line).why


def test_apples_watermark_counts_what_others_hold() -> None:
    mps = (
        "RuntimeError: MPS backend out of memory (MPS allocated: {} GB, other allocations: {} GB, max allowed: "
        "18.13 GB). Tried to allocate 1.90 GB on private pool."
    )
    assert finding(CAUSE, mps.format("4.00", "12.60")).grade == Grade.NAMES
    assert finding(CAUSE, mps.format("14.00", "2.60")).grade == Grade.POINTS


def test_a_cap_that_is_full_to_the_last_printed_digit() -> None:
    full: dict[str, Any] = {
        "tried": "2.00 MiB",
        "total": "191.98 GiB",
        "own": None,
        "allocated": "2034.40 MiB",
        "allowed": "2.10 GiB",
    }
    assert (
        finding(CAUSE, refused(**full, free="180.20 GiB", unallocated="114.00 MiB", device="HIP")).grade == Grade.PROVES
    )
    assert "within" in ruled_out(CAUSE, refused(**full, free="180.20 GiB", unallocated="14.00 MiB", device="HIP"))


APU: dict[str, Any] = {
    "tried": "20.00 GiB",
    "total": "15.90 GiB",
    "own": None,
    "allocated": "0 bytes",
    "unallocated": "0 bytes",
}


def test_not_a_driver_that_tells_of_what_the_framework_sees() -> None:
    line = refused(**APU, free="15.70 GiB", device="HIP")
    assert says(CAUSE, line, "[drm] amdgpu: 16384M of VRAM memory ready") is None


def test_a_driver_that_tells_of_far_more_than_the_framework_sees() -> None:
    line = refused(**APU, free="15.70 GiB", device="HIP")
    found = finding(CAUSE, line, "[    3.2] amdgpu 0000:03:00.0: amdgpu: VRAM: 65536M 0x0000008000000000 (65536M used)")
    assert "64.00 GiB" in found.why
    assert found.knobs[0] == "raise-allocator-cap"  # a look at versions changes nothing


CUPY = (
    "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating {} bytes (allocated so far: 20,401,094,656 bytes, "
    "limit set to: 21,474,836,480 bytes)."
)


def test_the_limit_of_cupys_pool() -> None:
    found = finding(CAUSE, CUPY.format("3,221,225,472"))
    assert "19.00 GiB allocated + 3.00 GiB requested = 22.00 GiB, above the 20.00 GiB" in found.why


def test_not_a_limit_of_cupys_that_is_kept() -> None:
    assert "within the limit" in ruled_out(CAUSE, CUPY.format("1,048,576"))


FRACTION = (
    "torch.OutOfMemoryError: Allocation on device 0 would exceed {}. (out of memory)",
    "Currently allocated     : 4.10 GiB",
    "Requested               : 1.20 GiB",
    "Device limit            : 23.60 GiB",
)


def test_a_fraction_that_the_asynchronous_allocator_names() -> None:
    named = finding(CAUSE, FRACTION[0].format("per_process_memory_fraction limit"), *FRACTION[1:])
    assert "1.20 GiB would exceed the process's memory fraction" in named.why
    assert not isinstance(says(CAUSE, FRACTION[0].format("allowed memory"), *FRACTION[1:]), Finding)


def test_a_runtimes_own_heap() -> None:
    assert "-Xmx" in finding(CAUSE, "java.lang.OutOfMemoryError: Java heap space").why


def test_a_programs_own_budget() -> None:
    found = finding(
        CAUSE,
        "MemoryError: Task 'sum' has 88.50 GiB worth of input dependencies, but worker tcp://10.0.0.9:40001 has "
        "memory_limit set to 31.25 GiB.",
    )
    assert "Dask stays within memory_limit: 88.50 GiB needed in all, 31.25 GiB allowed" in found.why
    assert "maxmemory, which is used up" in finding(CAUSE, REDIS).why


REDIS = "redis.exceptions.ResponseError: OOM command not allowed when used memory > 'maxmemory'."
RMM = "MemoryError: std::bad_alloc: out_of_memory: RMM failure at: mr.cpp:57: {} (failed to allocate 1.500 GiB)"


def test_a_librarys_pool_says_that_it_is_its_own_limit() -> None:
    assert "RMM reports that its own pool reached its limit" in finding(CAUSE, RMM.format("Exceeded memory limit")).why
    assert not isinstance(says(CAUSE, RMM.format("No room")), Finding)


PADDLE = "Out of memory error on GPU 1. Cannot allocate 512.000000MB memory on GPU 1, available memory is only 188.0MB."
FLAG = "so the maximum GPU memory usage is limited to 8000 MB."


def test_a_flag_limits_a_framework() -> None:
    assert "flag of the framework limits it to 7.81 GiB" in finding(CAUSE, PADDLE, "", FLAG).why
    assert "flag of the framework limits it to 7.81 GiB" in finding(CAUSE, PADDLE, *("advice",) * 8, FLAG).why
    assert not isinstance(says(CAUSE, PADDLE), Finding)


WORKER = (
    "distributed.worker.memory - WARNING - Worker is at {}% memory usage. Pausing worker.  Process memory: {} GiB -- "
)
KILL = "distributed.nanny - INFO - Worker process 4410 was killed by signal 9"


def test_a_worker_that_had_nearly_spent_its_budget_when_it_was_killed() -> None:
    found = finding(CAUSE, WORKER.format("94", "29.37") + "Worker memory limit: 31.25 GiB", KILL)
    assert "29.37 GiB of its 31.25 GiB in use" in found.why


def test_not_a_worker_with_room() -> None:
    assert not isinstance(says(CAUSE, WORKER.format("64", "20.00") + "Worker memory limit: 31.25 GiB", KILL), Finding)
