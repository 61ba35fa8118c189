"""A heap that the system refuses to Java is none that is full; a program of 32 bits meets a limit of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_logs import crash_of
from remedy_logs import advise
from reports import body

from oomdoctor.signs import address_space, heaps

RESERVED = "Error occurred during initialization of VM\nCould not reserve enough space for {size}object heap\n"
REFUSED = (
    "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x0000000740000000, {size}, 0) failed; "
    "error='Cannot allocate memory' (errno=12)\n"
)
MAPPED = "# Native memory allocation (mmap) failed to map {size} bytes for committing reserved memory.\n"
OF_THE_MACHINE = "# Native memory allocation (malloc) failed to allocate {size} bytes for AllocateHeap\n"
FULL = 'Exception in thread "main" java.lang.OutOfMemoryError: Java heap space\n'
GIBS = 6 << 30


@pytest.mark.parametrize(
    ("log", "cause", "first"),
    [
        (RESERVED.format(size="6291456KB "), "address-space-limit", "java -Xms3072m -Xmx3072m"),
        (RESERVED.format(size=""), "address-space-limit", None),
        (REFUSED.format(size=GIBS), "address-space-limit", "java -Xms3072m -Xmx3072m"),
        (MAPPED.format(size=GIBS), "host-memory-exhausted", "java -Xms3072m -Xmx3072m"),
    ],
)
def test_half_of_the_heap_that_was_refused(tmp_path: Path, log: str, cause: str, first: str | None) -> None:
    best = body(tmp_path, log)["diagnoses"][0]
    assert best["cause"] == cause
    assert best["headline"].startswith("Java found no memory for its heap")
    assert (best["remedies"][0]["knob"], best["remedies"][0]["snippet"]) == ("smaller-buffers", first)


@pytest.mark.parametrize(
    "log",
    [
        REFUSED.format(size=1 << 20),  # a stack, or a step of growth
        OF_THE_MACHINE.format(size=GIBS),
        FULL,
        "MemoryError: Unable to allocate 6.00 GiB for an array with shape (805306368,) and data type float64\n",
    ],
)
def test_what_is_no_heap_that_was_refused(log: str) -> None:
    assert heaps.refused_heap(crash_of(log)) is None


def test_a_heap_too_small_to_halve_has_no_value() -> None:
    remedy = advise(REFUSED.format(size=100 << 20), "smaller-buffers", cause="address-space-limit")[0][
        "smaller-buffers"
    ]
    assert (remedy.snippet, remedy.suggested) == (None, None)


NUMPY = "MemoryError: Unable to allocate 1.20 GiB for an array with shape (161061273,) and data type float64\n"
FRAME = '  File "{folder}/lib/site-packages/numpy/core/numeric.py", line 9, in zeros\n    a = empty(shape)\n'


@pytest.mark.parametrize(
    ("before", "is_seen"),
    [
        (FRAME.format(folder="C:/Users/me/Python37-32"), True),
        (FRAME.format(folder="C:/Program Files (x86)/Python37"), True),
        (FRAME.format(folder="/opt/lib.linux-i686-3.7"), True),
        ("Python 3.7.9 (tags/v3.7.9) [MSC v.1900 32 bit (Intel)] on win32\n", True),
        (FRAME.format(folder="/home/pi/lib.linux-armv7l-3.7"), True),
        (FRAME.format(folder="C:/Users/me/Python37"), False),
        (FRAME.format(folder="C:/Program Files/Python37"), False),
        ("Python 3.7.9 (tags/v3.7.9) [MSC v.1900 64 bit (AMD64)] on win32\n", False),
        ("using 32-bit floats\n", False),
        ("resumed from runs/checkpoint-386/state.pt\n", False),
        ("$ geth-windows-386-1.6.5/geth --cache=1024\n", True),
        ("compiled with C:/Program Files (x86)/Microsoft Visual Studio/cl.exe\n", False),
        (FRAME.format(folder="/opt/x86_64-linux"), False),
    ],
)
def test_a_program_of_32_bits(before: str, is_seen: bool) -> None:
    log = f"Traceback (most recent call last):\n{before}{NUMPY}" if "File" in before else f"{before}{NUMPY}"
    assert (address_space.the_program_is_of_32_bits(crash_of(log)) is not None) is is_seen
    chosen = advise(log, "more-address-space", cause="address-space-limit")[0]
    assert ("64 bits" in chosen["more-address-space"].action if chosen else False) is is_seen
