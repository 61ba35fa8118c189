"""What separates the words from the message: who read the line, whether a sample is closed, whether a job ran on."""

from __future__ import annotations

import pytest

from oomdoctor import families
from oomdoctor.families import Event, Lookalike
from oomdoctor.families.ended import STEPS
from oomdoctor.families.gpu_lookalike import HIDDEN, OF_THE_SYSTEM, ON_CHIP, TPU_BLOCKS, TPU_OTHER, TPU_SCALARS
from oomdoctor.families.spoken import SPOKEN
from oomdoctor.streams import page

REFUSED = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB."
KILLED = "run.sh: line 4: 2210 Killed                  python train.py"


def read(*lines: str) -> tuple[list[str], list[str]]:
    """The kinds of failures, and the reasons of lookalikes."""
    found = list(families.read(page("job.log", 1, "\n".join(lines).encode() + b"\n")))
    failures = [item.kind for item in found if isinstance(item, Event) and item.role == "root"]
    return failures, [item.why for item in found if isinstance(item, Lookalike)]


def test_a_line_that_a_family_reads_is_not_named_for_its_words() -> None:
    assert read("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. See /docs/oom-faq.md") == (
        ["out-of-memory"],
        [],
    )


@pytest.mark.parametrize("end", ["[score] 0.5", "[ground_truth] 7", "[response] None."])
def test_what_stands_in_a_printed_sample_is_its_text(end: str) -> None:
    assert read("[prompt] My job prints:", REFUSED, end) == ([], [SPOKEN])


def test_a_sample_that_is_not_closed_hides_no_crash() -> None:
    failures, _ = read("[prompt] Two and two?", "[response] Four.", "Traceback (most recent call last):", REFUSED)
    assert failures == ["out-of-memory"]


def test_what_another_process_prints_amid_a_sample_is_its_own() -> None:
    failures, _ = read(
        "(TaskRunner pid=7) [prompt] Two and two?", f"(WorkerDict pid=9) {REFUSED}", "(TaskRunner pid=7) [score] 1.0"
    )
    assert failures == ["out-of-memory"]


def test_a_request_that_is_answered_with_an_error_is_no_sample() -> None:
    failures, _ = read('{"prompt": "Two and two?", "error": "CUDA out of memory. Tried to allocate 2.50 GiB."}')
    assert failures == ["out-of-memory"]


@pytest.mark.parametrize("command", ["$ ray stop --force", "$ pkill -9 -f serve.py", "$ docker stop old", "^C"])
def test_a_clean_up_explains_a_kill_only_where_the_job_did_not_run_on(command: str) -> None:
    steps = [f"step {number}: loss 1.0" for number in range(STEPS)]
    failures, reasons = read(command, KILLED)
    assert (failures, len(reasons)) == ([], 1)
    assert read(command, *steps, KILLED) == (["kill"], [])


@pytest.mark.parametrize("closed", ["[score] 1.0", "[response] Four.\n[score] 1.0"])
def test_a_crash_behind_a_sample_that_was_closed_is_one_although_another_follows(closed: str) -> None:
    failures, _ = read("[prompt] Two and two?", *closed.split("\n"), "Traceback:", REFUSED, "[score] 0.5")
    assert failures == ["out-of-memory"]


BROKEN_POOL = (
    "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly while the "
    "future was running or pending."
)
LOADER = "RuntimeError: DataLoader worker (pid 31) is killed by signal: Killed."


@pytest.mark.parametrize(("line", "kind"), [(BROKEN_POOL, "kill"), (LOADER, "worker-death")])
def test_a_worker_that_somebody_interrupted_was_not_killed_for_memory(line: str, kind: str) -> None:
    assert read(line) == ([kind], [])
    failures, reasons = read("^C", line)
    assert failures == []
    assert reasons[0].endswith("but a user interrupted it")


JOBLIB = (
    "joblib.externals.loky.process_executor.TerminatedWorkerError: A worker process managed by the executor was "
    "unexpectedly terminated. This could be caused by a segmentation fault while calling the function or by an "
    "excessive memory usage causing the Operating System to kill the worker."
)


def test_joblibs_advice_is_no_kill_where_exit_codes_tell_of_another_end() -> None:
    codes = "The exit codes of the workers are {{{}}}"
    assert read(JOBLIB) == (["kill"], [])
    assert read(JOBLIB, "", codes.format("SIGKILL(-9)"))[0] == ["kill"]
    assert read(JOBLIB, "", codes.format("SIGSEGV(-11)"))[0] == []
    assert read(JOBLIB, "", codes.format("EXIT(1)"))[0] == []
    assert read("except TerminatedWorkerError as error:") == ([], [])


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("SIGSEGV(-11)", "a crash at a bad address (SIGSEGV), not a lack of memory"),
        ("SIGTERM(-15), SIGTERM(-15)", "told to stop (SIGTERM), not OOM-killed"),
        ("EXIT(1)", "joblib mentions memory whenever a worker dies; the exit codes show no kill"),
    ],
)
def test_joblibs_own_class_name_is_no_signal(code: str, reason: str) -> None:
    codes = f"The exit codes of the workers are {{{code}}}"
    assert read(f"{JOBLIB} {codes}")[1] == [reason]
    assert read(JOBLIB, codes)[1] == [reason]


@pytest.mark.parametrize(
    ("call", "code", "is_fault"),
    [("cuStreamWaitEvent", 700, 1), ("cuMemcpyAsync", 719, 1), ("cuStreamWaitEvent", 2, 0), ("custom step", 700, 0)],
)
def test_the_number_of_a_fault_in_physx_words(call: str, code: int, is_fault: int) -> None:
    reasons = read(f"[Error] [omni.physx.plugin] PhysX error: {call} failed with error {code}")[1]
    assert [reason.startswith("a fault of the program or the GPU") for reason in reasons] == [True] * is_fault


WORKER = (
    "A worker died or was killed while executing a task by an unexpected system error. Worker exit type: SYSTEM_ERROR "
    "Worker exit detail: Worker exits with an exit code {}."
)


def test_a_worker_of_rays_that_left_by_itself() -> None:
    assert read(WORKER.format(1)) == ([], ["the worker exited by itself with code 1"])
    assert "worker-death" in read(WORKER.format(137))[0]
    assert read(WORKER.format("None"))[0] == ["worker-death"]


@pytest.mark.parametrize(
    ("warned", "raised", "kind"),
    [
        (
            "WARNING 05-11 12:12:12 [core.py:1136] max_num_seqs (256) exceeds available Mamba cache blocks (173).",
            "ERROR 05-11 12:12:12 [core.py:1136] max_num_seqs (256) exceeds available Mamba cache blocks (173).",
            "sequences-exceed-state",
        ),
        (
            "WARNING:sglang.srt:The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "unbalanced-cards",
        ),
    ],
)
def test_an_engine_that_warns_goes_on(warned: str, raised: str, kind: str) -> None:
    failures, reasons = read(warned)
    assert failures == []
    assert reasons[0].startswith("a warning: the engine")
    assert read(raised) == ([kind], [])


def test_an_array_that_is_asked_for_again_was_refused_without_harm() -> None:
    refused = "numpy.core._exceptions.MemoryError: Unable to allocate 8.50 GiB for an array with shape (10, 11)"
    assert read(f"{refused}; retrying with a smaller batch") == (
        [],
        ["the failed allocation was caught; the program continued"],
    )
    assert read(refused)[0] == ["host-allocation"]


def test_a_signal_that_other_failures_send_explains_nothing() -> None:
    assert read("*** SIGABRT received at time=1774000000 on cpu 3 ***") == ([], [])
    assert "SIGSEGV is a crash in native code" in read("*** SIGSEGV received at time=1774000000 on cpu 3 ***")[1][0]


ASKED = (
    "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1 GiB is free."
)
RAYLET = "[2026-05-12 20:50:10,611 I 7 7] (raylet) policy.cc:131: "
IDLE = "idle worker memory footprint exceeds idle worker killing memory threshold. Selecting idle worker to kill"
USED = (
    "Currently used memory: 263 bytes, threshold: {} bytes. Selected {} workers to kill: (PID: 9, name: ray::W.step)."
)


@pytest.mark.parametrize(
    "line",
    [
        f"W 4410 kernels.py:2210] [0/1] Exception {ASKED} for benchmark choice Template(mm_17)",
        "WARNING:sender:page-locked buffers unavailable (CUDA error: out of memory); using pageable ones",
        "RuntimeError: Requested shared memory (233472 bytes) exceeds device limit (101376 bytes).",
        "ValueError: The actor Loader is too large (103 MiB > FUNCTION_SIZE_ERROR_THRESHOLD=95 MiB).",
        RAYLET + IDLE,
        RAYLET + USED.format(264, 0),
    ],
)
def test_what_is_survived_or_no_memory_of_the_machine(line: str) -> None:
    assert read(line)[0] == []


@pytest.mark.parametrize(
    "line",
    [
        f"W 4410 kernels.py:2210] [0/1] Exception {ASKED}",
        "WARNING:sender:page-locked buffers unavailable (CUDA error: out of memory); using up the rest",
        "RuntimeError: Requested device memory (233472000 bytes) exceeds device limit (101376000 bytes).",
        RAYLET + USED.format(260, 2),
    ],
)
def test_near_them_it_was_a_failure(line: str) -> None:
    assert len(read(line)[0]) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "RuntimeError: NCCL error in: /b/c10d/NCCLUtils.hpp:9, unhandled system error, NCCL version 2.14.3",
            OF_THE_SYSTEM,
        ),
        ("horovod.common.exceptions.HorovodInternalError: ncclBroadcast failed: unhandled system error", OF_THE_SYSTEM),
        ("ncclSystemError: System call failed or device error.", OF_THE_SYSTEM),
        ("RuntimeError: NCCL error in: /b/c10d/NCCLUtils.hpp:9, unhandled cuda error, NCCL version 2.14.3", HIDDEN),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", HIDDEN),
    ],
)
def test_nccl_says_whose_call_failed_and_not_which(line: str, why: str) -> None:
    assert read(line) == ([], [why])


def test_a_call_that_nccl_names_is_no_hidden_one() -> None:
    failures, reasons = read(
        "ncclUnhandledCudaError: Call to CUDA function failed.", "Last error:", "Cuda failure 700 'x'"
    )
    assert (failures, HIDDEN in reasons) == ([], False)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space smem. Exceeded smem capacity by 9.5K.",
         TPU_SCALARS),
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem while allocating on stack for add.9.", TPU_BLOCKS),
        ("ValueError: Scoped allocation with size 19M and limit 16M exceeded scoped vmem limit by 3M", TPU_BLOCKS),
        ("RESOURCE_EXHAUSTED: Ran out of memory in memory space sflag. Used 4.1K of 4.0K sflag.", TPU_OTHER),
        # a GPU's kernels, which have blocks and shared memory
        ("OutOfResources: out of resource: shared memory, Required: 122880, Hardware limit: 101376.", ON_CHIP),
        ("kernel launch failed: dynamic smem 180224 exceeds the limit of the device", ON_CHIP),
    ],
)  # fmt: skip
def test_memory_on_the_chip_is_named_as_the_device_has_it(line: str, reason: str) -> None:
    assert read(line) == ([], [reason])


def test_a_tpus_hbm_is_not_on_the_chip() -> None:
    full = "XlaRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory in memory space hbm. Used 21.40G of 15.48G hbm."
    assert read(full) == (["array-out-of-memory"], [])


SUMMARY = "FAILED tests/gpu/test_sync.py::test_sync[fsdp-oom] - "


@pytest.mark.parametrize(
    ("line", "failures"),
    [
        (SUMMARY + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB.", ["out-of-memory"]),
        (
            SUMMARY + "ray.exceptions.RayTaskError(OutOfMemoryError): ray::A.fit() (pid=7, ip=10.0.0.4)",
            ["device-refusal"],
        ),
        (SUMMARY + "AssertionError: RayTaskError(OutOfMemoryError): ray::A.fit() was not raised", []),
        ("PASSED tests/gpu/test_sync.py::test_out_of_memory", []),
        ("tests/gpu/test_sync.py::test_cuda_out_of_memory FAILED", []),
    ],
)
def test_the_summary_of_pytest_is_the_message_of_its_failure(line: str, failures: list[str]) -> None:
    assert read(line)[0] == failures


RAISED = '  File "/venv/ray/_private/worker.py", line 2782, in get\n    {}'


@pytest.mark.parametrize(
    ("code", "kind"), [("raise value", "node-out-of-memory"), ("raise value.as_instanceof_cause()", "device-refusal")]
)
def test_an_error_of_rays_own_is_of_the_node(code: str, kind: str) -> None:
    call = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::collect() (pid=7, ip=10.1.0.9)"
    assert read(call, *RAISED.format(code).split("\n"))[0] == [kind]


PAUSED = (
    "2025-03-01 10:20:30,400 - distributed.worker.memory - WARNING - Worker is at 86% memory usage. Pausing worker.  "
    "Process memory: 3.21 GiB -- Worker memory limit: 3.73 GiB"
)
RESUMED = PAUSED.replace("86%", "55%").replace("Pausing worker. ", "Resuming worker.")
BUG = "[ 4021.118802] WARNING: CPU: 3 PID: 2210 at mm/page_alloc.c:4{}"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", "fell off the bus"),
        ("               NVRM: fallen off the bus and is not responding to commands.", "fell off the bus"),
        (BUG.format("543 __alloc_pages+0x308/0x698"), "than it ever gives"),
        (BUG.format("678 __alloc_frozen_pages_noprof+0x2df/0x370"), "than it ever gives"),
        (
            "I0402 11:20:31.118 eviction_policy.cc:81] There is not enough space to create this object, so evicting 7",
            "to make room",
        ),
        (PAUSED, "no line below resumes it"),
        ("slurmstepd: error: Exceeded step memory limit at some point.", "it does not say"),
    ],
)
def test_what_sounds_like_memory_is_named(line: str, words: str) -> None:
    failures, [why] = read(line)
    assert not failures
    assert words in why


@pytest.mark.parametrize(
    "lines",
    [
        ("he has fallen off the wagon",),
        (BUG.format("100 __alloc_pages_slowpath.constprop.0+0xd2b/0xdf0"),),
        (BUG.format("543 free_unref_page+0x308/0x698"),),
        (PAUSED, "2025-03-01 10:20:31,400 - distributed.core - INFO - Event loop was unresponsive", RESUMED),
        (RESUMED,),
    ],
)
def test_what_only_resembles_it_is_not(lines: tuple[str, ...]) -> None:
    assert read(*lines) == ([], [])


GONE = "DETAIL: the postmaster ends this process, because another server process exited abnormally"


@pytest.mark.parametrize(("signal", "dies"), [(6, 0), (11, 0), (9, 2), (7, 1)])
def test_who_is_ended_since_another_crashed_did_not_die_for_memory(signal: int, dies: int) -> None:
    failures, _ = read(f"LOG:  server process (PID 4120) was terminated by signal {signal}: Sent", GONE)
    assert len(failures) == dies


def test_an_allocator_that_is_not_made_for_the_kernel_refuses_everything() -> None:
    refused = "memory allocation of 7 bytes failed"
    failures, reasons = read("<jemalloc>: Unsupported system page size", refused)
    assert not failures
    assert len(reasons) == 1
    assert read("<jemalloc>: Unsupported system flag", refused)[0]


BYTES_OF_AN_ARRAY = (
    "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 9.31 GiB for an array with shape (50000, 50000)"
)


@pytest.mark.parametrize(
    "line",
    [
        'If training stops with "RuntimeError: CUDA out of memory", halve the batch.',
        "Use it when a run ends in 'torch.OutOfMemoryError: CUDA out of memory' on small cards",
        "- fixed: an abort with std::bad_alloc when the list was empty",
        "* Fix MemoryError in the exporter",
        "4be11f0 handle std::bad_alloc in the exporter",
        "  ✓ gives up on 'JavaScript heap out of memory' (4 ms)",
        "ok 31 - prints MemoryError and ends",
        "--- FAIL: TestOOMBudget (0.01s)",
        "test arena::returns_out_of_memory ... ok",
        "[ RUN      ] Arena.ThrowsOutOfMemory",
        "VkResult: VK_ERROR_OUT_OF_POOL_MEMORY (16 sets, 16 in use)",
        "[W] [TRT] Tactic Device request: 5120MB Available: 3100MB. Device memory is insufficient to use tactic.",
        "Error: you have exceeded your GPU quota (120s requested, 20s left)",
        "ValueError: insufficient samples: 12 needed to allocate 4 folds, got 7",
        "FIXME: OOM with maps of more than 4 tiles",
        "    MemoryError: when the ring has no slot for the frame.",
        "cudaErrorMemoryAllocation = 2,",
        "* **CUDA out of memory**: lower `--tiles`.",
        "INSERT INTO notes VALUES (4, 'the host ran out of memory');",
        '{"text": "RuntimeError: CUDA out of memory. Tried to allocate 4.00 GiB", "label": "gpu"}',
    ],
)
def test_what_only_names_a_failure_is_none(line: str) -> None:
    assert read(line)[0] == []


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA out of memory",
        "run 4 stopped with RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "If this goes on, it dies. RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "- rank 3: terminate called after throwing an instance of 'std::bad_alloc'",
        "4be11f0: std::bad_alloc",
        "OOM with maps of more than 4 tiles",
        "    MemoryError: no slot for the frame",
        "ring.cu:40: cudaErrorMemoryAllocation (2): out of memory",
        "* **CUDA out of memory**",
        "INSERT failed: the host ran out of memory",
        '{"text": "RuntimeError: CUDA out of memory. Tried to allocate 4.00 GiB", "level": "error"}',
        f"ok, then: {BYTES_OF_AN_ARRAY}",
        f"* {BYTES_OF_AN_ARRAY}",
        "vkAllocateMemory: VK_ERROR_OUT_OF_DEVICE_MEMORY",
        "[E] Error Code 2: OutOfMemory (Requested size was 5368709120 bytes.)",
        "Error: GPU memory limit exceeded after 20s (8 GiB)",
        "Error: you have exceeded your GPU memory quota (24 GiB requested, 16 GiB left)",
    ],
)
def test_what_resembles_a_name_is_a_failure_all_the_same(line: str) -> None:
    assert read(line)[0]


ATTACHING = "NCCL WARN Error while attaching to shared memory segment /dev/shm/nccl-8Hk (size 9637888), error: {}"
THREAD = "could not start: pthread_create failed (EAGAIN)"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (("CUDA error: illegal memory access", "ERROR: could not allocate 96 bytes of device memory"), "beside it"),
        (("ERROR: CL_OUT_OF_RESOURCES", "ERROR: ILLEGAL READ OR WRITE TO A BUFFER"), "beside it"),
        ((ATTACHING.format("No such file or directory (2)"),), "is not there"),
        (("ERROR: uncorrectable ECC error encountered",), "never the program"),
        (("NVRM: Xid (PCI:0000:3b:00): 79",), "of the GPU or of the program"),
        ((THREAD,), "probably the limit"),
        (("sh: fork: retry: Resource temporarily unavailable",), "the limit on processes or threads was hit"),
    ],
)  # fmt: skip
def test_words_of_memory_without_a_lack_of_it_have_a_reason(lines: tuple[str, ...], words: str) -> None:
    failures, reasons = read(*lines)
    assert not failures
    assert any(words in why for why in reasons)


@pytest.mark.parametrize(
    "lines",
    [
        ("a check of the buffer failed", "ERROR: could not allocate 96 GiB of device memory"),
        ("a check of the buffer failed", "ERROR: could not allocate 3 GiB of device memory: CL_OUT_OF_RESOURCES"),
        (ATTACHING.format("No space left on device (28)"),),
    ],
)  # fmt: skip
def test_without_the_fault_they_are_a_failure(lines: tuple[str, ...]) -> None:
    assert read(*lines)[0]


FAILED_TRIAL = (
    "[W] Trial 6 failed with parameters: {'width': 512} because of the error: RuntimeError('CUDA out of memory')."
)


def test_a_search_goes_on_without_the_trial_that_did_not_fit() -> None:
    assert read(FAILED_TRIAL, "[I] Trial 7 finished with value: 0.8")[0] == []
    assert read(FAILED_TRIAL, "[I] study is saved")[0]
    assert read("[I] Trial 5 finished with value: 0.8", FAILED_TRIAL)[0]


@pytest.mark.parametrize("guess", ["(2) ray stop --force is called. ", "  (2) ray stop --force is called."])
def test_what_ray_guesses_ends_nobody_on_a_line_of_its_own(guess: str) -> None:
    died = "SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file."
    killed = "(1) The process is killed by SIGKILL by OOM killer due to high memory usage."
    assert read(died, killed, guess) == (["worker-death"], [])
    assert read("Worker exit detail: quiet", killed, guess) == ([], [])


@pytest.mark.parametrize(
    ("line", "failures", "quiet"),
    [
        ('ngx_slab_alloc() failed: no memory in limit_req zone "perip"', [], 1),
        ('could not allocate node in limit_req zone "perip"', [], 1),
        ("OpenBLAS: malloc failed in gemm_driver", ["host-allocation"], 0),
        ("sorter: realloc failed at grow_table", ["host-allocation"], 0),
        ("a malloc failed in the end", [], 0),
    ],
)
def test_calls_that_failed_and_zones_that_are_full(line: str, failures: list[str], quiet: int) -> None:
    found, reasons = read(line)
    assert (found, len(reasons)) == (failures, quiet)


def test_what_xla_counts_of_a_program_is_no_failure() -> None:
    counted = ("I0320 03:59:34.722540 855 deepsea_compiler_backend.cc:2163] Total hbm usage >= 260.14M:",
               "    reserved        128.00M", "    program           4.10M")  # fmt: skip
    assert read(*counted) == ([], [])
