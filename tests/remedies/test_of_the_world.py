"""Remedies in the terms of the framework that failed."""

from __future__ import annotations

import pytest
from remedy_logs import advise

CAPPED = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried} MiB. GPU 0 has a total capacity of 47.50 "
    "GiB of which {free} MiB is free. 4.00 GiB allowed; Of the allocated memory 3.90 GiB is allocated by PyTorch, and "
    "20.00 MiB is reserved by PyTorch but unallocated.\n"
)
GRAPH = (
    "ResourceExhaustedError: OOM when allocating tensor with shape[7000,320] and type float on "
    "/job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc\n\t [[Node: training/Adam/mul_4]]\n"
)
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.mark.parametrize(("tried", "free", "lifted"), [(90, 90, True), (90, 9000, True), (91, 90, False)])
def test_a_memory_fraction_is_lifted_where_the_gpu_has_room(tried: int, free: int, lifted: bool) -> None:
    remedy = advise(CAPPED.format(tried=tried, free=free), "raise-allocator-cap", cause="allocator-cap")[0]
    snippet = remedy["raise-allocator-cap"].snippet
    assert (snippet == "torch.cuda.set_per_process_memory_fraction(1.0)") is lifted
    assert "system" not in remedy["raise-allocator-cap"].cost


@pytest.mark.parametrize(("log", "eight_bits"), [(GRAPH, False), (TORCH, True)])
def test_bitsandbytes_has_no_optimizer_for_tensorflow(log: str, eight_bits: bool) -> None:
    remedy = advise(log, "low-memory-optimizer", cause="optimizer-states")[0]["low-memory-optimizer"]
    assert ("8-bit" in remedy.action or "8bit" in (remedy.snippet or "")) is eight_bits


@pytest.mark.parametrize(("day", "knows"), [("2021-11-30", True), ("2020-11-30", False)])
def test_what_tensorflow_tells_of_its_memory_is_as_old_as_its_release(day: str, knows: bool) -> None:
    launch = (
        "F ./tensorflow/core/kernels/fill_functor.cu.cc:41] Non-OK-status: GpuLaunchKernel(Fill, n) status: Internal"
    )
    remedies, _ = advise(f"{day} 04:05:06.070809: {launch}: out of memory\n", "cap-preallocation", "collect-evidence")
    assert remedies["cap-preallocation"].snippet == "export TF_FORCE_GPU_ALLOW_GROWTH=true"
    assert ("get_memory_info" in (remedies["collect-evidence"].snippet or "")) is knows
