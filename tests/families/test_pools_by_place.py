"""Which memory is meant by where a line was written and what a program is made of, and what is no shortage at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

DEVICE_FRAME = '  File "/srv/tinygrad/runtime/ops_{}.py", line 512, in alloc\n    raise MemoryError(text) from e\n'
OUT = "MemoryError: Cannot allocate 805306368 bytes: no memory is available."
TABLES = '  File "/srv/tinygrad/runtime/support/memory.py", line 260, in valloc\n    raise MemoryError(text)\n'
ORT = "RuntimeException: Non-zero status code returned while running MatMul node. Name:'/up/MatMul' Status Message: {}"
NO_ROOM = "Not enough memory resources are available to complete this operation."
SPILLED = (
    "terminate called after throwing an instance of 'rapidsmpf::reservation_error'\n"
    "  what():  std::bad_alloc: reservation_error: RapidsMPF fatal error at: /src/buffer_resource.cpp:201: "
    "failed to spill enough memory (reserved: 6.00 GiB, overbooking: 4.10 GiB, spilled: 512 MiB)"
)
POOLS = (
    (DEVICE_FRAME.format("amd") + OUT, "gpu"),
    (DEVICE_FRAME.format("nv") + OUT, "gpu"),
    (DEVICE_FRAME.format("cpu") + OUT, "host_ram"),
    ('  File "/srv/train_amd.py", line 12, in main\n    x = bytes(n)\n' + OUT, "host_ram"),
    (TABLES + "MemoryError: Failed to allocate memory (OOM). Request size=0x20000000 ((4096, 4096))", "gpu"),
    ("MemoryError: Metal OOM while allocating size=2147483648", "gpu"),
    ("MemoryError: metal.log is too large: cannot allocate 2147483648 bytes", "host_ram"),
    (ORT.format(r"D:\dml\src\DmlCommittedResourceAllocator.cpp(22): 8007000E " + NO_ROOM), "gpu"),
    (ORT.format(r"D:\cpu\src\arena.cpp(22): 8007000E " + NO_ROOM), "host_ram"),
    (":1:rocdevice.cpp            :2368: 48213940 us: [pid:31  tid:0x7f3c] Fail allocation local memory", "gpu"),
    (":1:elf.cpp                  :1016: 48213940 us: [pid:31  tid:0x7f3c] failed: out of memory", "host_ram"),
    (SPILLED, "gpu"),
    (SPILLED.replace("RapidsMPF", "QueueMPF").replace("rapidsmpf", "queuempf"), "host_ram"),
    (("MemoryError: std::bad_alloc: out_of_memory: CUDF failure at:/src/utilities/host_memory.cpp:272: "
     "Failed to allocate memory: std::bad_alloc"), "host_ram"),
    ("failed to allocate HBM buffer of size 8589934592\nllama_model_load: failed to load model", "host_ram"),
    (("alloc_tensor_range: failed to allocate CUDA0 buffer of size 8589934592\n"
     "llama_model_load_from_file_impl: failed to load model"), "gpu"),
    ("ERROR 11-19 05:44:10 [mem_manager.py:248] no enough cache need_size 4096 left_size 1100\nAborted", "kv_cache"),
    ("ERROR 11-19 05:44:10 [image_store.py:48] no enough cache memory\nAborted", "host_ram"),
    (("ValueError: The worker uses 9.62 GiB, more than the 8.7 GiB of CPU memory reserved for it, leaving none for the "
     "KV cache."), "kv_cache"),
    ("ValueError: The worker uses 9.62 GiB, more than the 8.7 GiB of CPU memory reserved for it.", "host_ram"),
    ("AssertionError: Not enough space in cache for single state", "kv_cache"),
    ("AssertionError: Pinning shared memory failed with error-code: 2", "pinned"),
    (("ValueError: The cluster doesn't have what the pipeline takes:\n"
     "- Your application needs 64.0 CPU(s), but your cluster only has 16.0."), "scheduling"),
    (("ValueError: The cluster doesn't have what the pipeline takes:\n"
     "- Your application needs 6.0 GPU(s), but your cluster only has 2.0."), "scheduling"),
    ("E1128 10:14:12.331022   1 gpu.go:213] \"Failed\" err=\"not enough gpu fitted on this node\"", "scheduling"),
    ("E1128 10:14:12.331022       1 device_info.go:213] allocate failed: not enough gpu memory on this node", "gpu"),
    ("E1128 10:14:12.331022 1 batch.cc:1357] failed to allocate the stop control signal of a sequence in CPU memory",
     "host_ram"),
    ("stage[512]: failed to allocate 4096 bytes of memory for nl_payload", "host_ram"),
    ("E1128 10:14:12.331022 7712 client.cpp:3221] Failed to allocate buffer for key: r-8812/layer-3", "host_ram"),
    ("Failed to allocate memory for mapped device ID array.", "host_ram"),
)  # fmt: skip
QUIET = (
    "slurmctld: error: step_alloc: lack memory allocation details to enforce memory limits for JobId=77",
    "ERROR: lacks memory specification for node n07",
    "AssertionError: Pinning shared memory failed with error-code: 801",
    "AssertionError: Pinning shared memory failed with error-code: 1",
    "INFO pinning shared memory",
    DEVICE_FRAME.format("amd") + "MemoryError: Cannot allocate host-visible VRAM. Ensure the resizable BAR option is "
    "enabled on your system.",
    "Stress detect failed, call AclrtMallocAlign32 failed, device id is 3, ERROR : 207001. Skip StressDetect.",
    "rpc error: code = ResourceExhausted desc = message length 6291456 exceed maximum message size of 4194304",
    "rpc error: code = ResourceExhausted desc = maximum number of in-flight requests exceeded",
    "[WARN] [2026-11-28 10:14:12.331] [BlockPool.cc:447] pool only has 12 free blocks, cannot allocate 64 blocks",
    (
        "ValueError: The cluster doesn't have what the pipeline takes:\n"
        "- Your application needs 2.0 GPU(s), and your cluster has 6.0."
    ),
    (
        "[WARNING|runner.py:343] 2026-10-07 12:26:30,118 >> Failed to warm up: CUDA out of memory. Tried to allocate "
        "1.16 GiB. GPU 0 has a total capacity of 23.52 GiB of which 802.44 MiB is free.\nGraph pool may fragment."
    ),
)
SHORT = (
    (
        "[WARNING|runner.py:343] 2026-10-07 12:26:30,118 >> Failed to run: CUDA out of memory. Tried to allocate "
        "1.16 GiB. GPU 0 has a total capacity of 23.52 GiB of which 802.44 MiB is free."
    ),
    (
        "[ERROR|runner.py:343] 2026-10-07 12:26:30,118 >> Failed to warm up: CUDA out of memory. Tried to allocate "
        "1.16 GiB. GPU 0 has a total capacity of 23.52 GiB of which 802.44 MiB is free."
    ),
    "call AclrtMallocAlign32 failed, device id is 3, ERROR : 207001.",
    "[ERROR] [2026-11-28 10:14:12.331] [BlockPool.cc:447] pool only has 12 free KV blocks, cannot allocate 64 blocks",
    "RuntimeError: out of GPU memory. Ensure that expandable segments are enabled.",
)


@pytest.mark.parametrize(("text", "pool"), POOLS)
def test_which_memory_is_meant_is_told_by_the_place(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert (report["verdict"], report["diagnoses"][0]["pool"]) == ("oom", pool)


@pytest.mark.parametrize("text", QUIET)
def test_what_is_decided_configured_or_of_another_kind_is_no_shortage(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"


@pytest.mark.parametrize("text", SHORT)
def test_the_same_without_a_way_on_is_one(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"


def test_a_compiled_program_that_cannot_be_loaded_is_no_activation(tmp_path: Path) -> None:
    text = (
        'Traceback (most recent call last):\n  File "/srv/fit.py", line 9, in <module>\n'
        "    state, metrics = train_step(state, batch)\n"
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: [0] Failed to load in-memory CUBIN: "
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    )
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == "framework-preallocation"
