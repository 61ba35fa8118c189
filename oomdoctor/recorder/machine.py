"""The machine's memory: /proc/meminfo, the kernel's count of OOM kills, the room in /dev/shm."""

from __future__ import annotations

import os
from typing import Final

from msgspec import Struct

from oomdoctor.recorder import proc
from oomdoctor.units import KIB

SHM: Final = "/dev/shm"  # noqa: S108  (looked at, not written)


class Memory(Struct, frozen=True, omit_defaults=True):
    """In bytes."""

    total: int | None = None
    available: int | None = None
    swap_total: int | None = None
    swap_free: int | None = None
    shm_total: int | None = None
    shm_used: int | None = None
    kills: int | None = None  # by the kernel's OOM killer since boot, on the whole machine


def memory() -> Memory:
    """As it is now."""
    said = dict(proc.pairs(f"{proc.PROC}/meminfo"))
    sizes = {
        ours: said[theirs] * KIB
        for ours, theirs in (
            ("total", "MemTotal"),
            ("available", "MemAvailable"),
            ("swap_total", "SwapTotal"),
            ("swap_free", "SwapFree"),
        )
        if theirs in said
    }
    shm_total, shm_used = _shm()
    return Memory(**sizes, shm_total=shm_total, shm_used=shm_used, kills=kills())


def kills() -> int | None:
    """Linux counts them since 4.13."""
    return dict(proc.pairs(f"{proc.PROC}/vmstat")).get("oom_kill")


def overcommit() -> int | None:
    """The kernel's policy: 2 refuses what it cannot promise."""
    return proc.number(f"{proc.PROC}/sys/vm/overcommit_memory")


def _shm() -> tuple[int | None, int | None]:
    try:
        found = os.statvfs(SHM)
    except OSError:
        return None, None
    return found.f_blocks * found.f_frsize, (found.f_blocks - found.f_bfree) * found.f_frsize
