"""Limits below the machine's: a database that may not write to a disk, an array that an interface does not hold, a
library's scratch beyond its program's limit; each beside failures that no limit explains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

NO_DISK = (
    "_duckdb.InvalidInputException: Invalid Input Error: Out-of-memory: cannot write buffer because no temporary "
    "directory is specified!\nTo enable temporary buffer eviction set a temporary directory"
)
FULL = (
    "_duckdb.OutOfMemoryException: Out of Memory Error: could not allocate block of size 4.0 MiB (5.5 GiB/5.5 GiB used)"
)
METAL = "/Build/MPSCore/Types/MPSNDArray.mm:{}: failed assertion `[MPSNDArray initWithDevice:descriptor:] Error: {}'"
XLA = "2031-05-06 07:08:09.{}: {} xla/stream_executor/{}:{}] {}"
NO_AREA = XLA.format(118220, "E", "{}", 225, "failed to allocate work area.")
BEYOND = XLA.format(
    118318, "F", "{}", 439, "no batched plan: Allocating 7000000160 bytes exceeds the memory limit of 4294967296 bytes."
)
LIMITED = (
    (NO_DISK, "host_ram"),
    (METAL.format(850, "total bytes of NDArray > 2**32"), "gpu"),
    (f"{NO_AREA}\n{BEYOND}".replace("{}", "cuda/cuda_fft.cc"), "gpu"),
    (BEYOND.format("cuda/cuda_fft.cc"), "gpu"),
    ("RuntimeError: cufft scratch of 512 MiB exceeds the memory limit of 256 MiB", "gpu"),
)
OTHERS = (
    ("duckdb.InvalidInputException: Invalid Input Error: no temporary directory is specified!", None, None),
    (METAL.format(705, "NDArray dimension length > INT_MAX"), None, None),
    (METAL.format(851, "buffer is not large enough. Must be 8192 bytes"), None, None),
    (NO_AREA.format("cuda/cuda_fft.cc"), "gpu-memory-exhausted", "gpu"),
    (NO_AREA.format("host/host_executor.cc"), "host-memory-exhausted", "host_ram"),
    (NO_AREA.format("cuda/cuda_host_pool.cc"), "host-memory-exhausted", "host_ram"),
    # another file's limit is no reason
    (f"{NO_AREA.format('cuda/cuda_fft.cc')}\n{BEYOND.format('executor.cc')}", "gpu-memory-exhausted", "gpu"),
    (f"{NO_AREA.format('cuda/cuda_fft.cc')}\n" + "loading\n" * 5 + BEYOND.format("cuda/cuda_fft.cc"),
     "gpu-memory-exhausted", "gpu"),
)  # fmt: skip


def first(report: dict[str, Any]) -> tuple[str | None, str | None]:
    found: dict[str, Any] = next(iter(report["diagnoses"]), {})
    return found.get("cause"), found.get("pool")


@pytest.mark.parametrize(("text", "pool"), LIMITED)
def test_a_limit_below_the_machines(tmp_path: Path, text: str, pool: str) -> None:
    assert first(body(tmp_path, text)) == ("allocator-cap", pool)


@pytest.mark.parametrize(("text", "cause", "pool"), OTHERS)
def test_no_limit_is_named(tmp_path: Path, text: str, cause: str | None, pool: str | None) -> None:
    assert first(body(tmp_path, text)) == (cause, pool)


def test_the_figures_of_a_failure_stand_where_its_file_goes_on(tmp_path: Path) -> None:
    report = body(tmp_path, f"{NO_AREA}\n{BEYOND}".replace("{}", "cuda/cuda_fft.cc"))
    assert report["events"][0]["usage"]["tried_bytes"] == 7000000160
    assert report["diagnoses"][0]["headline"] == "A memory limit of 4.00 GiB was hit: 6.52 GiB requested"


@pytest.mark.parametrize(("text", "knob"), [(NO_DISK, "spill-to-disk"), (FULL, "smaller-buffers")])
def test_a_database_without_a_disk_is_given_one(tmp_path: Path, text: str, knob: str) -> None:
    assert body(tmp_path, text)["diagnoses"][0]["remedies"][0]["knob"] == knob
