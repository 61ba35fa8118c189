"""A limit on the address space explains a refusal where the request is over it, or where the RAM for it was free."""

from __future__ import annotations

import pytest
from gpu_logs import crash

from oomdoctor.signs import set_limits

GIB = 2**30
LIMIT = "Max address space         8589934592           8589934592           bytes"
REFUSED = (
    "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried "
    "to allocate {tried} bytes. Error code 12 (Cannot allocate memory)"
)
BARE = "MemoryError"
FREE = (
    "               total        used        free      shared  buff/cache   available",
    "Mem:    135000000000 31000000000  3000000000   900000000 9000000000 {available}",
)


def is_seen(refused: str, available: int) -> bool:
    table = (line.format(available=available) for line in FREE)
    return set_limits.request_beyond_the_address_limit(crash(refused, LIMIT, *table)) is not None


@pytest.mark.parametrize(
    ("refused", "available", "seen"),
    [
        (REFUSED.format(tried=9 * GIB), 20 * GIB, True),  # over the limit by itself
        (REFUSED.format(tried=2 * GIB), 20 * GIB, True),
        (REFUSED.format(tried=2 * GIB), GIB, False),  # the RAM for it was not free, either
        (BARE, 20 * GIB, True),
        (BARE, GIB // 2, False),  # nobody knows its size, and little was free
    ],
)
def test_what_was_free_beside_a_limit(refused: str, available: int, *, seen: bool) -> None:
    assert is_seen(refused, available) is seen
