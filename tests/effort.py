"""How much processor time something takes: the best of three, as a busy machine only ever adds to it."""

from __future__ import annotations

import time
from collections.abc import Callable


def seconds(work: Callable[[], object]) -> float:
    return min(_once(work) for _ in range(3))


def _once(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun
