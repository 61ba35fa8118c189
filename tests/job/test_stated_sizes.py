"""Sizes on lines that speak of memory: options, keys, units in brackets, the first of two; and what is none."""

from __future__ import annotations

import time

import pytest

from oomdoctor.job.context import ContextBuilder
from oomdoctor.job.stated_sizes import LATEST, NAME
from oomdoctor.streams import page

KIB, MIB, GIB = 1024, 1024**2, 1024**3


def stated(log: str) -> tuple[object, ...]:
    builder = ContextBuilder()
    builder.add(page("job.log", 1, log.encode()))
    return dict(builder.build().particulars).get(NAME, ())


@pytest.mark.parametrize(
    ("line", "sizes"),
    [
        ("$ gridd-worker tcp://h:1 --rmm-pool-size 100GB", {100 * 10**9}),
        ('SET memory_limit = "4GB";', {4 * 10**9}),
        ("run --heap-max=6G job.jar", {6 * GIB}),
        ("app-scripts --max_old_space_size=4096 build", {4096 * MIB}),
        ("metal_limit=40.20GB, usable=36.98GB", {round(40.2 * GIB), round(36.98 * GIB)}),
        ("CPU buffer size =  4437.80 MiB", {round(4437.8 * MIB)}),
        ("{'loss': 0.1, 'memory(GiB)': 75.22, 'epoch': 0.05}", {round(75.22 * GIB)}),
        ("* Target maximum memory (GB)                     3", {3 * GIB}),
        ("Failed to allocate [size:2147483648]. Memory is exhausted.", {2 * GIB}),
        ("Global memory: 536543232", {536543232}),
        ("mem avail:    19 of   950 MiB ( 2.10%)", {19 * MIB, 950 * MIB}),
        ("| N/A 51C P0 84W / 300W |  39936MiB / 81920MiB | 16% Default |", {39936 * MIB, 81920 * MIB}),
        ("   3.5       GB required", {round(3.5 * GIB)}),
    ],
)
def test_a_size_of_memory_is_kept(line: str, sizes: set[int]) -> None:
    assert sizes <= set(stated(line))


@pytest.mark.parametrize(
    "line",
    [
        "downloaded 4.2 GB of the archive",
        "model-00003-of-00007.safetensors: 100%|##| 4.99G/4.99G [00:41<00:00, 118MB/s]",
        "memory bandwidth 935 GB/s",
        "memory at 0x7f0000000000",
        "size 12",
        "the limit is 40 requests",
        "version 2.5.1 of the pool",
        "allocated 3 workers",
        "memory_limit = none",
        "heap of 4096 objects",
    ],
)
def test_what_is_no_size_of_memory(line: str) -> None:
    assert stated(line) == ()


def test_the_last_ones_are_kept() -> None:
    log = "\n".join(f"step {n} memory {n + 1} MiB" for n in range(3 * LATEST))
    assert stated(log) == tuple((n + 1) * MIB for n in range(2 * LATEST, 3 * LATEST))


def test_long_lines_do_not_stop_it() -> None:
    log = "\n".join(["memory size: " * 100_000, "--mem-" * 200_000 + " 3GB", "memory (" * 100_000 + "GB)"])
    begun = time.perf_counter()
    stated(log)
    assert time.perf_counter() - begun < 3
