"""Shares of a card, as options take them: two or three digits, rounded to the safe side."""

from __future__ import annotations

import math
from typing import Final

LARGEST: Final = 0.98  # above it the driver, graphs and the sampler have nothing left
AT_THE_LIMIT: Final = 0.95  # from here on a larger one starves what the engine needs beside its share
LEAST: Final = 0.1  # below it no engine starts
STEP: Final = 0.05  # up or down, where nothing prints how much is missing
SMALL_STEP: Final = 0.01


def floor(share: float, digits: int = 2) -> float:
    """Rounded down: a share that is rounded up is refused."""
    scale = float(10**digits)
    return math.floor(share * scale + 1e-6) / scale


def ceil(share: float, digits: int = 2) -> float:
    scale = float(10**digits)
    return math.ceil(share * scale - 1e-6) / scale


def largest(free: int, total: int) -> float:
    """The largest share that what was free at start still allows."""
    return floor(free / total)


def raised(share: float, missing: int, total: int) -> float:
    """The share that has so much more room than this one."""
    return ceil(share + missing / total)


def lowered(share: float, missing: int, total: int) -> float:
    """The share that leaves so much more beside it than this one."""
    return max(0.0, floor(share - missing / total))
