"""What is said of a log that ends with an error which is none of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from oomdoctor import diagnose
from oomdoctor.report.text import rendered
from oomdoctor.report.words import message

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'


def ended(folder: Path, text: str) -> str | None:
    log = folder / "train.log"
    log.write_text(text, encoding="utf-8")
    error = diagnose(log).last_error
    return error.text if error is not None else None


@pytest.mark.parametrize(
    "line",
    [
        "ValueError: length 900 is more than 800",
        "my.package.BrokenThingError: no",
        "KeyboardInterruptException",
        "kernel.cu:40: void gather(...): Assertion `index < size` failed.",
        "Segmentation fault (core dumped)",
        "panic: runtime error: index out of range",
        "Fatal error: no such table",
        "Failed: reduce.cu:40 invalid argument",
        "Error executing job with overrides: [a=1]",
        "ncclUnhandledCudaError: Call to CUDA function failed.",
        "THCudaCheck FAIL file=/src/THC/THCSort.cu line=52 error=77 : an ille",
        "shard-manager: text_generation_launcher: Shard process was signaled to shutdown with signal 4 rank=0",
        "/src/llama/ggml/src/ggml-backend.cpp:912: pre-allocated tensor (q) in a buffer (CUDA0) that cannot run (CPY)",
        "C:\\w\\ggml\\src\\ggml.c:4011: GGML_ASSERT(rows == 3) failed",
        "2.11.340.002 E ggml_vulkan: device lost on Vulkan1",
        "srv update_slots: decode() failed: vk::Queue::submit: ErrorDeviceLost",
        "vkQueueSubmit failed: VK_ERROR_DEVICE_LOST",
        "*** An error occurred in MPI_Allreduce",
        "Exception Type: KeyError",
        "Fatal Python error: Aborted",
        "Fatal Python error: init_fs_encoding: failed to get the Python codec",
    ],
)
def test_the_error_at_the_end_is_quoted(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"step 1 loss 0.5\n{TRACE}{line}\n") == line


@pytest.mark.parametrize(
    "text",
    [
        "step 1 loss 0.5\nstep 2 loss 0.4\n",
        "UserWarning: the value is deprecated\nstep 2\n",
        f"{TRACE}ValueError: no\n" + "".join(f"step {step} loss 0.4\n" for step in range(90)),
        "errors are counted: Errors: 0\nstep 2\n",
        "assert all(sizes)\nstep 3\n",
        "THCudaCheck is on\nstep 3\n",
        "src/server.cpp:88: listening on port 9000\n",
        "llama-server: ggml.c was built with 4 threads\nsrv: ready\n",
        "a device lost its name on Vulkan0\n",
        "*** An error occurred in the last run and was skipped\n",
        "Exception Type: MemoryError\n",
        "Exception Type: FutureWarning\n",
        "text_generation_launcher: Shard process was signaled to shutdown with signal 15 rank=0\n",
        "[launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'fit.py', '--local_rank=0', '--confi\n",
        # told as caught
        "2024-02-11 20:12:52,350 INFO [search.py:73] Caught exception:\nCUDA error: out of memory\n",
    ],
)
def test_what_is_no_error_or_was_survived_is_not(tmp_path: Path, text: str) -> None:
    assert ended(tmp_path, text) is None


@pytest.mark.parametrize(
    "behind",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1.",
        "RuntimeError: [1] is setting up NCCL communicator, but got Connection reset by peer: ncclRemoteError",
    ],
)
def test_an_error_that_is_passed_on_is_not_the_last(tmp_path: Path, behind: str) -> None:
    assert ended(tmp_path, f"{TRACE}ValueError: bad label\n{TRACE}{behind}\n") == "ValueError: bad label"


def test_the_last_of_its_own_errors_is_the_one(tmp_path: Path) -> None:
    text = f"Error executing job with overrides: [a=1]\n{TRACE}KeyError: 'x'\n{TRACE}ValueError: bad label\n"
    assert ended(tmp_path, text) == "ValueError: bad label"


def test_what_sends_the_reader_up_gives_way_to_what_stands_there(tmp_path: Path) -> None:
    cause = "RuntimeError: [/pytorch/gloo/tcp/pair.cc:61] Timed out waiting 900000ms for recv operation to complete"
    last = "RuntimeError: Engine core initialization failed. See root cause above."
    assert ended(tmp_path, f"{TRACE}{cause}\n{TRACE}{last}\n") == cause
    assert ended(tmp_path, f"{TRACE}{last}\n") == last
    own = "RuntimeError: the cause stands above the limit: see the manual"
    assert ended(tmp_path, f"{TRACE}{cause}\n{TRACE}{own}\n") == own


def test_what_an_exception_says_stands_below_its_type(tmp_path: Path) -> None:
    head = "Exception Type: KeyError\n"
    assert (
        ended(tmp_path, f"{head}Exception Value: 'beta'\nTraceback:\n")
        == "Exception Type: KeyError Exception Value: 'beta'"
    )
    assert ended(tmp_path, f"{head}step 3\nException Value: 'beta'\n") == "Exception Type: KeyError"


def test_what_is_only_announced_is_quoted_where_nothing_else_is(tmp_path: Path) -> None:
    line = "Error executing job with overrides: [a=1]"
    assert ended(tmp_path, f"step 1\n{line}\n") == line


TWICE = "node-4:551:551 [1] init.cc:1012 NCCL WARN Duplicate GPU detected : rank 3 and rank 1 both on CUDA device c1000"
BAD_CALL = "my.errors.CommError: NCCL error in: /src/comm.cpp:77, invalid usage (run with NCCL_DEBUG=WARN for details)"


@pytest.mark.parametrize("text", [f"{TWICE}\n{TRACE}{BAD_CALL}\n", f"step 1\n{BAD_CALL}\n{TRACE}{TWICE}\n"])
def test_what_nccl_says_of_a_bad_call_tells_more_than_the_error(tmp_path: Path, text: str) -> None:
    assert ended(tmp_path, text) == TWICE


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        (f"{TWICE}\n{TRACE}ValueError: bad label\n", "ValueError: bad label"),  # of another error it says nothing
        (f"node-4:551:551 [1] NCCL WARN Duplicate ranks were given\n{TRACE}{BAD_CALL}\n", BAD_CALL),
        (f"{TRACE}{BAD_CALL}\n", BAD_CALL),
    ],
)
def test_other_errors_speak_for_themselves(tmp_path: Path, text: str, quoted: str) -> None:
    assert ended(tmp_path, text) == quoted


def test_a_crash_names_its_process(tmp_path: Path) -> None:
    crash = "Fatal Python error: Aborted"
    assert ended(tmp_path, f"(Learner pid=812, ip=10.0.0.4) {crash}\nstep 3\n") == f"Learner (PID 812): {crash}"
    assert ended(tmp_path, "(Learner pid=812, ip=10.0.0.4) ValueError: no\n") == "ValueError: no"


def test_what_was_said_before_it_aborted_tells_more(tmp_path: Path) -> None:
    assert ended(tmp_path, f"{TRACE}ValueError: no\nFatal Python error: Aborted\n") == "ValueError: no"
    assert ended(tmp_path, "KeyError: 'x'\nFatal Python error: Segmentation fault\n") != "KeyError: 'x'"


NINJA = (
    "subprocess.CalledProcessError: Command '['ninja', '-v', '-C', '/home/ann/ops', '-f', 'build.ninja']' returned "
    "non-zero exit status 1."
)


@pytest.mark.parametrize(
    "line",
    [
        '/src/ops/scan.cu(88): error: identifier "half9" is undefined',
        "scan.cpp:12:7: fatal error: torch/all.h: No such file or directory",
        "nvcc fatal   : Unsupported gpu architecture 'compute_120'",
        "/usr/bin/ld: cannot find -lcuda",
        "scan.o: in function f: undefined reference to `scan_rows'",
        "/bin/sh: 1: nvcc: not found",
    ],
)
def test_what_the_compiler_says_tells_more_than_the_build(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"{line}\nninja: build stopped.\n{TRACE}{NINJA}\n") == line
    assert ended(tmp_path, f"{line}\n{TRACE}ValueError: no\n") != line


@pytest.mark.parametrize(
    "line",
    ["eval.py(88): error rate: 0.2", "[3/9] nvcc -c scan.cu -o scan.o", "sh: 1 file was not found", "warning: x"],
)
def test_other_lines_are_no_compilers(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"{line}\n{TRACE}{NINJA}\n") == NINJA


def test_a_line_of_source_is_no_error(tmp_path: Path) -> None:
    text = f'{TRACE}    raise CommError(f"NCCL error: {{reason}}")\n'
    assert ended(tmp_path, text) is None
    assert ended(tmp_path, text + "CommError: NCCL error: bad rank\n") == "CommError: NCCL error: bad rank"


OUTER = "ray.exceptions.RayTaskError(KeyError): ray::Driver.run() (pid=31, ip=10.1.0.2)"
INNER = "ray.exceptions.RayTaskError(KeyError): ray::Worker.setup() (pid=47, ip=10.1.0.3)"
FRAME = '  File "jobs.py", line 8, in run\n    worker.setup()\n'


def test_the_innermost_of_rays_calls_tells_the_class_of_an_error_that_is_cut_off(tmp_path: Path) -> None:
    assert ended(tmp_path, f"{OUTER}\n{FRAME}{INNER}\n{FRAME}") == INNER
    assert ended(tmp_path, f"Error executing job with overrides: [a=1]\n{OUTER}\n{FRAME}") == OUTER


def test_what_the_call_itself_printed_tells_more(tmp_path: Path) -> None:
    assert ended(tmp_path, f"{OUTER}\n{FRAME}{INNER}\n{FRAME}KeyError: 'reward'\n") == "KeyError: 'reward'"
    assert ended(tmp_path, f"KeyError: 'reward'\n{OUTER}\n{FRAME}") == "KeyError: 'reward'"


@pytest.mark.parametrize(
    "raised", ["RuntimeError", "AcceleratorError", "DistBackendError", "RayActorError", "EngineDeadError", "Exception"]
)
def test_a_class_that_memory_raises_too_is_not_called_another_error(tmp_path: Path, raised: str) -> None:
    assert ended(tmp_path, f"step 1\n{OUTER.replace('KeyError', raised)}\n{FRAME}") is None


def test_a_line_of_an_errors_level_that_nothing_follows_is_quoted(tmp_path: Path) -> None:
    line = "ERROR 07-21 14:49:08 [factory.py:62] bfloat16 is not supported on this GPU"
    assert "bfloat16 is not supported" in str(ended(tmp_path, f"{line}\n{TRACE}"))
    assert ended(tmp_path, f"{line}\nINFO 07-21 14:49:09 [factory.py:70] float16 is used\n") is None


@pytest.mark.parametrize(
    "line",
    [
        "free(): double free detected in tcache 2",
        "malloc(): corrupted top size",
        "double free or corruption (!prev)",
        "*** stack smashing detected ***: terminated",
    ],
)
def test_a_corrupted_heap_is_called_so(tmp_path: Path, line: str) -> None:
    text = f"step 1\n{line}\nAborted (core dumped)\n"
    assert ended(tmp_path, text) == line
    assert any("corrupted the heap" in one.why for one in diagnose(tmp_path / "train.log").lookalikes)


@pytest.mark.parametrize("line", ["double free_energy = 0.0;", "free(): 12 blocks were given back"])
def test_other_frees_are_none(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"step 1\n{line}\n") is None


def test_a_memory_failure_has_its_own_report(tmp_path: Path) -> None:
    refused = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    assert ended(tmp_path, f"{TRACE}{refused}ValueError: no\n") is None


def test_the_text_names_the_line(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{TRACE}ValueError: length 900 is more than 800\n", encoding="utf-8")
    text = rendered(diagnose(log), width=100, color=False, unicode=False, verbose=False)
    assert "It failed with another error: train.log:4: ValueError: length 900 is more than 800\n" in text


KERNEL = (
    "/build/src/aten/native/cuda/{}: void gather(float *, long *) [with T = float]: block: [3,0,0], thread: [1,0,0] "
)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (KERNEL.format("Pick.cu:40") + "Assertion `i < n` failed.", "Pick.cu:40: Assertion `i < n` failed."),
        ("C:\\b\\Pick.cu:7: block: [0,0,0] Assertion `i >= 0` failed.", "Pick.cu:7: Assertion `i >= 0` failed."),
        ("python: heap.c:2379: sysmalloc: Assertion `top == 0' failed.", "python: heap.c:2379: sysmalloc: Assertion"),
        ("AssertionError: Assertion `i < n` failed", "AssertionError: Assertion `i < n` failed"),
        ("/srv/run.py:12: ValueError: no Assertion here", "/srv/run.py:12: ValueError: no Assertion here"),
        ("ValueError: 3 is not in range", "ValueError: 3 is not in range"),
    ],
)
def test_a_failed_check_stands_without_the_signature_before_it(line: str, shown: str) -> None:
    assert message(line).startswith(shown)


GRAPHS = "Exception: Capture cuda graph failed: Triton Error [CUDA]: misaligned address\nPossible solutions:\n1. x\n"


def test_the_only_line_that_is_called_no_memory_failure_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(f"python -m sglang.launch_server --model-path a/b\n{GRAPHS}", encoding="utf-8")
    assert "misaligned address" in rendered(diagnose(log), width=100, color=False, unicode=False, verbose=False)
    log.write_text(f"step 1\n{GRAPHS}{TRACE}ValueError: no\n", encoding="utf-8")
    text = rendered(diagnose(log), width=100, color=False, unicode=False, verbose=False)
    assert "ValueError: no" in text
    assert "misaligned address" not in text


STATUS = "RuntimeError: stage 2 exited with non-zero status 3"
FILE = "Log file: /srv/runs/blue/stage2/kiln.log"


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (STATUS, FILE),
        (STATUS, "Log output: kiln/out/stage2.txt"),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
            "  error_file: /tmp/kiln_a1/0/error.json",
        ),
    ],
)
def test_the_status_of_a_child_goes_with_the_file_that_holds_its_output(tmp_path: Path, line: str, named: str) -> None:
    assert ended(tmp_path, f"{TRACE}{line}\n\n{named}\n") == f"{line} ... {named.strip()}"


@pytest.mark.parametrize(
    "text",
    [
        f"{FILE}\n{TRACE}{STATUS}\n",  # of something that ran before
        f"{TRACE}{STATUS}\nSee the log file of stage 2\n",
        f"{TRACE}{STATUS}\nerror_file: <N/A>\n",
        f"{TRACE}{STATUS}\nLog file: /srv/runs/blue/stage2/\n",
        f"{TRACE}{STATUS}\nCatalogue: /srv/runs/blue/names.txt\n",
    ],
)
def test_no_other_file_goes_with_it(tmp_path: Path, text: str) -> None:
    assert ended(tmp_path, text) == STATUS


def test_an_error_of_its_own_needs_no_other_file(tmp_path: Path) -> None:
    assert ended(tmp_path, f"{TRACE}ValueError: no such glaze\n{FILE}\n") == "ValueError: no such glaze"


@pytest.mark.parametrize(
    ("error", "above", "told"),
    [
        (
            "RuntimeError: NCCL Error 1: unhandled cuda error",
            "[0] alloc.h:98 NCCL WARN Cuda failure 1 'bad value'",
            True,
        ),
        ("RuntimeError: NCCL error 2: unhandled system error", "NCCL WARN Call to bind failed : in use", True),
        ("ncclUnhandledCudaError: a call failed.", "node4:7:9 [1] p2p.cc:40 NCCL WARN Cuda failure 'bad value'", True),
        ("RuntimeError: NCCL Error 1: unhandled cuda error", "[0] NCCL WARN Could not find a library", False),
        ("RuntimeError: NCCL Error 1: unhandled cuda error", "[0] NCCL INFO Cuda failure is not seen", False),
        ("ValueError: 3 is not 4", "[0] alloc.h:98 NCCL WARN Cuda failure 1 'bad value'", False),
    ],
)
def test_the_call_that_failed_is_shown_for_an_error_that_does_not_name_it(
    tmp_path: Path, error: str, above: str, told: bool
) -> None:
    assert ended(tmp_path, f"{above}\n{TRACE}{error}\n") == (above if told else error)


FAULT = "[{}ms] [Error] [solver] CUDA error: an illegal memory access was encountered: ../src/{}.cpp: {}"


def test_of_an_error_that_is_repeated_the_first_is_quoted(tmp_path: Path) -> None:
    lines = [
        FAULT.format(20, "Cloth", 489),
        "[21ms] [Error] [solver] no memory of size 12",
        FAULT.format(22, "Rope", 74),
    ]
    assert ended(tmp_path, "\n".join(lines) + "\n") == lines[0]


def test_another_error_before_the_last_is_not_it(tmp_path: Path) -> None:
    assert ended(tmp_path, f"{TRACE}ValueError: no\n{TRACE}KeyError: 'x'\n") == "KeyError: 'x'"


@pytest.mark.parametrize("code", [" exits with return code = 1", ""])
def test_the_command_of_a_child_is_an_error_only_with_its_status(tmp_path: Path, code: str) -> None:
    line = (
        f"[2026-01-09 11:20:02,118] [ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'fit.py']{code}"
    )
    assert bool(ended(tmp_path, f"step 9\n{line}\nTraceback (most recent call last):\n")) is bool(code)


ENDS = [
    "3:M 08 Jan 2026 11:22:33.004 # Fatal: can't update cluster config file.",
    "3:M 08 Jan 2026 11:22:33.004 # Failed listening on port 7001 (tcp), aborting.",
    '2026/01/08 11:22:33 [emerg] 9#9: no "events" section in configuration',
    "26/01/08 11:22:33 FATAL Depot: the shelf is taken",
    "F0000 00:00:1767870153.400100    77 loom.cc:88] Check failed: warp == weft (3 vs. 4)",
    "Check failed: warp == weft (3 vs. 4)",
    'Exception in thread "weaver" org.loom.BrokenThreadException: at 12',
    "Caused by: org.loom.BrokenThreadException: at 12",
    "Error: Cannot find module './loom'",
    "forrtl: severe (29): file not found, unit 7, file /srv/loom.in",
    "Fortran runtime error: Index '9' of dimension 1 of array 'warp' above upper bound of 8",
]


@pytest.mark.parametrize("line", ENDS)
@pytest.mark.parametrize("behind", ["", "Aborted (core dumped)\n"])
def test_the_fatal_line_of_any_program_is_quoted(tmp_path: Path, line: str, behind: str) -> None:
    text = str(ended(tmp_path, f"step 1 loss 0.5\n{line}\n{behind}"))
    assert line.endswith(text) or text == line


@pytest.mark.parametrize(
    "line",
    [
        "3:M 08 Jan 2026 11:22:33.004 * Fatal errors 0",
        "3:M 08 Jan 2026 11:22:33.004 # WARNING: the log file is large",
        "26/01/08 11:22:33 INFO Depot: FATAL=0 ERROR=2",
        "INFO non-fatal: no cache",
        "Error: 0.0312",
        "Error: nan",
        "Check failed 3 times, trying again",
        "the thread 'main' panicked once before",
        "[fatalities] 0",
        "Caused by: the weather",
    ],
)
def test_a_word_of_an_end_alone_is_none(tmp_path: Path, line: str) -> None:
    assert ended(tmp_path, f"step 1 loss 0.5\n{line}\n") is None


def test_a_fatal_line_of_glog_stands_with_its_place(tmp_path: Path) -> None:
    log = "I0108 11:22:33.100000  9 loom.cpp:10] start\nF0108 11:22:33.200000  9 loom.cpp:57] no thread of colour 3\n"
    assert (
        ended(tmp_path, f"{log}*** Check failure stack trace: ***\nAborted\n") == "loom.cpp:57: no thread of colour 3"
    )


def test_the_words_of_a_panic_stand_behind_its_head(tmp_path: Path) -> None:
    head, words = "thread 'main' panicked at src/loom.rs:4:5:", "the warp is 3 and the weft is 4"
    assert ended(tmp_path, f"{head}\n{words}\nnote: run with a backtrace\n") == f"{head} {words}"


def test_what_cpp_could_not_catch_is_quoted_where_nobody_raised_it_before(tmp_path: Path) -> None:
    uncaught = "terminate called after throwing an instance of 'loom::Error'\n  what():  the thread broke\nAborted\n"
    assert "the thread broke" in str(ended(tmp_path, f"step 1\n{uncaught}"))
    assert ended(tmp_path, f"{TRACE}loom.LoomError: the thread broke\n{uncaught}") == "loom.LoomError: the thread broke"
    assert ended(tmp_path, f"{TRACE}ValueError: no colour\n{uncaught}") == "ValueError: no colour"


SEGFAULT = "!!!!!!! Segfault encountered !!!!!!!"


@pytest.mark.parametrize(
    ("first", "behind", "told"),
    [
        (SEGFAULT, "loom.LoomError: a weaver is gone", True),
        ("run.sh: line 4: 71 Segmentation fault (core dumped) ./weave", "ValueError: no cloth", True),
        ("!!!!!!! TVM encountered a Segfault !!!!!!!", "loom.LoomError: a weaver is gone", True),
        (SEGFAULT, "ERROR [async_llm.py:1] loom.exceptions.EngineDeadError", True),
        ("loom.LoomError: a thread broke", SEGFAULT, False),  # the last of its own
        ("ValueError: no colour", "KeyError: 'x'", False),
    ],
)
def test_what_follows_a_crash_is_not_the_error(tmp_path: Path, first: str, behind: str, told: bool) -> None:
    assert ended(tmp_path, f"step 1\n{first}\n{behind}\n") == (first if told else behind)


def test_a_dead_engine_is_the_error_where_nothing_else_is(tmp_path: Path) -> None:
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue."
    assert ended(tmp_path, f"step 1\n{dead}\n") == dead
    assert ended(tmp_path, f"{TRACE}ValueError: no colour\n{dead}\n") == "ValueError: no colour"


OF_RAY = "(Loom pid=71) [2026-01-08 11:22:33,004 E 71 71] logging.cc:{}: {}"
UNHANDLED = OF_RAY.format(113, "Unhandled exception: N4loom5ErrorE. what(): the thread broke")


def test_an_exception_that_ray_found_unhandled_is_the_error_and_not_the_head_of_its_stack(tmp_path: Path) -> None:
    stack = OF_RAY.format(120, "Stack trace: ")
    assert "what(): the thread broke" in str(ended(tmp_path, f"step 1\n{UNHANDLED}\n{stack}\n"))
    assert ended(tmp_path, f"step 1\n{stack}\n") is None
    assert "E. what" not in str(ended(tmp_path, f"{TRACE}ValueError: no colour\n{UNHANDLED}\n{stack}\n"))


@pytest.mark.parametrize(
    "end", ["[ERROR] [Loom] Aborting", "ERROR loom: Shutting down.", "[ERROR] [Loom] Stack trace:"]
)
def test_a_line_that_only_says_that_it_ends_gives_way_to_the_one_before(tmp_path: Path, end: str) -> None:
    assert ended(tmp_path, f"step 1\n[ERROR] [Loom] no thread of colour 3\n{end}\n") == (
        "[ERROR] [Loom] no thread of colour 3"
    )
    assert ended(tmp_path, f"step 1\n{end}\n") is None


def test_a_record_of_an_error_elsewhere_is_none_of_this_log(tmp_path: Path) -> None:
    assert ended(tmp_path, 'step 1\n{"severity":"ERROR","label":"loom","message":"a thread broke"}\n') is None
