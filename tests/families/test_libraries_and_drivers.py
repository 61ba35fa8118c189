"""Libraries of data, servers, drivers, what passes messages: what they say of memory, and what only sounds like it."""

from __future__ import annotations

from pathlib import Path

import pytest

import oomdoctor

SHORT = (
    # a month is no maybe
    ("812:M 14 May 2024 04:10:01.221 # Out Of Memory allocating 536870928 bytes!", "host_ram"),
    ("May 14 04:10:01 node7 app: error: could not reserve 3 GiB of memory", "host_ram"),
    # nor is a class that handles requests a failure that is handled
    ("2024-05-01 10:20:11 ERROR TCPHandler: not enough memory for the request, 3 GiB needed", "host_ram"),
    # libfabric knows no level above a warning
    ("libfabric:31:1717:opx:ep_data:fi_opx_rx():3842<warn> Out of memory.", "host_ram"),
    ("libfabric:31:1717:verbs:mr:vrb_reg():215<warn> ibv_reg_mr: Cannot allocate memory(12)", "pinned"),
    # libc's own calls are the host's memory, and so is what a library of the card's keeps its accounts in
    ("node7:22:39 [2] utils.cc:318 NCCL WARN Unrecoverable error: malloc(size=64) returned null.", "host_ram"),
    ("node7:22:39 [2] mem_manager.cc:155 NCCL WARN MemManager: Failed to allocate memory entry", "host_ram"),
    ("RuntimeError: SOLVER_MALLOC fails for buf in intMalloc() at line 175 in file solver/SRC/memory.c", "host_ram"),
    # a library of the card's by its name, by its file, by the driver's call
    ("/opt/nvshmem_src/mem_heap.cpp:1747: non-zero status: 1 Not enough space for allocating memory", "gpu"),
    ("terminate called after throwing an instance of 'vk::OutOfDeviceMemoryError'", "gpu"),
    ("[1717.1] [n1:8:0] cache.c:158  UCX  ERROR cuIpcOpenMemHandle(addr, LAZY_PEER) failed: out of memory", "gpu"),
    ("  cuMemHostRegister return value:  2", "pinned"),
    ("RuntimeError: Could not allocate bytes object!", "host_ram"),
    ("CUFFTError(code 2, cuFFT failed to allocate GPU or CPU memory)", "gpu"),
    # what the operating system did not lock
    ("drv.LogicError: cuMemHostAlloc failed: OS call failed or operation not supported on this OS", "pinned"),
    ("hostbuf.cu:77: cudaMallocHost(&p, n): OS call failed or operation not supported on this OS", "pinned"),
    ("CUDA error at nbody.cpp:412 code=2(cudaErrorMemoryAllocation) \"cudaMalloc(&p, n)\"", "gpu"),
    # shared memory, whoever lays it out
    ("[1717.1] [n1:8:0] sys.c:978  UCX  ERROR shmget(size=2097152 flags=0x0) for mm failed: No space left", "shm"),
    ("Abort(16) on node 0: unable to allocate shared memory - posix_fallocate No space left on device", "shm"),
    ("It appears as if there is not enough space for /tmp/seg (the shared-memory backing", "shm"),
    # an error that was caught, a fault that comes later
    ("2024-02-11 20:12:52,350 ERROR [search.py:73] Caught exception:\nCUDA error: out of memory\n", "gpu"),
    ("ERROR Unable to allocate memory of size 12\nPluginError: an illegal memory access was encountered", "host_ram"),
    # what is only recommended is not done; a warden tells of a death at whatever level
    ("ERROR GPU 0 ran out of memory with this tile size. We suggest halving it and trying again.", "gpu"),
    ('level=info msg="warden: process in container 71ab died due to OOM"', "cgroup"),
    ("RuntimeError: RESOURCE_EXHAUSTED: Unable to allocate device workspace for syevd", "gpu"),
    ("RuntimeError: the KV cache budget is below the minimum of one block", "kv_cache"),
    # OpenCL's number for resources of a device, by its name
    ("[GPU] CL_OUT_OF_RESOURCES exception.\nAny further call will hang, so the plugin can't finish.", "gpu"),
    ("ERROR: clEnqueueReadBuffer failed: CL_OUT_OF_RESOURCES", "gpu"),
    # calls that are numbered are no comments
    ("  #011: H5Dchunk.c line 4011 in H5D__chunk_lock(): memory allocation failed for raw data chunk", "host_ram"),
    # behind a bar and behind a time an error is one
    ("epoch 2/9  31%|██████▎    |  ETA: 0:02:11ERROR: GPU memory allocation failed: 310 MiB free", "gpu"),
    ("[06/11/2024-09:10:11] [E] [TRT] request: 2100MB Available: 90MB. Device memory is insufficient", "gpu"),
    ("Error: Resident memory is at 91% of total memory, exceeding the configured limit of 90%", "host_ram"),
)  # fmt: skip

QUIET = (
    # a warning that nothing follows: pageable memory does it, too
    "W0613 14:02:10.330112 16109 system_allocator.cc:203] cudaHostAlloc failed.",
    "2024-08-14 16:12:31.771: W tensorflow/host_allocator.h:46] could not allocate pinned host memory of size: 2304",
    "WARNING:job:pinned host buffers unavailable (CUDA error: out of memory); using pageable .cpu()",
    "[2024-03-11T07:01:11,220][WARN ][JNANatives] Unable to lock JVM Memory: error=12, reason=Cannot allocate memory",
    # after a kernel's fault the driver refuses every call, and OpenCL says no more of it
    "PluginError: an illegal memory access was encountered\nERROR Unable to allocate memory of size 12",
    "CL ERROR: CL_OUT_OF_RESOURCES\nrun took 0 ms\nCL ERROR: ILLEGAL READ OR WRITE TO A BUFFER",
    "[GPU] CL_OUT_OF_RESOURCES exception.\nERROR: an illegal memory access was met",
    "#define CL_OUT_OF_RESOURCES -5",
    "[GPU] CL_INVALID_VALUE exception.\nAny further call will hang, so the plugin can't finish.",
    # caught one line above
    "2024-02-11 20:12:52,350 INFO [search.py:73] Caught exception:\nCUDA error: out of memory\n",
    # what is done, and what did not happen
    "ERROR GPU 0 ran out of memory with this tile size, halving it and trying again.",
    'level=info msg="warden: no process died due to OOM"',
    "RuntimeError: Unable to find the workspace for syevd",
    "INFO the KV cache usage is below the minimum of one block",
    # another error's number
    "libfabric:31:1717:cxi:ctrl:cxip_mr():205<warn> n014: Failed to allocate MR buffer ID: -28",
    # memory of one kernel on its chip
    "RuntimeError: exception occurred! file=/src/builder.cuh line=561: Not enough shared memory for bookkeeping.",
    "gpu:4:43 [1] enqueue.cc:81 NCCL WARN cudaArch 800 dynamic smem 98304 exceeds device/fn maxSharedMem 65536",
    "heap.cpp:60: ERROR Unable to register managed memory as it can migrate.",
    "redis: config maxmemory 4gb, used memory 3.1gb",
    "812:M 14 May 2024 04:10:01.221 * 0 out of memory errors so far",
    "NET/IB : unable to allocate requests",
    "library has exceeded its number of outstanding event handles.",
    "  cuMemHostRegister return value:  1",
    # the same number of calls that lock nothing
    "drv.LogicError: cuGraphicsGLRegisterBuffer failed: OS call failed or operation not supported on this OS",
    "cudaIpcOpenMemHandle(&p, h, 1): OS call failed or operation not supported on this OS",
    # a warning is one behind a bar and behind a time, too; there the line is cut
    "epoch 2/9  31%|██████▎    |  ETA: 0:02:11WARNING: device memory allocation failed; attempting to free up memo",
    "[06/11/2024-09:10:11] [W] [TRT] Tactic request: 2100MB Available: 90MB. Device memory is insufficient",
)


def verdict(folder: Path, text: str) -> tuple[str, str | None]:
    log = folder / "job.log"
    log.write_text(text + "\n", encoding="utf-8")
    body = oomdoctor.diagnose(log).as_json()
    return body["verdict"], next((one["pool"] for one in body["diagnoses"]), None)


@pytest.mark.parametrize(("text", "pool"), SHORT, ids=lambda value: value[:40])
def test_memory_is_short(text: str, pool: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, text) == ("oom", pool)


@pytest.mark.parametrize("text", QUIET, ids=lambda text: text[:40])
def test_memory_is_not_short(text: str, tmp_path: Path) -> None:
    assert verdict(tmp_path, text)[0] == "no-oom"


def test_a_warning_behind_which_something_fails_is_a_failure(tmp_path: Path) -> None:
    text = QUIET[0] + "\nF0613 14:02:10.4 16109 a.cc:1] died"
    assert verdict(tmp_path, text) == ("oom", "pinned")


def test_graphs_are_beside_the_framework(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    said = "RESOURCE_EXHAUSTED: Underlying backend ran out of memory trying to instantiate command buffer with 7"
    log.write_text(f"jaxlib.xla_extension.XlaRuntimeError: {said}\n", encoding="utf-8")
    assert oomdoctor.diagnose(log).as_json()["diagnoses"][0]["cause"] == "non-torch-memory"


CALL = "n3:771:{thread} [6] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'"
SIZE = "n3:771:{thread} [6] include/alloc.h:185 NCCL WARN Failed to CUDA {call} 6291456 bytes"


def sizes(folder: Path, *lines: str) -> list[int | None]:
    """What the library's failures say that was requested."""
    log = folder / "nccl.log"
    log.write_text("\n".join(lines) + "\n", encoding="utf-8")
    events = oomdoctor.diagnose(log).as_json()["events"]
    return [one["usage"].get("tried_bytes") for one in events if one["kind"] == "library-out-of-memory"]


@pytest.mark.parametrize("between", [(), ("",)])
@pytest.mark.parametrize("call", ["calloc", "malloc", "calloc async"])
def test_the_size_below_is_that_of_the_failed_call(tmp_path: Path, between: tuple[str, ...], call: str) -> None:
    assert sizes(tmp_path, CALL.format(thread=9), *between, SIZE.format(thread=9, call=call)) == [6291456]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ([CALL.format(thread=9), SIZE.format(thread=4, call="calloc")], [None, 6291456]),  # another thread's
        ([CALL.format(thread=9), "loss 0.3", "loss 0.2", SIZE.format(thread=9, call="calloc")], [None, 6291456]),
        ([CALL.format(thread=9), "n3:771:9 [6] enqueue.cc:54 NCCL WARN Cuda failure 'invalid argument'"], [None]),
        ([SIZE.format(thread=9, call="calloc"), CALL.format(thread=9)], [6291456, None]),  # the call's comes first
        ([SIZE.format(thread=9, call="calloc")], [6291456]),
    ],
)
def test_a_size_that_is_not_of_the_failed_call(tmp_path: Path, lines: list[str], found: list[int | None]) -> None:
    assert sizes(tmp_path, *lines) == found


@pytest.mark.parametrize(("number", "verdict"), [("2", "oom"), ("700", "no-oom"), ("209", "no-oom"), ("20", "no-oom")])
def test_the_drivers_number_behind_a_librarys_words(number: str, verdict: str, tmp_path: Path) -> None:
    log = f"RuntimeError: ops/spconv/src/indice_cuda.cu 124\ncuda execution failed with error {number}\n"
    (tmp_path / "job.log").write_text(log, encoding="utf-8")
    assert oomdoctor.diagnose(tmp_path / "job.log").as_json()["verdict"] == verdict
