"""What a line says was done instead, what it only advises against, and words that say less than they seem to."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

RAISED = 'Traceback (most recent call last):\n  File "embed.py", line 31, in <module>\n    run(args)\n'
CUPY = (
    "load.py:9: PerformanceWarning: Using synchronous transfer as pinned memory ({} bytes) could not be allocated. "
    "The original error was: cudaErrorMemoryAllocation: out of memory"
)
TRTEXEC = "[03/11/2025-09:01:22] [{}] cudaMallocHost() call with ptr=0x7ffe10 and size=8589934592 returns {}\n{}"
DONE_INSTEAD = (
    CUPY.format(805306368),
    "libfabric:71:17:efa:send():90<warn> Sender fallback to medium because memory registration limit was reached",
    "UserWarning: Using pageable buffers because pinned memory of 6.00 GiB could not be allocated",
    "WARNING loader.py:9: Using unpinned buffers since page-locked memory (2147483648 bytes) could not be allocated",
    "ERROR loader.py:9: fallback to unpinned buffers because page-locked memory (2147483648 bytes) was refused",
    "using the slow path since the workspace of 3.1 GiB could not be allocated on the GPU",
    "ERROR rdma.cc:88 fallback to TCP because registering 8589934592 bytes of memory failed: Cannot allocate memory",
    "ERROR: Requested amount of GPU memory (2147483648 bytes) could not be allocated. Using managed memory instead.",
    "[TRT] [W] Unable to allocate pinned host memory of 536870912 bytes. Allocate pageable host memory instead.",
    TRTEXEC.format("W", "a cuda error: out of memory", "Allocate pageable host memory instead of pinned host memory."),
)
NOTHING_INSTEAD = (
    RAISED + "RuntimeError: Failed to allocate 12.0 GiB of pinned host memory. Use pageable memory instead.",
    RAISED + "RuntimeError: Failed to pin 12.0 GiB of host memory (out of memory). Use pageable memory instead.",
    RAISED + "RuntimeError: could not allocate 9.0 GiB of pinned memory and fallback to pageable memory failed too",
    RAISED + "RuntimeError: using 8 workers, as memory ran out: cudaErrorMemoryAllocation: out of memory",
    RAISED + "RuntimeError: CUDA error: out of memory; use a smaller batch instead",
    "ERROR: fallback is disabled by its flag; out of GPU memory while loading the model",
    "FATAL: could not allocate 34359738368 bytes of pinned memory, exiting. Recommend a fallback to pageable memory.",
    TRTEXEC.format("E", "a cuda error: out of memory", "Aborted (core dumped)"),
)
# A parameter is asked for, and what its value is to be chosen against is named.
ADVISED_AGAINST = (
    "You must provide `rows` with GPUs. We recommend one that doesn't result in your device running out of memory.",
    "You must pass `batch` when using GPUs. Take the largest one that doesn't make your device run out of memory.",
    "`chunk` must be given for streaming; choose one that does not result in running out of memory.",
    "Please specify `context`. We suggest a value for which the GPU does not run out of memory.",
    "Either `batch` or `tokens` has to be provided, so that the worker doesn't run out of memory.",
    "Please set --pages. It is recommended to pick a number that won't lead to an OOM.",
    "`workers` must be set; we recommend one, as more of them have run out of memory in tests",
)
HAPPENED = (
    "Out of memory. You must provide a smaller `batch`.",
    "The device ran out of memory. We recommend a batch that doesn't result in an out of memory error.",
    "Not enough memory for the batch. You must provide a smaller `batch`.",
    "The server did not start because it ran out of memory",
    "The worker does not answer, it ran out of memory",
    "Inference does not work since the GPU is out of memory",
    "The engine won't start with this context: out of memory",
    "`batch` must be set to a smaller value. GPU out of memory",
    "Please provide more RAM. Out of memory while loading shard 3",
)
# On the chip, by the names of the device's properties
ON_THE_CHIP = (
    "n1:11:22 [0] enqueue.cc:61 NCCL WARN cudaArch 890 ncclMaxSharedMem 98400 exceeds device/fn maxSharedMem 65536",
    "n1:11:22 [0] NCCL WARN Kernel needs 240000 bytes sharedMem, exceeds device maxSharedMem 166912",
    "ERROR kernel.cu:9 dynamicSmemBytes=131072 is larger than sharedMemPerBlockOptin=101376",
    "ERROR: shared_memory_bytes: 202752 > max_shared_mem 101376",
    RAISED + "RuntimeError: sharedMemPerBlock 99328 exceeds the device limit 49152",
)
OFF_THE_CHIP = (
    RAISED + "OSError: shared_memory 17179869184 exceeds available memory 67108864",
    RAISED + "RuntimeError: maxMem 17179869184 exceeds device memory 8589934592",
)
GLOG = "{}1204 03:11:27.551209 CPUAllocator.cpp:271] C10 Out of Memory. Trying to allocate {} bytes, total {} bytes."
GIVEN_UP = (
    GLOG.format("I", 34359738368, 501223123456),
    GLOG.format("W", 2147483648, 66571993088),
    "I0611 11:00:00.000001 77 host_allocator.cc:91] Out of host memory. Trying to allocate 1073741824 bytes",
)
NOT_GIVEN_UP = (
    "I0312 14:22:07.119002 881 pool.cc:74] allocating 2147483648 bytes, total alloc 66571993088 bytes.",
    "I0312 14:22:07.119002 881 trainer.cc:74] Out of memory errors so far: 0",
    "I0312 14:22:07.119002 881 pool.cc:74] Out of memory in arena 3, growing it by 2097152 bytes",
    "I0312 14:22:07.119002 881 pool.cc:74] Out of memory. Trying to allocate 2097152 bytes: retrying after a flush",
    "I0312 14:22:07.119002 881 pool.cc:74] Out of memory. Trying to allocate a smaller chunk of 2097152 bytes",
)
# ComfyUI prints how long a prompt took also where it failed.
COMFYUI = (
    "got prompt\nRequested to load WAN21\n  5%|5         | 1/20 [00:03<01:10,  3.7s/it]\n{}\nPrompt executed in {}\n"
)
UNLOADED = "Got an OOM, unloading all loaded models."
NOT_UNLOADED = (
    "got an OOM, unloading idle models and retrying",
    "got an OOM event listener",
    "unloading all loaded models",
    "INFO memory manager: unloading all models to avoid OOM",
)


@pytest.mark.parametrize("text", [*DONE_INSTEAD, *ON_THE_CHIP, *NOT_GIVEN_UP])
def test_what_goes_on_another_way_is_no_failure(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", [*NOTHING_INSTEAD, *OFF_THE_CHIP])
def test_what_only_sounds_like_it_is_a_failure(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "oom"


@pytest.mark.parametrize("text", ADVISED_AGAINST)
def test_a_missing_parameter_is_no_lack_of_what_it_is_chosen_against(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, f"{RAISED}ValueError: {text}")["verdict"] == "no-oom"


@pytest.mark.parametrize("text", HAPPENED)
def test_what_happened_stands_beside_advice(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, f"{RAISED}ValueError: {text}")["verdict"] == "oom"


@pytest.mark.parametrize("text", GIVEN_UP)
def test_an_allocator_that_says_what_it_tried_has_failed_at_any_level(tmp_path: Path, text: str) -> None:
    said = body(tmp_path, text)
    assert (said["verdict"], said["diagnoses"][0]["pool"]) == ("oom", "host_ram")


@pytest.mark.parametrize("took", ["12.20 seconds", "00:14:20"])
def test_a_prompt_that_is_timed_has_failed_all_the_same(tmp_path: Path, took: str) -> None:
    said = body(tmp_path, COMFYUI.format(UNLOADED, took))
    assert (said["verdict"], said["diagnoses"][0]["pool"]) == ("oom", "gpu")


@pytest.mark.parametrize("line", NOT_UNLOADED)
def test_a_prompt_that_was_served(tmp_path: Path, line: str) -> None:
    assert body(tmp_path, COMFYUI.format(line, "12.20 seconds"))["verdict"] == "no-oom"
