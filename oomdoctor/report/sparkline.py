"""A figure over its prints in one line of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_SIGNS: Final = ("▁▂▃▄▅▆▇█", "_.,:-=+#")


def sparkline(sizes: Sequence[int], width: int, *, unicode: bool) -> str:
    """From zero, or from the least of them where that is most of the highest; the last one is always there."""
    if len(sizes) < 2:
        return ""
    signs = _SIGNS[0 if unicode else 1]
    count = max(2, min(width, len(sizes)))
    some = [sizes[round(place * (len(sizes) - 1) / (count - 1))] for place in range(count)]
    most, least = max(some), min(some)
    low = min(0, least) if 2 * least <= most or least == most else least
    span = (most - low) or 1
    return "".join(signs[min(len(signs) - 1, (size - low) * len(signs) // span)] for size in some)


__all__ = ["sparkline"]
