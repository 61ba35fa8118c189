"""Pressure that is no failure yet, pools of huge pages, and caches that one request exceeds; each beside its near
misses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reports import body

KERNEL = "[81201.339120] nvidia-uvm: uvm_mem.c:{} alloc_sys[pid:9031] MemoryAllocSys alloc failed with {}"
USAGE = 'cgroup "batch.slice" memory usage 90112MB is over the {}'
GOES_ON = (
    KERNEL.format(227, "big page size, retry with default page size"),
    "ERROR arena.cc:9 failed to allocate 2 GiB of memory on the node, retry with the next node",
    "ERROR arena.cc:9 failed to allocate 2 GiB of huge pages, retry with small pages",
    "ERROR arena.cc:9 failed to allocate huge pages, falling back to 4 KiB pages",
    "ERROR arena.cc:9 failed to allocate huge pages, using small pages instead",
    "WARN arena.cc:9 failed to allocate huge pages",
    "mimalloc: warning: unable to allocate huge (1GiB) page, trying large pages instead (status 12)",
    "ERROR arena.cc:9 failed to map the table of huge pages statistics",
    "watchd[881]: " + USAGE.format("threshold of 81920MB for 10 seconds"),
    "watchd[881]: " + USAGE.format("high watermark of 81920MB"),
)
FAILED = (
    (KERNEL.format(231, "default page size"), "host_ram"),
    ("RuntimeError: failed to allocate 2 GiB of GPU memory, retry with a smaller batch size", "gpu"),
    ("ERROR arena.cc:9 failed to allocate 2 GiB of GPU memory. Retry with default settings.", "gpu"),
    ("ERROR arena.cc:9 failed to allocate 2 GiB of GPU memory, please retry with default settings", "gpu"),
    ("watchd[881]: " + USAGE.format("limit of 81920MB"), "cgroup"),
    ("watchd[881]: " + USAGE.format("threshold of 81920MB, killing it"), "cgroup"),
    ("MemoryError: memory usage 90112MB is over the threshold of 81920MB", "host_ram"),
    ("ERROR arena.cc:9 failed to allocate memory for transparent huge pages", "host_ram"),
    ("OSError: [Errno 12] Cannot allocate memory", "host_ram"),
)
POOL = "[ERROR] arena.py:88: Failed to allocate huge pages. Pool has 2048 pages (512 free). Requested 8589934592 bytes."
PAGES = (
    f"{POOL}\nOSError: [Errno 12] Cannot allocate memory",
    "RuntimeError: unable to reserve 8589934592 bytes of hugepages",
    "ERROR mmap(MAP_HUGETLB) of 8589934592 bytes failed: [Errno 12] Cannot allocate memory",
)
NEEDS = "ValueError: the attention KV requires 24.50 GiB, budget {} GiB; use a shorter text"
CACHES = (
    (NEEDS.format("18.10"), "max-model-len-too-long"),
    ("ValueError: KV cache of one clip needs 24.50 GiB, limit is 18.10 GiB", "max-model-len-too-long"),
    # others hold some of it
    ("RuntimeError: KV cache exhausted: clip 7 requires 4.50 GiB, limit is 18.10 GiB", "kv-pool-exhausted"),
    ("RuntimeError: the KV pool: clip 7 requires 24.50 GiB, 2.10 GiB left", "kv-pool-exhausted"),
    ("ERROR KV usage 24.50 GiB exceeds the budget of 18.10 GiB", "kv-pool-exhausted"),
    ("RuntimeError: KV cache is full", "kv-pool-exhausted"),
)


def first(report: dict[str, Any]) -> tuple[str, str]:
    found = report["diagnoses"][0]
    return found["cause"], found["pool"]


@pytest.mark.parametrize("text", GOES_ON)
def test_nothing_failed_yet(tmp_path: Path, text: str) -> None:
    assert body(tmp_path, text)["verdict"] == "no-oom"


@pytest.mark.parametrize(("text", "pool"), FAILED)
def test_what_failed_all_the_same(tmp_path: Path, text: str, pool: str) -> None:
    report = body(tmp_path, text)
    assert report["verdict"] == "oom"
    assert first(report) != ("pinned-memory-exhausted", "pinned")
    assert first(report)[1] == pool


@pytest.mark.parametrize("text", PAGES)
def test_a_pool_of_huge_pages_is_no_address_space(tmp_path: Path, text: str) -> None:
    report = body(tmp_path, text)
    assert first(report) == ("pinned-memory-exhausted", "pinned")
    found = report["diagnoses"][0]
    assert found["headline"] == "Huge pages (vm.nr_hugepages) could not be allocated: 8 GiB requested"
    assert found["remedies"][0]["snippet"].startswith("grep -i huge /proc/meminfo")


@pytest.mark.parametrize(("text", "cause"), CACHES)
def test_a_need_beyond_the_whole_cache(tmp_path: Path, text: str, cause: str) -> None:
    assert first(body(tmp_path, text)) == (cause, "kv_cache")
