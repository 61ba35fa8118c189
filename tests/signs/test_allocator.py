from __future__ import annotations

import pytest
from gpu_logs import crash, refused

from oomdoctor.incident.model import Crash
from oomdoctor.signs import allocator


def claimed(tried: str, free: str) -> Crash:
    """A process that holds 40 GiB of the 41 that it is allowed."""
    return crash(
        refused(tried, free=free, own=None, allocated="39.00 GiB", unallocated="1.00 GiB", allowed="41.00 GiB")
    )


@pytest.mark.parametrize(
    ("tried", "free", "beside_room", "on_a_full_card"),
    [
        ("900.00 MiB", "20.00 GiB", 0, 0),
        ("1023.00 MiB", "20.00 GiB", 1, 0),  # printed with two decimals, it may be over the limit
        ("1023.00 MiB", "1022.00 MiB", 0, 0),
        ("1025.00 MiB", "1025.00 MiB", 1, 0),
        ("1025.00 MiB", "1024.00 MiB", 0, 1),
    ],
)
def test_a_claim_is_held_against_what_is_allowed(tried: str, free: str, beside_room: int, on_a_full_card: int) -> None:
    claim = claimed(tried, free)
    assert bool(allocator.beyond_the_allowed_beside_room(claim)) is bool(beside_room)
    assert bool(allocator.beyond_the_allowed_on_a_full_card(claim)) is bool(on_a_full_card)
    assert bool(allocator.within_the_allowed(claim)) is not bool(beside_room or on_a_full_card)


@pytest.mark.parametrize(
    ("tried", "device", "is_limited"),
    [("4095.00 MiB", "XPU", False), ("4.00 GiB", "XPU", True), ("12.00 GiB", "XPU", False), ("4.00 GiB", "HIP", False)],
)
def test_intels_largest_allocation(tried: str, device: str, is_limited: bool) -> None:
    line = refused(tried, "15.00 GiB", "14.00 GiB", None, "3.00 GiB", "0 bytes", device=device)
    assert (allocator.beyond_the_largest_allocation(crash(line)) is not None) is is_limited


@pytest.mark.parametrize(("total", "is_hidden"), [("32.00 GiB", True), ("32.01 GiB", False)])
def test_the_driver_tells_of_twice_as_much(total: str, is_hidden: bool) -> None:
    line = refused("20.00 GiB", total, "15.00 GiB", None, "0 bytes", "0 bytes", device="HIP")
    told = "[    3.2] amdgpu 0000:03:00.0: amdgpu: VRAM: 65536M 0x0000008000000000 (65536M used)"
    assert (allocator.card_partly_hidden(crash(line, told)) is not None) is is_hidden
    assert allocator.card_partly_hidden(crash(line)) is None


MPS = (
    "RuntimeError: MPS backend out of memory (MPS allocated: {} GB, other allocations: {} GB, max allowed: 18.13 GB). "
    "Tried to allocate 1.90 GB on private pool."
)


@pytest.mark.parametrize(("allocated", "others", "is_own"), [("8.00", "8.00", False), ("8.01", "8.00", True)])
def test_whose_is_most_of_what_counts_against_apples_limit(allocated: str, others: str, is_own: bool) -> None:
    refusal = crash(MPS.format(allocated, others))
    assert allocator.beyond_the_watermark(refusal) is not None
    assert (allocator.watermark_filled_by_its_own(refusal) is not None) is is_own


@pytest.mark.parametrize(("tried", "is_beyond"), [("1,073,741,824", False), ("1,073,741,825", True)])
def test_a_librarys_pool_is_held_against_its_limit(tried: str, is_beyond: bool) -> None:
    refusal = crash(
        f"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating {tried} bytes (allocated so far: 20,401,094,656 "
        "bytes, limit set to: 21,474,836,480 bytes)."
    )
    assert (allocator.pool_of_a_library_beyond_its_limit(refusal) is not None) is is_beyond
    assert (allocator.pool_of_a_library_within_its_limit(refusal) is None) is is_beyond


ARENA = "RuntimeError: onnxruntime::BFCArena::Alloc {}"
LEFT = ARENA.format("Available memory of 805306368 is smaller than requested bytes of 1610612736")
REFUSED = ARENA.format("Failed to allocate memory for requested buffer of size 1610612736")


@pytest.mark.parametrize(("line", "is_full"), [(LEFT, True), (REFUSED, False)])
def test_an_arena_is_full_by_its_own_limit(line: str, is_full: bool) -> None:
    assert (allocator.arena_of_a_library_is_full(crash(line)) is not None) is is_full


BUILDER = "[TRT] [E] 10: Could not find any implementation for node {Conv_1} due to insufficient workspace."
CONTEXT = "[TRT] [E] 2: Error Code 2: OutOfMemory (Requested size was 2147483648 bytes.)"


@pytest.mark.parametrize(("line", "is_small"), [(BUILDER, True), (CONTEXT, False)])
def test_a_workspace_is_too_small_for_any_kernel(line: str, is_small: bool) -> None:
    assert (allocator.workspace_of_a_library_is_too_small(crash(line)) is not None) is is_small


@pytest.mark.parametrize(
    ("reason", "is_limited"),
    [
        ("Requested buffer size exceeds device buffer size limit", True),
        ("Requested buffer size exceeds device memory allocation limit", True),
        ("vk::Device::allocateMemory", False),
    ],
)
def test_a_buffer_is_larger_than_the_device_gives(reason: str, is_limited: bool) -> None:
    lines = (
        "ggml_vulkan: Device memory allocation of size 5368709120 failed.",
        f"ggml_vulkan: {reason}: ErrorOutOfDeviceMemory",
    )
    assert (allocator.buffer_beyond_the_devices_largest(crash(*lines)) is not None) is is_limited
