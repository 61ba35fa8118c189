"""Failures that another try made good, calls that came too early, and pools of a device beside pinned ones; each beside
what failed all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

OLLAMA = "time=2031-03-04T05:06:{}.118Z level={} source=server.go:{} msg={}"
NOT_COMMITTED = OLLAMA.format(21, "INFO", 701, '"failed to commit memory" error="insufficient memory on CUDA1"')
NO_LAYOUT = OLLAMA.format(21, "INFO", 702, '"failed to commit memory" error="memory layout cannot be allocated"')
STARTED = OLLAMA.format(24, "INFO", 1300, '"llama runner started in 2.95 seconds"')
PLANNED = OLLAMA.format(22, "INFO", 720, '"offload to cuda" layers.requested=-1 layers.model=41 layers.offload=23')
CRASHED = OLLAMA.format(23, "ERROR", 730, '"llama runner crashed"')
GIVEN_UP = OLLAMA.format(25, "INFO", 470, '"Load failed" model=/m/7 error="failed to commit memory for model"')
XLA = "2031-03-04 05:06:07.{}: {} xla/stream_executor/{}] {}"
ON_HOST = XLA.format(
    118220, "E", "cuda/cuda_driver.cc:1006", "failed to alloc 8589934592 bytes on host: CUDA_ERROR_OUT_OF_MEMORY"
)
WARNED = XLA.format(118230, "W", "host_allocator.h:46", "could not allocate pinned host memory of size: 8589934592")
PAGEABLE = XLA.format(118240, "I", "host_allocator.h:60", "falling back to pageable memory")
STEPS = "Epoch 2/10\n 40/400 [==>...........] - ETA: 1:02 - loss: 0.4120"
CHECK = "F xla/stream_executor/host.cc:112] Check failed: ptr != nullptr"
GOES_ON = (
    f"{NOT_COMMITTED}\n{STARTED}",
    f"{NOT_COMMITTED}\n{PLANNED}",
    f"{NO_LAYOUT}\n{PLANNED}\n{STARTED}",
    f"{ON_HOST}\n{WARNED}\n{PAGEABLE}",
    f"{ON_HOST}\n{WARNED}\n{STEPS}",
    "RuntimeError: cannot alloc before init_memory_pool()",
    "RuntimeError: cannot allocate before set_memory_limit() was called",
    "RuntimeError: Cannot alloc: init_memory_pool() has not been called",
    "ValueError: num_blocks must be positive",
    "AssertionError: num_gpu_blocks (0) must be > 0",
    "ValueError: kv_cache num_blocks must be positive (got 0)",
)
FAILED = (
    NOT_COMMITTED,
    f"{STARTED}\n{NOT_COMMITTED}",
    f"{NOT_COMMITTED}\n{CRASHED}\n{STARTED}",
    NO_LAYOUT,
    GIVEN_UP,
    f"{ON_HOST}\n{WARNED}",
    f"{ON_HOST}\n{WARNED}\n{CHECK}",
    "RuntimeError: cannot allocate 3 GiB of device memory before step 4",
    "RuntimeError: out of memory before the first step",
    "ValueError: num_blocks is 0: no room for the KV cache",
)
HISPARSE = "HiSparse: alloc_device_buffer failed for req 11aa (compressed_len=4096, alloc_size=2112)"
POOLS = (
    (f"[2031-03-04 05:06:07 TP1] {HISPARSE}", "kv-pool-exhausted"),
    ("RuntimeError: HiSparse alloc_device_buffer returned None", "kv-pool-exhausted"),
    ("RuntimeError: HiSparse spec failed to allocate 320 scratch slots.", "kv-pool-exhausted"),
    ("AssertionError: Hisparse allocation failed in alloc_extend", "kv-pool-exhausted"),
    ("RuntimeError: device pool exhausted: need 64 pages, 12 free. The host pool is pinned.", "gpu-memory-exhausted"),
    ("RuntimeError: on the GPU the loader of this shard had no luck: failed to allocate 3 GiB. Host pool is pinned.",
     "gpu-memory-exhausted"),
    ("RuntimeError: failed to allocate 3.50 GiB for the pinned pool. The GPU has room.", "pinned-memory-exhausted"),
    ("RuntimeError: HiSparse host mem pool alloc failed for 64 pages", "cpu-offload-overcommit"),
    ("RuntimeError: could not pin 8589934592 bytes. The device pool is full.", "pinned-memory-exhausted"),
    ("RuntimeError: pinned memory pool is exhausted: need 64 pages, 12 free. The device has room.",
     "pinned-memory-exhausted"),
    ("RuntimeError: alloc.cpp:9 host_memory_pool: Virtual memory allocation (8589934592 B) failed.",
     "host-memory-exhausted"),
)  # fmt: skip


@pytest.mark.parametrize("text", GOES_ON)
def test_another_try_made_it_good(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", FAILED)
def test_no_other_try_did(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"


@pytest.mark.parametrize(("text", "cause"), POOLS)
def test_whose_pool_it_was(tmp_path: Path, text: str, cause: str) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause
