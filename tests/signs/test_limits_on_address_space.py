"""A refused allocation names a limit only where the log shows one; else the machine may simply have been full."""

from __future__ import annotations

from pathlib import Path

import pytest
from reports import body

FRAME = 'Traceback (most recent call last):\n  File "{}", line 7, in build\n    grid = np.zeros(shape)\n'
NUMPY = "numpy.core._exceptions.MemoryError: Unable to allocate 640. MiB for an array with shape (640, 512, 256)"

OF_NOTHING_KNOWN = (
    FRAME.format("/srv/app/grid.py") + NUMPY,
    "fatal error: runtime: out of memory\n\nruntime stack:\nruntime.throw(0x7e6913, 0x16)",
    (
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you "
        "tried to allocate 402653184 bytes. Error code 12 (Cannot allocate memory)"
    ),
)
OF_A_LIMIT = (
    FRAME.format(r"C:\work\grid.py") + NUMPY,
    "sh: fork: Cannot allocate memory",
    "pool.rb:14: mmap: Cannot allocate memory (os error 12)",
    "JIT session error: Cannot allocate memory",
)


@pytest.mark.parametrize("text", OF_NOTHING_KNOWN)
def test_a_refusal_alone_names_no_limit(text: str, tmp_path: Path) -> None:
    causes = [one["cause"] for one in body(tmp_path, text)["diagnoses"]]
    assert causes[0] == "host-memory-exhausted"
    assert "address-space-limit" in causes[1:]


@pytest.mark.parametrize("text", OF_A_LIMIT)
def test_a_sign_of_a_limit_does(text: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == "address-space-limit"


def test_what_r_is_refused_is_data(tmp_path: Path) -> None:
    report = body(tmp_path, "Error: cannot allocate vector of size 12.5 Gb\nExecution halted")
    assert report["diagnoses"][0]["cause"] == "dataset-in-ram"
    assert report["events"][0]["usage"]["tried_bytes"] == 25 * 2**29


IN_OTHER_WORDS = "OSError: Can't write the grid (memory allocation failed for tile)"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("+ ulimit -v 1400000\n" + IN_OTHER_WORDS, "address-space-limit"),
        (IN_OTHER_WORDS, "host-memory-exhausted"),
        ("+ ulimit -n 4096\n" + IN_OTHER_WORDS, "host-memory-exhausted"),
    ],
)
def test_a_limit_beside_a_refusal_in_any_words(text: str, cause: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause


def test_at_a_limit_what_the_job_states_comes_first(tmp_path: Path) -> None:
    started = "+ ulimit -v 1400000\n+ python fold.py --batch-size 64\n"
    report = body(tmp_path, started + "Traceback (most recent call last):\nMemoryError")
    knobs = [one["knob"] for one in report["diagnoses"][0]["remedies"]]
    assert knobs[0] != "more-address-space"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("fatal: could not map 8 GiB, is there a limit on virtual memory?", "address-space-limit"),
        ("ERROR: failed to reserve 64 GiB of host memory: check the virtual memory limit", "address-space-limit"),
        ("ERROR: failed to reserve 64 GiB of host memory: check the memory limit", "host-memory-exhausted"),
        ("ERROR: failed to reserve 64 GiB of host memory; 2 GiB of address space in use", "host-memory-exhausted"),
    ],
)
def test_a_limit_that_the_message_names(text: str, cause: str, tmp_path: Path) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["cause"] == cause


REFUSED = FRAME.format("/srv/app/grid.py") + NUMPY


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("2 workers, RLIMIT_AS unlimited", "host-memory-exhausted"),
        ("RLIMIT_AS is set for 2 workers", "host-memory-exhausted"),
        ("RLIMIT_NOFILE 4096, 2 workers", "host-memory-exhausted"),
        ("2 workers, RLIMIT_AS 900 MiB each", "address-space-limit"),
        ("RLIMIT_AS set to 1.5 GiB", "address-space-limit"),
        ("RLIMIT_AS=900MiB", "address-space-limit"),
    ],
)
def test_a_limit_that_the_program_has_set_itself(line: str, cause: str, tmp_path: Path) -> None:
    started = "+ python grid.py --workers 2 --dtype float64\n"
    report = body(tmp_path, f"{started}{line}\n{REFUSED}")["diagnoses"][0]
    assert report["cause"] == cause
    if cause == "address-space-limit":
        # each process has it for itself: fewer of them is no way out
        assert [one["knob"] for one in report["remedies"][:2]] == ["narrow-dtypes", "more-address-space"]
