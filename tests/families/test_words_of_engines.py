"""Failures of memory in the words of engines, trainers and their libraries that do not exist: which memory, and why.

Beside each kind stand its near misses, which are more: what was evicted or freed, settings, retries, other resources.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

SAID = (
    # what did not help, and what was put elsewhere, is not the memory that is short
    (("veda.plan.MapInfeasible: Even with 40 of 48 blocks in host memory the model does not fit while keeping 3.5 GiB "
     "free for training on cuda:1 (14.2 GiB free)."), "gpu"),
    (("ValueError: Veda: org/pica-9b does not fit in GPU memory, so the loader placed part of it on the CPU, which "
     "its kernels cannot read. Lower the batch size."), "gpu"),
    ("❌ Error: Not enough GPU + CPU memory for the pipeline.", "gpu"),
    # pools of their own
    ("AssertionError: dynamic peer memory pool exhausted", "gpu"),
    ("rank11: AssertionError: static peer memory pool exhausted", "gpu"),
    ("Rank 3: RuntimeError: could not reserve 3 GiB on the device", "gpu"),
    (('  File "/srv/veda/mem_cache/storage/slate/slate_store.py", line 40, in put\n    lease = pool.take(n)\n'
     "RuntimeError: buffer pool is exhausted"), "host_ram"),
    ("ValueError: Needed dram size (90 GB) is larger than operator specified dram size (64 GB).", "host_ram"),
    ("AssertionError: Not enough buffers 2 for swapping 5", "pinned"),
    ("[rank1]: AssertionError: SlicedOptimizerSwapper ran out of swap buffers, try increasing 'buffer_count'",
     "pinned"),
    ("AssertionError: No swap buffers to allocate for bf16 param 12 of numel = 4096", "pinned"),
    ("AssertionError: More elements 9000000 than buffer size 4194304", "pinned"),
    ("[TensorRT-LLM][ERROR] PEFT Cache is full. Could not store taskId=3", "host_ram"),
    (("AssertionError: You move 900 embedding rows from CPU to CUDA. It is larger than the capacity of the cache, "
     "which at most contains 512 rows, Please increase cuda_row_num or decrease the training batch size."), "gpu"),
    (("tvm.error.InternalError: Check failed: (result) is false: Failed to allocate 8388609 bytes with alignment 64 "
     "bytes."), "gpu"),
    # by the file that asked
    (('  File "/veda/src/metal/queue.mm", line 3\n'
     "InternalError: Check failed: (p != nil): Failed to allocate argument buffer of size 1073741824"), "gpu"),
    ("RuntimeError: /build/src/storage_view.cc:171: failed to allocated memory", "host_ram"),
    ("RUNNING TensorRT.sample_veda [TensorRT v1] # ./sample_veda\nOut of memory", "gpu"),
    ("[CRITICAL] VEDA(31,7f,python): [veda/device/offload.cc:36] MallocHost] Malloc memory failed: size 8589934592",
     "host_ram"),
    ("ERROR: aclrtMallocHost failed, cannot allocate 8589934592 bytes", "pinned"),
    # the passes of training
    ("2025-02-02 10:10:10 | ERROR | veda.trainer | OOM during optimization step, giving up", "gpu"),
    ("ERROR: OOM in the backward pass of batch 41", "gpu"),
    ("[rank2]: tiled encode ran out of memory with a 512x512px tile, rerun it and compare peak VRAM.", "gpu"),
    ("RuntimeError: window (96, 96, 96), device=cuda:1\nSeems to be OOM. Please try a smaller window.", "gpu"),
    # states of an engine
    ("RuntimeError: SSM state pool is exhausted", "kv_cache"),
    ("ERROR engine: needs 9.5 GiB for recurrent states, but only 6.0 GiB are free", "kv_cache"),
    ("AssertionError: can not evict radix blocks 64,", "kv_cache"),
    ("RuntimeError: failed to free enough tokens of the prefix tree: 2048", "kv_cache"),
    ("AssertionError: Block#7 has no free slots.", "kv_cache"),
    ("RuntimeError: HiSparse _grow_device_buffers failed (total_grow=512)", "kv_cache"),
    # held against the machine's memory
    ("ValueError: pinned host pool needs 96 GiB but only 61 GiB of RAM is available.", "host_ram"),
    ("RuntimeError: pinned arena: cannot allocate a 2048 MiB memfd chunk (Cannot allocate memory).", "host_ram"),
    (("E0202 10:10:10.1 9 arena.cpp:9] hugepage mmap failed for pool_size=68719476736 bytes, errno=12 (Cannot allocate "
     "memory); fallback disabled because VEDA_HUGE is set"), "host_ram"),
    (("ValueError: Available memory on node 1 (10.2/62.5 GiB) on startup is less than desired CPU memory utilization "
     "(0.5, 31.25 GiB)."), "host_ram"),
    ("OSError: Memory map failed when creating shared memory.", "shm"),
    # graphs and outputs of programs that are built on ggml
    (("veda_init_state: using CUDA0 backend\nveda_init_state: failed to init decode allocator\n"
     "error: failed to initialize veda context"), "gpu"),
    (("veda_init_state: no GPU found\nveda_init_state: failed to init decode allocator\n"
     "error: failed to initialize veda context"), "host_ram"),
    ("veda_encode: failed to allocate encoder graph for 9000 frames", "gpu"),
    ("[ERROR] veda.hpp:33 - unet alloc compute graph failed", "gpu"),
    ("veda_init: failed to initialize the context: failed to reserve initial output buffer", "host_ram"),
    # what a cluster does not have
    ("AssertionError: used gpus are more than num_nodes×num_gpus_per_node=2×4", "scheduling"),
    ("veda.cluster.ResourceInsufficientError: Cannot form 2 racks of 16 nodes.", "scheduling"),
)  # fmt: skip
NOT_SAID = (
    "MemoryError: Insufficient free disk space 3.0 GB < 9.0 GB required, Please free 6.0 GB",
    "MemoryError: not enough disk space for the cache of tiles",
    "OSError: Memory map failed: Permission denied",
    "INFO memory map created: 3 GiB",
    ("2026-01-01 10:10:10.1 [I:onnxruntime:, execution_frame.cc:5 ExecutionFrame] Allocation of memory pattern buffer "
    "for Device:[DeviceType:1] failed. Error:bfc_arena.cc:3 AllocateRawInternal Available memory of 4096 is smaller "
    "than requested bytes of 8192"),
    ("RuntimeError: Status not found for request 9a. It may be due to the request being evicted due to memory "
    "pressure. Please increase the maximum number of states to a bigger value than the default value."),
    "INFO evicted 3 adapters due to memory pressure",
    "AssertionError: Default GPU_MEM_BUDGET in tiles.py is too small; try increasing it",
    "ValueError: the memory limit is too low",
    "ValueError: max_gpu_memory must be larger than the default",
    # retries, and what goes on
    "WARNING | veda.trainer | OOM during optimization, skipping batch",
    "INFO OOM in the backward pass handled",
    "no OOM during training",
    "OOM during training is avoided by smaller batches",
    ("E0202 10:10:10.1 9 arena.cpp:9] hugepage mmap failed for pool_size=68719476736 bytes, errno=12 (Cannot allocate "
    "memory); fallback to regular pages"),
    "[rank2]: tiled encode ran out of memory with a 512x512px tile, retrying with 256x256px",
    "INFO tiles that ran out of memory with 512px: 0",
    "If it ran out of memory with a large tile, choose a smaller one",
    "Retrying placement group creation... 3/6. Next retry in 8 seconds.",
    # what is guessed behind another exception
    ("ValueError: could not broadcast input array\n\n"
    "The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n"
    '  File "a.py", line 3, in f\nRuntimeError: window (96, 96, 96), device=cuda:1\n'
    "Seems to be OOM. Please try a smaller window."),
    "Seems to be OOM-safe now",
    "RuntimeError: window (96, 96, 96), device=cuda:1\nSeems to be a wrong shape.",
    "RuntimeError: Some background worker is 6 feet under. Yuck.",
    # pools of other things, and such as have room
    "INFO static peer memory pool: 12 of 64 MiB in use",
    "rank3: INFO static memory pool is not exhausted",
    "rank3: loss 2.31, memory 71.2 GiB",
    "AssertionError: static thread pool exhausted",
    "RuntimeError: peer pool exhausted: all 12 peers are busy",
    "INFO PEFT Cache is 97% full",
    "INFO You move 12 embedding rows from CPU to CUDA.",
    "buffer_count: 5  # Not enough buffers stall the swapper",
    "INFO swapper: buffers 2 for swapping 5 params",
    "mamba states: 12.5 GB of 40.0 GB",
    "INFO recurrent state cache hit rate 0.91",
    "ERROR mamba cache directory not found",
    "ValueError: mamba state size 128 is larger than head size 64",
    "AssertionError: Block#7 has no reference to remove.",
    "AssertionError: Block#7 has no name.",
    "AssertionError: cannot free block 7: double free",
    "RuntimeError: failed to free enough tokens: invalid session",
    "ERROR: could not free 3 pages of the report",
    "INFO evicted radix blocks 64",
    "INFO HiSparse _grow_device_buffers done (total_grow=512)",
    # comparisons that hold
    "INFO pinned host pool needs 61 GiB and 96 GiB of RAM is available",
    "Available memory on node 1 (60.2/62.5 GiB) on startup is more than desired CPU memory utilization (0.5, 31.2 GiB)",
    "INFO Needed dram size (64 GB) is smaller than operator specified dram size (90 GB).",
    "INFO memfd chunk of 2048 MiB mapped",
    # programs that are built on ggml, and something else
    "veda_init: failed to init logger",
    "veda_init_state: failed to init backend",
    "veda_plan: failed to allocate graph node ids",
    "veda_init_state: using CUDA0 backend\nveda_init_state: compute buffer (decode) = 98.2 MB",
    "[INFO ] veda.hpp:33 - unet compute graph built",
    "INFO reserved initial output buffer",
    # a cluster that only looks like it
    "AssertionError: number of gpus is more than number of layers",
    "INFO used gpus are not more than num_nodes×num_gpus_per_node=2×4",
    "ResourceInsufficientError: no licence left for the solver",
    "INFO ResourceInsufficientError is retried",
)  # fmt: skip
CAUSES = (
    # printed advice is no evidence of what the memory was for
    (("ValueError: Veda: org/pica-9b does not fit in GPU memory, so the loader placed part of it on the CPU, which "
     "its kernels cannot read. Lower the batch size."), "model-does-not-fit"),
    (("ValueError: Mamba cache budget (mamba_gb=2 GB) is too small. The scratch reserves 1.9 GB, leaving room for "
     "fewer than one slot. Increase mamba_gb, or reduce max_tokens."), "kv-cache-no-room"),
    # where blocks are handed out the engine has started
    (("Exception from src/infer.cpp:2:\nCheck 'id.has_value()' failed at src/blocks.cpp:6:\n"
     "Failed to allocate block for KV cache: pool exhausted"), "kv-pool-exhausted"),
    ("RuntimeError: failed to allocate KV cache: not enough device memory", "kv-cache-no-room"),
    # a pool of the program's own
    ("AssertionError: dynamic peer memory pool exhausted", "allocator-cap"),
    ("ValueError: Needed dram size (90 GB) is larger than operator specified dram size (64 GB).", "allocator-cap"),
    ("AssertionError: Not enough buffers 2 for swapping 5", "allocator-cap"),
    # what a machine nearly has is no absurd size
    ("ValueError: pinned host pool needs 768 GiB but only 691 GiB of RAM is available.", "cpu-offload-overcommit"),
    ("ERROR | veda.trainer | OOM during optimization, giving up", "optimizer-states"),
    ("veda_encode: failed to allocate encoder graph for 9000 frames", "activations"),
    ("[ERROR] loader.cpp:9 - read tensor data failed: too less memory for conversion", "host-model-load"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "pool"), SAID)
def test_it_is_read_with_its_memory(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", NOT_SAID)
def test_what_only_sounds_like_it_is_none(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] != "oom"


@pytest.mark.parametrize(("text", "cause"), CAUSES)
def test_its_cause_is_named(text: str, cause: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause
