"""Reading files of /proc and /sys: small, made anew for each reader, gone when their process is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

PROC: Final = "/proc"
MOST: Final = 65536  # bytes


def text(path: str) -> str | None:
    """What the file says now; None where there is none or it is not ours to read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while block := os.read(number, MOST):
            parts.append(block)
        return b"".join(parts).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(number)


def number(path: str) -> int | None:
    """The one number of the file; None for "max" and where there is none."""
    said = (text(path) or "").strip()
    return int(said) if said.isdecimal() else None


def pairs(path: str) -> Iterator[tuple[str, int]]:
    """Rows of a name and a number: memory.events, vmstat, and meminfo with its colons."""
    for line in (text(path) or "").splitlines():
        words = line.split()
        if len(words) > 1 and words[1].isdecimal():
            yield words[0].rstrip(":"), int(words[1])


def is_there() -> bool:
    """Whether this system has a /proc of Linux' kind."""
    return os.path.exists(f"{PROC}/self/statm")  # noqa: PTH110  (a path of /proc, no file of a user)
