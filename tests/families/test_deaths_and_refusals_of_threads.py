"""Deaths and refusals as people paste them: a kill in any shell's language or glued to a line of progress, a quoted
call that was refused, a count that has overflowed, a hold of a batch system; and near misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

MIB = 1024**2

KILLED = (
    "Epoch 4/10\n 12/90 [==>....] - loss: 2.13Killed",
    "step 311 loss 0.22 Killed",
    "reading chunk 4 of 9...Killed",
    "*** Signal 9\n\nStop.\nmake: stopped in /usr/src",
    "*** [kernel.o] Signal 9",
    "bmake: *** Signal 9",
    "./go.sh: Zeile 8:  4411 Getötet                 python3 fit.py",
    "./go.sh: ligne 8 :  4411 Killed                  python3 fit.py",
    "./go.sh: línea 8:  4411 Terminado (killed)      python3 fit.py",
    "./go.sh: 行 8:  4411 強制終了            python3 fit.py",
    "./go.sh: 第 8 行:  4411 Killed            python3 fit.py",
    "./go.sh: riga 8:  4411 Ucciso            python3 fit.py",
)
NOT_KILLED = (
    "Wave 3: 12 Killed in action",
    "game: Wave 3: 12 Killed in action",
    "state.isKilled",
    "stale workers: 3 Killed",
    "Enemies: 12Killed ok",
    "ctrl: *** Signal 9 is reserved",
    "Jobs: Running, Killed",
    "Completed 3/9, 2 Killed",
    "step 4/9 done. 3 jobs were not Killed",
)
LOADING = (
    (
        "Scanning ok\nLoading v7 from /srv/models/v7.ckpt\n  | Keeping EMAs of 600\n"
        "./run.sh: riga 4:  9911 Killed      python s.py"
    ),
    "[loader] opening checkpoint at s3/llm/part.bin\nKilled: 9",
    "importing the unet from ./base.safetensors\nsetting up 24 layers\nKilled",
)
NOT_LOADING = (
    "Loading rows from /data/train.h5\nKilled",
    "Loading v7 from /srv/models/v7.ckpt\nModel loaded in 3 s\nlistening on 8080\nKilled",
    "Loading v7 from /srv/models/v7.ckpt\nstep 12 loss 0.3\nKilled",
)


@pytest.mark.parametrize("text", KILLED)
def test_a_kill_that_nothing_explains_is_never_no_failure(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "inconclusive"
    assert report["events"][0]["fields"]["signal"] == "SIGKILL"


@pytest.mark.parametrize("text", NOT_KILLED)
def test_the_word_alone_is_no_kill(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


def test_the_pid_of_a_shells_line_in_another_language(tmp_path: Path) -> None:
    report = body(tmp_path, "./go.sh: riga 8:  4411 Ucciso            python3 fit.py")
    assert report["events"][0]["process"]["pid"] == 4411


@pytest.mark.parametrize("text", LOADING)
def test_a_kill_right_behind_a_file_of_weights(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "inconclusive"
    assert report["diagnoses"][0]["cause"] == "host-model-load"


@pytest.mark.parametrize("text", NOT_LOADING)
def test_data_and_what_was_loaded_before_is_no_loading_of_weights(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] in ("killed-without-evidence", "dataset-in-ram")


PREFIXED = (
    ("# FLOW: ERROR: Failed to allocate device memory of size 8811520 (field.cu:60 in grow())", "gpu"),
    ("# [rank 3] FATAL: cannot allocate 3 GiB of host memory", "host_ram"),
    ("# ERROR: out of memory allocating 1048576 bytes", "host_ram"),
)
COMMENTS = (
    "# TODO: ERROR: cannot allocate 3 GiB of host memory is not handled",
    "# raises an error: failed to allocate device memory of size 8811520",
    "# Note: failed to allocate device memory of size 8811520",
)
CHECKED = (
    ("Solver assertion 'cudaMalloc(p, n) == cudaSuccess' failed in void grid::alloc()", "gpu"),
    ("Check failed: hipMalloc(&ptr, bytes) == hipSuccess ", "gpu"),
    ("pool: CHECK(cudaMallocHost(&p, n) == cudaSuccess) failed", "pinned"),
    ("sim: pool.c:88: grow: Assertion `(buf = aligned_alloc(64, n)) != NULL' failed.", "host_ram"),
    ("field.cpp:40: Assertion `posix_memalign(&p, 64, n) == 0' failed", "host_ram"),
)
CHECKED_OTHERWISE = (
    "Check failed: cudaMalloc(&p, n) == cudaSuccess (46 vs. 0) all CUDA-capable devices are busy or unavailable",
    "Assertion `cudaFree(p) == cudaSuccess' failed.",
    "assert cudaMalloc(&p, n) == cudaSuccess  # never failed",
    "PASS: assertion 'cudaMalloc(p, n) == cudaSuccess' holds",
)
OVERFLOWED = (
    (" ERROR: trying to allocate an array of size  -120801459\n        that could not have been intended.", -120801459),
    ("Error: dimension of work array is negative: -2147000000", -2147000000),
    ("STOP: attempt to allocate -1739412 elements", -1739412),
)
NO_COUNT = (
    "ERROR: array index -1073741824 out of bounds",
    "DEBUG trying to allocate an array of size -120801459",
    "INFO histogram of size -120801459",
    "error: size of file is -1",
    "memory allocated since the last step: -20971520",
    "allocation delta -20971520 (error bound 0.1)",
    "tensor allocation: net -20971520",
)


@pytest.mark.parametrize(("text", "pool"), (*PREFIXED, *CHECKED))
def test_a_refusal_behind_a_prefix_or_in_a_check(text: str, pool: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["pool"] == pool


@pytest.mark.parametrize("text", (*COMMENTS, *CHECKED_OTHERWISE, *NO_COUNT))
def test_comments_other_checks_and_places_are_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(("text", "count"), OVERFLOWED)
def test_a_count_below_nothing_is_absurd(text: str, count: int, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["diagnoses"][0]["cause"] == "absurd-size"
    assert report["events"][0]["fields"]["needed"] == count


def test_a_limit_that_the_shell_was_given_explains_what_a_machine_of_javas_could_not_have(tmp_path: Path) -> None:
    start = "java -version\nError occurred during initialization of VM\nCould not allocate metaspace: 536870912 bytes"
    report = body(tmp_path, f"$ ulimit -v 700000\n$ {start}\n$ ulimit -S -v unlimited")
    assert report["diagnoses"][0]["cause"] == "address-space-limit"
    assert body(tmp_path, f"+ ulimit -v 700000\n+ {start}")["diagnoses"][0]["cause"] == "address-space-limit"
    refused = "bash: ulimit: virtual memory: cannot modify limit: Operation not permitted"
    for before in ("", "ulimit -v 700000\n", f"$ ulimit -v 700000\n{refused}\n", "$ ulimit -v unlimited\n"):
        report = body(tmp_path, f"{before}$ {start}")
        assert report["diagnoses"][0]["cause"] == "host-memory-exhausted"


HELD = (
    ("Job in status 2 put on hold by SYSTEM_PERIODIC_HOLD due to memory usage 2500000.", 2500000 * 1024),
    ("Job 17 was removed by the scheduler because of memory usage 9000 MB", 9 * 10**9),
    ("The worker was stopped due to memory usage: 12.5 GiB", 12800 * MIB),
)
NOT_HELD = (
    "job 12 was put on hold by user due to missing input",
    "3 jobs held because of memory usage 91 %",
    "PeriodicHold: Job in status 2 put on hold by SYSTEM_PERIODIC_HOLD due to walltime 3000000.",
    "Memory usage 3000000 at hold",
)


@pytest.mark.parametrize(("text", "used"), HELD)
def test_a_hold_for_memory_is_a_limit(text: str, used: int, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["diagnoses"][0]["cause"] == "container-limit"
    assert report["events"][0]["usage"]["used_bytes"] == used


@pytest.mark.parametrize("text", NOT_HELD)
def test_a_hold_for_something_else_is_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


METAL = (
    "ggml_metal_add_buffer: allocated 'kv' buffer, size =   256.00 MB, ({} / 21845.34)\n"
    "ggml_metal_graph_compute: command buffer 3 failed with status 5"
)


def test_a_command_of_metals_that_failed_beyond_what_it_recommends(tmp_path: Path) -> None:
    report = body(tmp_path, METAL.format("23984.50"))
    assert report["diagnoses"][0]["cause"] == "allocator-cap"
    assert report["events"][0]["usage"]["allocated_bytes"] == round(23984.5 * MIB)
    assert body(tmp_path, METAL.format("3984.50"))["verdict"] == "no-oom"


HINT = (
    "Hint: If you want to see a list of allocated tensors when OOM happens, add report_tensor_allocations_upon_oom to "
    "RunOptions for current allocation info."
)


def test_the_tail_of_a_table_of_allocations_without_its_sentence(tmp_path: Path) -> None:
    table = "  XLA label: %fusion.1 = (f32[512]{0}, bf16[8,64,512]{2,1,0})\n  Allocation type: scoped\n"
    event = body(tmp_path, f"{table}\n{HINT}")["events"][0]
    assert event["fields"]["buffers"][0]["shape"] == "bf16[8,64,512]"
    assert body(tmp_path, table)["verdict"] == "no-oom"


STICKY = (
    "[719] Call to cuMemAlloc results in CUDA_ERROR_LAUNCH_FAILED",
    "CudaAPIError: [700] Call to cuMemAlloc results in UNKNOWN_CUDA_ERROR",
    "hipMalloc failed: hipErrorLaunchFailure",
    "cuMemAlloc failed with CUDA_ERROR_MISALIGNED_ADDRESS",
)


@pytest.mark.parametrize("text", STICKY)
def test_a_call_that_allocates_and_failed_with_another_error(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


def test_the_same_call_with_the_error_of_memory(tmp_path: Path) -> None:
    assert body(tmp_path, "[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY")["verdict"] == "oom"


def causes(report: dict[str, Any]) -> list[str]:
    return [one["cause"] for one in report["diagnoses"]]


def test_a_driver_that_refuses_its_start(tmp_path: Path) -> None:
    frame = 'Traceback (most recent call last):\n  File "/lib/gpu/driver.py", line 8, in init\n    self.call(0)\n'
    first = causes(body(tmp_path, f"{frame}gpu.ApiError: [2] Call to cuInit results in CUDA_ERROR_OUT_OF_MEMORY"))[0]
    assert first == "spurious-device-oom"
    other = causes(body(tmp_path, f"{frame}gpu.ApiError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"))
    assert "spurious-device-oom" not in other


def test_strings_of_one_width(tmp_path: Path) -> None:
    refused = "MemoryError: Unable to allocate array with shape ({},) and data type <U{}"
    assert causes(body(tmp_path, refused.format(30000, 90000)))[0] == "dataset-in-ram"
    assert "dataset-in-ram" not in causes(body(tmp_path, refused.format(30, 90000)))


CARD = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {} (GPU 0; 11.76 GiB total capacity; 10.80 GiB "
    "already allocated; {} free; 10.97 GiB reserved in total by PyTorch)"
)


@pytest.mark.parametrize(
    ("tried", "free", "spurious"), [("20.00 MiB", "90.00 MiB", False), ("20.00 MiB", "3.1 GiB", True)]
)
def test_a_little_more_than_a_little_is_not_room(tried: str, free: str, spurious: bool, tmp_path: Path) -> None:
    found = causes(body(tmp_path, CARD.format(tried, free)))
    assert ("spurious-device-oom" in found) is spurious


COLAB = (
    "OutOfMemoryError                          Traceback (most recent call last)\n"
    "[/usr/lib/python3/dist-packages/accelerate/utils/operations.py](https://localhost:8080/#) in {}(tensor)\n"
    "    780     def f(tensor):\n--> 781         return tensor.float()\n    782 \n\n"
    "OutOfMemoryError: CUDA out of memory. Tried to allocate 6.10 GiB. GPU 0 has a total capacity of 14.75 GiB "
    "of which 3.78 GiB is free. Process 4 has 10.95 GiB memory in use."
)


@pytest.mark.parametrize(("function", "first"), [("_convert_to_fp32", True), ("_move", False)])
def test_frames_of_a_notebook_whose_files_are_links(function: str, first: bool, tmp_path: Path) -> None:
    assert (causes(body(tmp_path, COLAB.format(function)))[0] == "logits-spike") is first


def test_the_loss_of_yes_and_no_has_no_vocabulary(tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "/lib/torch/nn/functional.py", line 9, in {0}\n    f.{0}(x)\n'
    message = CARD.format("200.00 MiB", "10.00 MiB")
    assert "logits-spike" not in causes(body(tmp_path, trace.format("binary_cross_entropy_with_logits") + message))
    assert "logits-spike" in causes(body(tmp_path, trace.format("cross_entropy") + message))


EXCHANGE = "RuntimeError: [TensorRT-LLM][ERROR] CUDA runtime error in error: out of memory (/src/runtime/{}.cpp:48)"


@pytest.mark.parametrize(("file", "first"), [("ipcUtils", True), ("customAllReduce", True), ("workspace", False)])
def test_buffers_through_which_cards_exchange_data(file: str, first: bool, tmp_path: Path) -> None:
    assert (causes(body(tmp_path, EXCHANGE.format(file)))[0] == "non-torch-memory") is first


GO = (
    "fatal error: runtime: out of memory\n\nruntime stack:\nruntime.sysMap(0xc024000000, 0x8000000, 0xa23c98)\n"
    "\t/go/src/runtime/mem_linux.go:169 +0xc5\n"
)


def test_a_program_in_go_asked_for_less_than_its_runtime_maps(tmp_path: Path) -> None:
    large = "runtime.largeAlloc(0x7fffe00, 0x30101, 0x43be27)\n"
    usage = body(tmp_path, GO + large)["events"][0]["usage"]
    assert (usage["tried_bytes"], usage["mapped_bytes"]) == (0x7FFFE00, 0x8000000)
    assert body(tmp_path, GO)["events"][0]["usage"]["tried_bytes"] == 0x8000000


def test_figures_of_catboost_are_mebibytes(tmp_path: Path) -> None:
    error = "(NCudaLib::TOutOfMemoryError) /pool.h:294: Error: Out of memory. Requested 512.500000; Free 100.250000"
    usage = body(tmp_path, f"Application terminated with error: {error}")["events"][0]["usage"]
    assert (usage["tried_bytes"], usage["free_bytes"]) == (round(512.5 * MIB), round(100.25 * MIB))


def test_what_a_program_in_go_asked_for_stands_before_its_flags(tmp_path: Path) -> None:
    flagged = "runtime.largeAlloc(0x7fffe00, 0xc000510100, 0xc000534f01)\n"
    received = "runtime.(*mcache).allocLarge(0xc00051a000, 0x7fffe00, 0x1)\n"
    for frame in (flagged, received):
        assert body(tmp_path, GO + frame)["events"][0]["usage"]["tried_bytes"] == 0x7FFFE00


JULIA = (
    "ERROR: Out of GPU memory trying to allocate 64.000 MiB\n"
    "Effective GPU memory usage: 88.21% (13.920 GiB/15.780 GiB)\n"
    "CUDA allocator usage: {} GiB (capped at 12.000 GiB)\nbinned usage: 1.000 KiB\n"
)


@pytest.mark.parametrize(("allocated", "cause"), [("11.960", "allocator-cap"), ("9.100", "gpu-memory-exhausted")])
def test_the_cap_of_cuda_in_julia_counts_where_it_is_full(allocated: str, cause: str, tmp_path: Path) -> None:
    told = body(tmp_path, JULIA.format(allocated))
    assert causes(told)[0] == cause
    usage = told["events"][0]["usage"]
    assert (usage["used_bytes"], usage["total_bytes"]) == (round(13.92 * 2**30), round(15.78 * 2**30))


OLD_NCCL = "box:21:40 [1] include/shm.h:28 NCCL WARN Call to {} failed : {}\n"


@pytest.mark.parametrize(
    ("call", "reason", "full"),
    [
        ("posix_fallocate", "No space left on device", True),
        ("ftruncate", "Invalid argument", False),
        ("shm_open", "Permission denied", False),
    ],
)
def test_ncclmessage_of_old_about_shared_memory(call: str, reason: str, full: bool, tmp_path: Path) -> None:
    assert ("shm-too-small" in causes(body(tmp_path, OLD_NCCL.format(call, reason)))) is full


def test_a_fatal_error_is_no_rest_of_the_line_above(tmp_path: Path) -> None:
    line = "runtime: VirtualAlloc of 4194304 bytes failed with errno=1455"
    below = "fatal error: runtime: cannot map pages in arena address space"
    assert len(line) == len(below)
    assert causes(body(tmp_path, f"{line}\n{below}\n\nruntime stack:\n"))[0] == "address-space-limit"


HYDRA = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 4711 RUNNING AT box\n=   EXIT CODE: {}\n"


@pytest.mark.parametrize(("code", "cause"), [("9", "killed-without-evidence"), ("1", None), ("19", None)])
def test_the_raw_status_of_hydra(code: str, cause: str | None, tmp_path: Path) -> None:
    assert causes(body(tmp_path, HYDRA.format(code)))[:1] == ([cause] if cause else [])


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("<jemalloc>: Error in malloc(): out of memory. Requested: 12884901888, active: 64424509440", 12884901888),
        ("<jemalloc>: Error in malloc(): out of memory", None),
        ("<jemalloc>: Invalid conf pair: narenas:0", 0),
    ],
)
def test_jemalloc_tells_where_it_is_told_to(line: str, asked: int | None, tmp_path: Path) -> None:
    told = body(tmp_path, f"{line}\n")
    assert bool(told["events"]) is (asked != 0)
    assert [one["usage"].get("tried_bytes") for one in told["events"]] == ([asked] if asked != 0 else [])
