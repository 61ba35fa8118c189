"""Reads torch.profiler's memory timeline: what was allocated by category, at each time that it changed.

`export_memory_timeline("timeline.json")` writes a JSON list of two: the times, and for each a row of a 0 and the bytes
of each category. It does not say of which device. Rows are taken one by one, and only the peak is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oomdoctor.snapshots.model import Account, Holding
from oomdoctor.snapshots.names import (
    ACTIVATIONS,
    BACKWARD,
    GRADIENTS,
    INPUTS,
    OPTIMIZER_STATES,
    OTHER,
    PARAMETERS,
    TEMPORARY,
)

# torch/profiler/_memory_profiler.py, 2.1 to 2.13: PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT,
# AUTOGRAD_DETAIL (what a backward function makes on its way), and what it has no category for.
CATEGORIES: Final = (
    PARAMETERS, OPTIMIZER_STATES, INPUTS, TEMPORARY, ACTIVATIONS, GRADIENTS, BACKWARD, OTHER,
)  # fmt: skip
LARGEST: Final = 2**63
LONGEST_ROW: Final = 256  # bytes

_DIGITS: Final = b"0123456789, "
_BEGIN: Final = b"[["
_BETWEEN: Final = re.compile(rb"\], ?\[")
_ROW: Final = re.compile(rb"(?:, ?)?\[0,((?: ?-?\d{1,19},){7} ?-?\d{1,19})\]")
_END: Final = re.compile(rb"\]\]\s*")


def read(blocks: Iterator[bytes]) -> Account | None:
    """What was allocated at the peak; None of what is no timeline."""
    timeline = _Timeline(blocks)
    times = timeline.times()
    if not times or timeline.rows() != times or not 0 < sum(timeline.peak) < LARGEST:
        return None
    sizes = sorted(zip(timeline.peak, CATEGORIES, strict=True), key=lambda pair: -pair[0])
    return Account(
        allocated=sum(timeline.peak),
        holdings=tuple(Holding(holder, size, 0) for size, holder in sizes if size > 0),
        entries=times,
        is_timeline=True,
    )


class _Timeline:
    """The rest of the text, and the row with most."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self.peak: list[int] = []
        self._blocks = blocks
        self._text = b""

    def times(self) -> int:
        """How many there are; 0 where the text begins otherwise."""
        self._have(len(_BEGIN))
        if not self._text.startswith(_BEGIN):
            return 0
        self._text, count = self._text[len(_BEGIN) :], 1
        while True:
            part = self._text.partition(b"]")[0]
            if part.translate(None, _DIGITS):
                return 0
            count += part.count(b",")
            self._text = self._text[len(part) :]
            if self._text:
                break
            if not self._more():
                return 0
        self._have(LONGEST_ROW)
        between = _BETWEEN.match(self._text)
        self._text = self._text[between.end() :] if between else b""
        return count if between else 0

    def rows(self) -> int:
        """How many follow up to the end; 0 where something else does."""
        count, most = 0, 0
        while True:
            at = 0
            for row in iter(_ROW.scanner(self._text).match, None):  # type: ignore[attr-defined]
                sizes = [int(size) for size in row[1].split(b",")]
                count, at = count + 1, row.end()
                if sum(sizes) > most:
                    most, self.peak = sum(sizes), sizes
            self._text = self._text[at:]
            if len(self._text) >= LONGEST_ROW or not self._more():
                return count if _END.fullmatch(self._text) else 0

    def _have(self, length: int) -> None:
        """Read until the text is so long, or ends."""
        while len(self._text) < length and self._more():
            pass

    def _more(self) -> bool:
        block = next(self._blocks, None)
        self._text += block or b""
        return block is not None
