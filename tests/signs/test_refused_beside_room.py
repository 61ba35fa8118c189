"""Compilers and mappings that were refused though there is memory: near misses first."""

from __future__ import annotations

import pytest
from gpu_logs import crash, ranking

from oomdoctor.signs import address_space, builds

ENDED = "cc1plus: out of memory allocating 65536 bytes after a total of {} bytes"
MAKE = "make: *** [core.o] Error 1"


def free(total: int, used: int) -> list[str]:
    return [
        "              total        used        free      shared  buff/cache   available",
        f"Mem:        {total}     1200000     2000000       10000      800000     2400000",
        f"Swap:       2097148  {used}  {2097148 - used}",
    ]


@pytest.mark.parametrize(
    "lines",
    [
        [ENDED.format(900_000_000), MAKE],  # nothing tells of the machine
        [ENDED.format(900_000_000), MAKE, *free(4_000_000, 51_200)],  # it swapped
        [ENDED.format(1_100_000_000), MAKE, *free(4_000_000, 0)],  # four of them would fill it
        ["cc1plus: out of memory", MAKE, *free(4_000_000, 0)],
        [*free(4_000_000, 0), ENDED.format(900_000_000), MAKE],  # as it was before
        [*free(4_000_000, 0), ENDED.format(900_000_000), MAKE, *free(4_000_000, 2_097_148)],
        [ENDED.format(900_000_000), MAKE, *free(4_000_000, 51_200), *free(4_000_000, 0)],  # the next print counts
        [ENDED.format(0), MAKE, *free(4_000_000, 0)],
    ],
)
def test_a_machine_that_may_have_been_full(lines: list[str]) -> None:
    assert builds.a_compiler_stopped_beside_free_memory(crash(*lines)) is None


def test_a_compiler_that_had_a_small_part_of_the_machine() -> None:
    lines = [ENDED.format(900_000_000), MAKE, *free(4_000_000, 0)]
    seen = builds.a_compiler_stopped_beside_free_memory(crash(*lines))
    assert seen is not None and "858 MiB" in seen.words
    assert ranking(*lines)[0] == "address-space-limit"
    assert ranking(*free(4_000_000, 0), *lines[:2])[0] == "build-parallelism"


@pytest.mark.parametrize(
    ("line", "small"),
    [
        ("pool.c:12 ERROR mmap(size=67108864) failed: Cannot allocate memory", False),
        ("pool.c:12 ERROR malloc(size=4096) failed: Cannot allocate memory", False),
        ("pool.c:12 ERROR mmap(size=67108863) failed: Cannot allocate memory", True),
        ("pool.c:12 ERROR mmap(size=8192) failed: Cannot allocate memory", True),
    ],
)
def test_a_small_mapping(line: str, *, small: bool) -> None:
    assert (address_space.a_small_mapping_was_refused(crash(line)) is not None) == small
