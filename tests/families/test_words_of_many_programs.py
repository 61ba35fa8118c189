"""Failures in the words of programs that do not exist: engines' places, sizes in words, a device's words, containers.

Beside each kind stand its near misses: other things that are full, ways round a refusal, refusals that are no shortage.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

LENGTH = "terminate called after throwing an instance of 'std::length_error'\n  what():  "
RANGE = (
    "terminate called after throwing an instance of 'std::out_of_range'\n"
    "  what():  vector::_M_range_check: __n (which is 9) >= this->size() (which is 3)"
)
LOADED = 'level={} msg="load failed; {}" error="worker died: cudaMalloc failed: out of memory"'

PLACES = (
    ("RuntimeError: failed to create state: no free slots (capacity 16)", "kv_cache"),
    ("ValueError: cannot append sequence 7: no free pages", "kv_cache"),
    ("ERROR engine: no available cells for batch of 64", "kv_cache"),
    (
        "AssertionError: Prompt cache requires 40 more resident pages, but only 12 idle pages are available",
        "kv_cache",
    ),
    ("ERROR scheduler: recurrent cache needs 9 contiguous slots, but only 4 unused slots are left", "kv_cache"),
    ("ERROR request aborted: KV cache pool is full. Requests cannot be preempted here", "kv_cache"),
    ("ValueError: Prompt requires more pages than total gpu pages.", "kv_cache"),
    ("AssertionError: Request needs more blocks than gpu blocks there are.", "kv_cache"),
)
OTHER_PLACES = (
    "SessionError: cannot create new session: no available slots",
    "ERROR farm: cannot create job: no free slots",
    "ERROR proxy: no free slots for requests to backend",
    "ERROR calendar: doctor requires 4 slots, but only 2 free slots are available",
    "WARN engine: no available cells for batch of 64\nWARN engine: retrying with 32",
    "INFO engine: created state in slot 3, 2 slots available",
    "Prompt cache requires 4 more pages, 12 idle pages are available",
)
TOO_LARGE = (
    (
        "tessera: tile 4 is too large to fit in a CUDA0 arena (tile size: 5905580032, max arena size: 4294967296)",
        "gpu",
    ),
    ("E vulkan_grid.c:7: allocation size is too large\nAborted (core dumped)", "gpu"),
    ("RuntimeError: reallocation of the mesh is too big", "host_ram"),
    ("ValueError: preallocation of 640 GiB is too large", "host_ram"),
    ("RuntimeError: cannot create a buffer larger than the maximum size", "host_ram"),
    (LENGTH + "cannot create std::deque larger than max_size()", "host_ram"),
    (LENGTH + "vector::_M_default_append", "host_ram"),
    (LENGTH + "string too long", "host_ram"),
)
NOT_TOO_LARGE = (
    RANGE,
    "ERROR upload: image is too large to fit in a page (page size: 5905, max page size: 4294)",
    "ERROR mail: attachment is too large",
    "ValueError: cannot create a user name larger than max length",
    "INFO grid: allocation size is not too large",
    "ValueError: learning rate is too large",
    "ValueError: the memory reserve ratio is too large",
    "ValueError: cannot store a string larger than the maximum length of 255",
    "ERROR context of 7 words: context size 2097152 is larger than max 131072",
)
SAID = (
    ("RuntimeError: unable to allocated buffers for the pass", "host_ram"),
    ("Error: could not allocated memory", "host_ram"),
    ("ERROR failed to allocated 3 GiB on the device", "gpu"),
    ("[node-12:4021] OUT OF MEMORY for sendbuf", "host_ram"),
    ("[rack7-n3:881] OUT OF MEMORY in gather", "host_ram"),
    ("[gpu-b7:40211:0] FATAL reached heap limit 8G", "host_ram"),
    ("cannot allocate massVec", "host_ram"),
    ("solver: failed to allocate row_ptr", "host_ram"),
    ("could not malloc tmpGrid", "host_ram"),
    ("[1][info] arena ran out of memory trying to allocate 3 GiB", "host_ram"),
    ("tile_alloc returned OOM for size=3221225472", "host_ram"),
)
NOT_SAID = (
    "failed to allocated budget of the job",
    "[node-12:4021] no OUT OF MEMORY seen",
    "cannot allocate ipAddr",
    "could not allocate jobSlot",
    "failed to allocate lease_id",
    "[info] never ran out of memory trying to allocate 3 GiB",
    "INFO cannot allocate massVec, retrying",
    "DEBUG peer 7 low on memory - could not allocate block of size 8388608",
    "[gpu-b7:40211:0] INFO heap limit 8G",
)
OF_A_DEVICE = (
    ("failed assertion `Could not allocate shared MTLTexture for size 21474836480'\nAbort trap: 6", "gpu"),
    ("[cuda:10] OUT OF MEMORY for sendbuf", "gpu"),
    ("ERROR could not create MTLHeap of 3221225472 bytes", "gpu"),
    (
        "cannot allocate scratch surface of 3221225472 bytes, max global memory 16225243136, used local memory 147639",
        "gpu",
    ),
    ("clAlloc: cannot allocate 8589934592 bytes, device global memory 4294967296", "gpu"),
    ("ERROR gpu_runner.py:7: step ran out of memory; restart the server.", "gpu"),
    ("ERROR host mirror malloc failed for size=17179869184 on xpu", "host_ram"),
    ("ERROR cuda: failed to allocate non-pinned host memory", "host_ram"),
    ("ValueError: Minimum VRAM requirement not met", "gpu"),
    ("ERROR loader: memory requirements were not satisfied", "host_ram"),
)
NOT_OF_A_DEVICE = (
    "ValueError: Minimum Python requirements not met",
    "if memory requirements are not met, lower the batch size",
    "INFO private surface of 3221225472 bytes, used local memory 14763950080, max global memory 16225243136",
    "INFO allocated shared MTLBuffer for size 4096",
)
GIVEN_UP = (
    (LOADED.format("ERROR", "giving up"), "gpu"),
    ("ERROR arena: contiguous allocation of 3 GiB failed, running out of options", "host_ram"),
    ("ERROR tile: group aborted: device memory is full, aborted instead of waiting", "gpu"),
    ("ERROR: out of memory. Requests cannot be retracted", "host_ram"),
)
GOES_ON = (
    "ERROR arena: contiguous allocation of 3 GiB failed, running non-contiguous allocator",
    "WARN heap: large page allocation failed, reverting to the default pages",
    "WARN tile: allocation of 3 GiB failed, switching to a smaller tile",
    "WARN cache: could not allocate 64 MiB; keeping the old buffer",
    LOADED.format("WARN", "unloading others and trying again"),
)
SHORT_ALL_THE_SAME = (
    ("RuntimeError: Failed to allocate 4 MiB on gpu 0 because no memory is left", "gpu"),
    ("ERROR profiler: out of device memory while tracing", "gpu"),
    ("DriverError: <device 1> cannot map host memory: out of memory", "host_ram"),
    ("ERROR: out of memory because swap is not enabled", "host_ram"),
    ("ERROR cuda: could not allocate 3 GiB of sampler buffers", "gpu"),
    ("DriverError: device 1: failed to map host memory: out of memory", "host_ram"),
)
NO_SHORTAGE = (
    "RuntimeError: Failed to allocate 4 MiB on gpu 0 because stream pools are not enabled",
    "Error: cannot reserve 64 MiB because the async allocator was not initialized",
    "RuntimeError: could not map buffer because peer access is not supported",
    "DriverError: <device 1> can not register host memory",
    "ERROR gpu 0 does not map pageable memory",
    "RuntimeError: adapter 'A7' can't access peer memory",
    "WARN tracer: span ring exhausted, allocation failed",
    "x-1:1:2 [0] NCCL WARN Profiler: event pool exhausted - allocation failed!",
    "WARN metrics: sample buffer pool is full, allocation failed",
    "SELECT_TYPE: Insufficient memory for any node",
    "debug: not enough memory on any host for task 7",
    "RESERVATION: job 7: not enough memory, trying later",
)
OF_A_JOB = (
    ('[JobId="7"; ExitReason="Memory limit exceeded"; Node="n7"]', "cgroup"),
    ("Error: runc: OOM: memory limit too low", "cgroup"),
    ("podman: error: OOM, memory limit of 64 MiB", "cgroup"),
    ("ValueError: Unable to allocate all replicas with the remaining resources.", "scheduling"),
    ("RuntimeError: cannot allocate 4 actor groups with free resources", "scheduling"),
    ("ERROR not able to reserve worker bundles with the available resources", "scheduling"),
    ("PlanError: Cannot place the adapters and leave 2 GiB free on cuda:0", "gpu"),
    ("RuntimeError: unable to fit the experts and keep 512 MiB free on the device", "gpu"),
    ("[ 12.5] oom_reaper: unable to reap pid:77 (train)", "host_ram"),
    ("earlyoom[9]: trigger_kernel_oom: successfully triggered kernel OOM killer", "host_ram"),
)
OF_NO_JOB = (
    '[JobId="7"; ExitReason="Walltime limit reached"; Node="n7"]',
    '[JobId="7"; Policy="on memory limit reached: warn"]',
    "INFO allocated worker groups with the available resources",
    "ERROR unable to allocate worker resources: connection refused",
    "INFO placed the model and kept 4.5 GiB free on the device",
    "earlyoom[9]: would have triggered the kernel OOM killer",
)
SHORT = PLACES + TOO_LARGE + SAID + OF_A_DEVICE + GIVEN_UP + SHORT_ALL_THE_SAME + OF_A_JOB
QUIET = OTHER_PLACES + NOT_TOO_LARGE + NOT_SAID + NOT_OF_A_DEVICE + GOES_ON + NO_SHORTAGE + OF_NO_JOB


@pytest.mark.parametrize(("text", "pool"), SHORT)
def test_what_is_short_is_read_with_its_pool(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", QUIET)
def test_near_misses_are_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("words", ["cannot create std::string larger than max_size()", "vector too long"])
def test_a_length_beyond_counting_is_an_impossible_size(words: str, tmp_path: Path) -> None:
    assert body(tmp_path, LENGTH + words)["diagnoses"][0]["cause"] == "absurd-size"


FIGURES = (
    (
        "ERROR tile: out of memory margin_bytes=7340032 alloc_size=2147483648 free_bytes=1073741824",
        2147483648,
        1073741824,
    ),
    ("RuntimeError: failed to allocate a tile of size 2147483648, free memory: 1073741824", 2147483648, 1073741824),
    ("ERROR cannot allocate 2147483648 bytes, available mem=1073741824, used mem=4294967296", 2147483648, 1073741824),
)


@pytest.mark.parametrize(("text", "tried", "free"), FIGURES)
def test_a_key_belongs_to_the_figure_behind_it(text: str, tried: int, free: int, tmp_path: Path) -> None:
    usage = body(tmp_path, text)["events"][0]["usage"]
    assert (usage["tried_bytes"], usage["free_bytes"]) == (tried, free)
