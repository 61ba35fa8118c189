"""No more swap space, compilers and virtual machines that find no memory: who says so, and what sounds like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

NO_SWAP = (
    ("kernel: low swap: failed to create swapfile", "macOS"),
    ("2031-07-06 16:47:11.97-1000 kernel: low swap: triggering no paging space action", "macOS"),
    ("kernel: vnode_setsize for swap files failed: 28", "macOS"),
    ("kernel[0]: (default pager): [KERNEL]: no space in available paging segments", "macOS"),
    ("kernel: swap_pager: out of swap space", "FreeBSD"),
)
SWAPPING = (
    "kernel: low swap: 3 swapfiles in use",
    "kernel: swap_pager_getswapspace(16): failed",
    "swap_pager: I/O error - pagein failed; blkno 7",
)
COMPILERS = (
    "c1xx : fatal error C1060: compiler is out of heap space [x.vcxproj]",
    "src\\a.cpp(31): fatal error C1002: compiler is out of heap space in pass 2",
    "LINK : fatal error LNK1102: out of memory",
    "nvcc fatal   : Memory allocation failure",
    "/usr/bin/ld: final link failed: memory exhausted",
    "a.f90(1): catastrophic error: out of memory",
    "clang++: error: unable to execute command\nLLVM ERROR: out of memory",
)
OTHER_ERRORS = (
    "c1xx : fatal error C1083: Cannot open include file: 'a.h'",
    "LINK : fatal error LNK1104: cannot open file 'a.lib'",
    "catastrophic error: could not open source file",
)


@pytest.mark.parametrize(("text", "system"), NO_SWAP)
def test_no_more_swap_is_a_full_machine(text: str, system: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert report["diagnoses"][0]["cause"] == "host-memory-exhausted"
    assert report["incidents"][0]["headline"].startswith(f"{system} found no more swap space")


def test_who_was_killed_for_it_says_more(tmp_path: Path) -> None:
    killed = "kernel: low swap: killing largest compressed process with pid 4 (sim) and size 90000 MB"
    report = body(tmp_path, f"{NO_SWAP[0][0]}\n{killed}")
    assert [event["role"] for event in report["events"]] == ["confirmation", "root"]
    assert "sim" in report["incidents"][0]["headline"]


@pytest.mark.parametrize("text", [*SWAPPING, *OTHER_ERRORS])
def test_what_only_sounds_like_it_is_quiet(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", COMPILERS)
def test_a_compiler_without_memory_is_not_said_to_be_killed(text: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["diagnoses"][0]["cause"] == "build-parallelism"
    assert "killed" not in report["incidents"][0]["headline"]
    assert "ran out of memory" in report["diagnoses"][0]["explanation"]


def test_llvm_within_another_program_is_no_build(tmp_path: Path) -> None:
    report = body(tmp_path, "[gbm] [Info] compiling the kernel with 32 bins\nLLVM ERROR: out of memory")
    assert report["diagnoses"][0]["cause"] == "host-memory-exhausted"


# Gradle ends its daemon behind the build: a failure is what a failed build makes it
FAILED = "\n\nFAILURE: Build failed with an exception."
RESERVED = (
    "java.lang.OutOfMemoryError: Cannot reserve 8388608 bytes of direct buffer memory "
    "(allocated: 125829120, limit: 134217728)"
)
OF_NETTY = (
    "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 4194304 byte(s) of direct memory "
    "(used: 62914560, max: 67108864)"
)
GRADLE = (
    "The Daemon will expire after the build after running out of JVM Metaspace.\n"
    "The currently configured max heap space is '3 GiB' and the configured max metaspace is '512 MiB'."
)


@pytest.mark.parametrize(
    ("text", "headline"),
    [
        (GRADLE + FAILED, "The Java metaspace is full at 512 MiB"),
        ("Expiring Daemon because JVM Metaspace is exhausted" + FAILED, "The Java metaspace is full"),
        ("java.lang.OutOfMemoryError: Metaspace", "The Java metaspace is full"),
        ("java.lang.OutOfMemoryError: Java heap space", "The Java heap is full"),
        ("java.lang.OutOfMemoryError: Direct buffer memory", "The Java direct buffer memory is full"),
        (RESERVED, "The Java direct buffer memory is full at 128 MiB"),
        (OF_NETTY, "The Java direct buffer memory is full at 64 MiB"),
    ],
)
def test_what_java_keeps_beside_its_heap_is_not_its_heap(text: str, headline: str, tmp_path: Path) -> None:
    report = body(tmp_path, text)
    assert report["diagnoses"][0]["cause"] == "allocator-cap"
    assert report["incidents"][0]["headline"] == headline


def test_a_limit_alone_is_no_failure(tmp_path: Path) -> None:
    assert body(tmp_path, GRADLE.partition("\n")[2])["verdict"] == "no-oom"


def test_postgresqls_segments_are_its_own(tmp_path: Path) -> None:
    line = 'ERROR:  could not resize shared memory segment "/PostgreSQL.77" to 8388608 bytes: No space left on device'
    report = body(
        tmp_path, f"2031-10-26 20:20:40.172 UTC [54] {line}\n2031-10-26 20:20:40.173 UTC [54] STATEMENT:  SELECT"
    )
    assert report["diagnoses"][0]["stage"] == "serving"
    assert report["incidents"][0]["headline"] == "A segment of 8 MiB (PostgreSQL) does not fit into /dev/shm"
    assert report["events"][0]["usage"]["tried_bytes"] == 8 * 2**20


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("c++: fatal error: Killed signal terminated program cc1plus", True),
        ("c++: fatal error: Morto signal terminated program lto1", True),
        ("g++: fatal error: Getötet signal terminated program cc1plus", True),
        ("g++: fatal error: signal terminated program cc1plus", True),
        ("g++: fatal error: Segmentation fault signal terminated program cc1plus", False),
        ("g++: fatal error: Abgebrochen signal terminated program cc1plus", False),
        ("g++: fatal error: Terminated signal terminated program cc1plus", False),
    ],
)
def test_the_signal_stands_in_the_users_language(line: str, is_read: bool, tmp_path: Path) -> None:
    assert (body(tmp_path, f"{line}\ncompilation terminated.\n")["verdict"] == "oom") is is_read


@pytest.mark.parametrize(
    ("line", "is_read"),
    [
        ("allocate of <6> failed.", True),
        ("allocate of t12 failed.", True),
        ("the allocate of 6 failed. retrying", False),
        ("allocate of a licence failed.", False),
    ],
)
def test_what_the_cpu_of_xla_says_of_a_buffer(line: str, is_read: bool, tmp_path: Path) -> None:
    report = body(tmp_path, f"step 3\n{line}\nRuntimeError: INTERNAL: YNNPACK operation failed: error\n")
    assert (report["verdict"] == "oom") is is_read


@pytest.mark.parametrize(
    ("line", "is_failure"),
    [
        ("awk: run time error: out of memory", True),
        ("grep: memory exhausted", True),
        ("$ grep -i 'out of memory' job.log", False),
        ("awk '/out of memory/ {n++}' job.log", False),
    ],
)
def test_a_tool_that_ran_out_is_no_search_for_the_words(line: str, is_failure: bool, tmp_path: Path) -> None:
    assert (body(tmp_path, f"{line}\nexit code: 2\n")["verdict"] == "oom") is is_failure
