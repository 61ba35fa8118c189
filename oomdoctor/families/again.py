"""What a page says in the same words again and again is read at growing distances, and at the end.

A place may ask for a look at hundreds of lines around it: a megabyte of one short line would take longer than a
gigabyte of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

OFTEN: Final = 64  # places of the same words: after twice as many, every second is read, then every fourth ...
LAST: Final = 16  # places that are read in any case: what follows them may differ


class Again:
    """Which of the lines with the same words are read."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._in_all = {text: count for text, count in Counter(texts).items() if count > 2 * OFTEN}
        self._so_far: Counter[str] = Counter()

    def worth(self, text: str) -> bool:
        """Whether the next line with these words is read."""
        count = self._in_all.get(text)
        if count is None:
            return True
        self._so_far[text] = place = self._so_far[text] + 1
        distance: int = 2 ** max(0, (place // OFTEN).bit_length() - 1)
        return place > count - LAST or place % distance == 0
