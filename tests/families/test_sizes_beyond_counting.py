"""Sizes that are refused for themselves: lengths that nothing counts, requests that no machine has; each beside sizes
that are refused for another reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

FRAME = 'Traceback (most recent call last):\n  File "grid.py", line 12, in <module>\n    {}\n{}'
ARRAY = "_ArrayMemoryError: Unable to allocate {} for an array with shape (439, 1000003) and data type float64"
GOMP = "libgomp: Out of memory allocating {} bytes"
TCMALLOC = "tcmalloc:0] Unable to allocate {} (new failed)"
RANGE = "INTERNAL Error: Requested allocation size of {} is out of range - maximum allocation size is 281474976710656"
OVERFLOW = "RuntimeError: Storage size calculation overflowed with sizes=[3000000000, 5000000000, 512]"

ABSURD = (
    (FRAME.format("table = np.zeros(levels ** axes)", "ValueError: Maximum allowed dimension exceeded"), "host_ram"),
    ("ValueError: Maximum allowed size exceeded", "host_ram"),
    ("OverflowError: Maximum allowed size exceeded", "host_ram"),
    (ARRAY.format("3.05 EiB"), "host_ram"),
    (ARRAY.format("71.4 PiB"), "host_ram"),
    (GOMP.format(18446744073709551600), "host_ram"),
    (GOMP.format(883412399104), "host_ram"),
    (TCMALLOC.format(18446744073709550592), "host_ram"),
    (f"duckdb.InternalException: {RANGE.format(18446744073709540000)}", "host_ram"),
    (f"ERROR: {RANGE.format(900719925474099)}", "host_ram"),
    ("ERROR:  invalid memory alloc request size 18446744073709551614", "host_ram"),
    (FRAME.format("sim = torch.zeros(docs * docs, docs * docs, 512)", OVERFLOW), "host_ram"),
    (FRAME.format("sim = torch.zeros(docs * docs, docs * docs, 512, device='cuda')", OVERFLOW), "gpu"),
)  # fmt: skip
OTHERS = (
    "ValueError: maximum supported dimension for an ndarray is 64, found 65",
    "ValueError: Maximum allowed size exceeded for uploads",
    "ValueError: Maximum allowed dimension of a picture exceeded: 16384",
    "OverflowError: Python int too large to convert to C ssize_t",
    "ERROR:  invalid memory alloc request size 1073741824",
    "ERROR:  invalid memory alloc request size 2199023255552",
    "ERROR: the plan with an allocation size of 900719925474099 was cancelled by its user",
    "ERROR: requested allocation size of 900719925474099 bits is invalid",
    "ERROR: requested offset 900719925474099 is out of range - maximum is 281474976710656",
    "INFO requested allocation size of 900719925474099 was within the maximum allocation size",
    "# Requested allocation size of 900719925474099 is out of range",
)
PLAUSIBLE = (GOMP.format(8413446144), TCMALLOC.format(34359738368))


def first(report: dict[str, Any]) -> tuple[str, str]:
    found = report["diagnoses"][0]
    return found["cause"], found["pool"]


@pytest.mark.parametrize(("text", "pool"), ABSURD)
def test_a_size_that_is_refused_for_itself(tmp_path: Path, text: str, pool: str) -> None:
    assert first(body(tmp_path, text)) == ("absurd-size", pool)


@pytest.mark.parametrize("text", OTHERS)
def test_what_else_is_out_of_range(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize("text", PLAUSIBLE)
def test_a_size_that_machines_have_was_refused_by_them(tmp_path: Path, text: str) -> None:
    report = body(tmp_path, text)
    assert first(report)[0] in {"host-memory-exhausted", "process-ram-hog"}
    assert report["events"][0]["usage"]["tried_bytes"] > 1 << 32


def test_no_largest_allocation_of_a_device_explains_what_no_machine_has(tmp_path: Path) -> None:
    said = "RuntimeError: buffer size {} is larger than the device's maximum buffer size 4294967296"
    causes = [first(body(tmp_path, said.format(size)))[0] for size in (6442450944, 644245094400000)]
    assert causes == ["allocator-cap", "absurd-size"]
