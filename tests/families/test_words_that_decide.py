"""Messages of programs that nobody wrote a family for: what they name, and where, decides which memory it was.

Beside each stand its near misses: the same words where nothing was short, or another thing was.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

CUVS = (
    "terminate called after throwing an instance of 'raft::logic_error'\n"
    "  what():  RAFT failure at file=/opt/b/cpp/bench/ann/utils.h line=53: Failed to allocate {} bytes using RMM "
    "memory resource. NB: latest cuda status = {}, free memory = 21474836480, total memory = 42949672960.\n"
)
SHARD = "Shard(size=[5000000, 64], offset=[0, 0], storage=Storage(hbm={}, ddr=0), rank=None)"
PLAN = "planner.types.PlannerError: Device partition failed. Couldn't find a rank for shard {} of table t_user, {}\n"
LARGEST = "largest device storage: Storage(hbm=6442450944, ddr=68719476736)"
UPDATE = "Error: Failed {} memory limit: Requested memory total of 96.00GiB exceeds the current maximum of 64.00GiB\n"
LISTED = (
    "ValueError: Unable to initialize model on GPU: 'amd'\n"
    "Available GPUs: []\n"
    "{}Unavailable GPUs due to insufficient memory: ['vulkan:RX 6400']\n"
)
CACHE = (
    "Mar 03 11:12:13.141 [ERROR] [swarm.server.{}._schedule:128] Allocation failed\n"
    "swarm.server.{}.AllocationFailed: Could not allocate 8589934592 bytes, max cache size = 4294967296 bytes\n"
)
MESH = (
    "RuntimeError: [Error] (void grid::{}(const Tensor&, float)) /opt/g/GridImpl.h:1424: Unable to allocate assistance "
    "mesh structure with 90112 active blocks.\n"
)
KEY = "/job:localhost/replica:0/task:0/device:{}:0;01;/job:localhost/replica:0/task:0/device:{}:0;edge_7;0:0"
RECEIVED = "ResourceExhaustedError: SameWorkerRecvDone unable to allocate output tensor. Key: " + KEY + "\n"
STEP = "step   310 | loss avg 0.91 | mem {} 18,211 MB\nout of memory error encountered\n"


def first(tmp_path: Path, text: str) -> tuple[str, str | None, str | None]:
    said: dict[str, Any] = body(tmp_path, text)
    answer: dict[str, Any] = next(iter(said["diagnoses"]), {})
    return said["verdict"], answer.get("cause"), answer.get("pool")


def test_the_file_that_checks_is_no_file_that_is_short_of_room(tmp_path: Path) -> None:
    said = body(tmp_path, CUVS.format(32_212_254_720, "cudaErrorMemoryAllocation"))
    assert (said["verdict"], said["diagnoses"][0]["pool"]) == ("oom", "gpu")
    assert 21_474_836_480 in [event["usage"].get("free_bytes") for event in said["events"]]


def test_a_table_without_a_card_that_holds_it_is_a_model_that_does_not_fit(tmp_path: Path) -> None:
    assert first(tmp_path, PLAN.format(SHARD.format(12_884_901_888), LARGEST))[:2] == ("oom", "model-does-not-fit")


def test_a_plan_that_nothing_is_said_to_lack_for_is_none(tmp_path: Path) -> None:
    assert first(tmp_path, "Unable to find a plan for this model because of the strict constraints.\n")[0] == "no-oom"


@pytest.mark.parametrize("verb", ["updating", "setting", "changing", "raising"])
def test_a_limit_that_cannot_be_set_is_no_failure_of_memory(tmp_path: Path, verb: str) -> None:
    assert first(tmp_path, UPDATE.format(verb))[0] == "no-oom"


def test_a_limit_that_was_hit_is_one(tmp_path: Path) -> None:
    assert first(tmp_path, UPDATE.format("at the"))[0] == "oom"


def test_an_exception_may_say_it_in_a_later_line(tmp_path: Path) -> None:
    assert first(tmp_path, LISTED.format(""))[::2] == ("oom", "gpu")


@pytest.mark.parametrize("between", ["\n", "2026-03-01 10:11:12 INFO app.py:7] next try\n"])
def test_what_comes_after_an_exception_is_no_part_of_it(tmp_path: Path, between: str) -> None:
    text = LISTED.format(between) + "Loaded on the CPU.\nDone: 12 prompts in 4.1 s\n"
    assert first(tmp_path, text)[0] == "no-oom"


def test_where_a_line_was_logged_tells_whose_memory_it_was(tmp_path: Path) -> None:
    assert first(tmp_path, CACHE.format("memory_cache", "memory_cache"))[1:] == ("kv-pool-exhausted", "kv_cache")
    assert first(tmp_path, CACHE.format("uploads", "uploads"))[2] == "host_ram"


@pytest.mark.parametrize(
    ("function", "pool"), [("ExtractMeshCUDA", "gpu"), ("ExtractMeshCPU", "host_ram"), ("CUDAfree", "host_ram")]
)
def test_a_function_of_a_card_allocates_there(tmp_path: Path, function: str, pool: str) -> None:
    assert first(tmp_path, MESH.format(function))[2] == pool


@pytest.mark.parametrize(
    ("source", "there", "pool"), [("CPU", "GPU", "gpu"), ("CPU", "CPU", "host_ram"), ("GPU", "CPU", "host_ram")]
)
def test_a_tensor_is_received_where_it_goes(tmp_path: Path, source: str, there: str, pool: str) -> None:
    assert first(tmp_path, RECEIVED.format(source, there))[2] == pool


@pytest.mark.parametrize(("what", "pool"), [("reserved", "gpu"), ("rss", "host_ram")])
def test_what_a_job_prints_of_its_memory_tells_which_was_short(tmp_path: Path, what: str, pool: str) -> None:
    assert first(tmp_path, STEP.format(what))[2] == pool


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("MemoryError: Insufficient memory (QCHEM_MAX_MEMORY).\n", "allocator-cap"),
        ("MemoryError: Insufficient memory (QCHEM).\n", "host-memory-exhausted"),
        ("java.lang.RuntimeException: Aborting due to critically low memory.\n", "allocator-cap"),
        ("Error: Could not load it - its used memory is 91268055040 but the limit is 51539607552\n", "allocator-cap"),
        ("Could not allocate space for a joined text of 398211734502 letters.\nError: #1\n", "host-memory-exhausted"),
        ("Caught solver exception: Cannot allocate pinned memory\n at: /s/h.cu:352\n", "pinned-memory-exhausted"),
    ],
)  # fmt: skip
def test_the_words_that_decide(tmp_path: Path, text: str, cause: str) -> None:
    assert first(tmp_path, text)[:2] == ("oom", cause)


@pytest.mark.parametrize(
    "text",
    [
        "Jobs will be killed due to low memory\n",
        'level=info msg="used memory is 31268055040 but the limit is 51539607552"\n',
        "Could not allocate space for object 'dbo.t' in database 'd' because the filegroup is full.\n",
        "Caught exception: Cannot allocate pinned memory, using pageable memory instead\nepoch 2 loss 0.3\n",
        '{"msg":"waiting for an OOM event","level":"INFO"}\n',
        '{"msg":"got an OOM event listener","level":"INFO"}\n',
        'I0812 10:02:44.517203 1 updater.go:125] "No OOM detected in pod" pod="ml/a"\n',
        "INFO: the MemoryManager is running low on memory, writing blocks to disk\n",
    ],
)
def test_the_same_words_of_nothing_that_failed(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text)[0] == "no-oom"


@pytest.mark.parametrize(
    "text",
    [
        '{"msg":"got an OOM event Some(\\"\\")","level":"INFO","name":"kata-agent"}\n',
        'I0812 10:02:44.517203 1 updater.go:125] "Quick OOM detected in pod" pod="ml/ranker-7d" containerName="a"\n',
    ],
)
def test_who_watches_a_container_tells_of_its_kill(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text)[1:] == ("container-limit", "cgroup")


@pytest.mark.parametrize("device", ["CUDA", "NPU", "HPU", "XPU"])
def test_a_sampler_is_warmed_up_on_any_device(tmp_path: Path, device: str) -> None:
    text = f"RuntimeError: {device} out of memory occurred when warming up sampler with 512 dummy requests.\n"
    assert first(tmp_path, text)[1] == "sampler-warmup"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("ERROR: All memory pool allocations are in use.\n", "host-memory-exhausted"),
        ("c++: fatal error: signal terminated program cc1plus\ncompilation terminated.\n", "build-parallelism"),
        ("cl-0: OpenCL Error: clEnqueueNDRangeKernel -4\n", "gpu-memory-exhausted"),
        ("clCreateBuffer failed with error -4\n", "gpu-memory-exhausted"),
        ("Allocation failed in Fieldallocator, requested size in bytes = 26843545600\n", "host-memory-exhausted"),
        ("ERROR solver_malloc: out of memory at line 82 in file /opt/b/memory.c\n", "host-memory-exhausted"),
        ("[h264_nvenc @ 0x55] CreateInputBuffer failed: out of memory (10): \n", "gpu-memory-exhausted"),
    ],
)
def test_a_reason_without_its_name_is_one(tmp_path: Path, text: str, cause: str) -> None:
    assert first(tmp_path, text)[:2] == ("oom", cause)


@pytest.mark.parametrize(
    "text",
    [
        "INFO: all memory pool allocations are in use by the cache\nepoch 2 done\n",
        "all worker slots are in use.\n",
        "cl-0: OpenCL Error: clEnqueueNDRangeKernel -48\n",
        "clGetDeviceIDs returned -1\n",
        "c++: fatal error: Segmentation fault signal terminated program cc1plus\n",
        "postgres: failed to allocate 2.00G (2147483648 bytes)\npostgres: retry with smaller buffers succeeded\n",
        "monitor: received an OOM event counter of 0\n",
        "  Ran out of memory; automatically trying more memory-economical parameters.\n  Passed!\n",
        "gpu03:41:42 [2] NCCL WARN Unable to allocate pinned host memory for pointers.  Disabling such kernels\n",
        "  Latest admission queue reason: Not enough memory available on n1. Needed 18.2 GB but only 9.7 GB was.\n",
        "kata-agent: if we received an OOM event the sandbox would restart\n",
        '    ), f"No space left for only one request, {self.pool.available_size()=}"\nA\n',
        "ValueError: invalid literal\nchecker could not allocate memory block of 2 GiB and uses disk\nfinished\n",
        "WARN job 7 not started; others failed because of low memory earlier, see history\n",
        "could not allocate space for the journal\n",
    ],
)
def test_what_only_sounds_like_one(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text)[0] == "no-oom"


@pytest.mark.parametrize(
    "text",
    [
        "MemoryError: cannot grow the member table beyond max_members\n",
        "MemoryError\nkernel restart failed\n",
        "ERROR offload_from_gpu(layer=3): failed to allocate 12.0 GiB of host memory\n",
    ],
)
def test_what_else_is_named_takes_nothing_from_a_refusal_of_the_host(tmp_path: Path, text: str) -> None:
    assert first(tmp_path, text)[::2] == ("oom", "host_ram")
