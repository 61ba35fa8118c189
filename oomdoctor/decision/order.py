"""Which answer stands before which: by strength, at one grade as the tables say, else as the classifier takes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from oomdoctor.causes import Cause
from oomdoctor.signs import Grade

NAMED: Final = 0.5  # the strength from which an answer rests on what names its cause


class Standing(Struct, frozen=True):
    cause: Cause
    grade: Grade | None  # None where the classifier alone names it
    strength: float
    likely: float  # the classifier's probability

    @property
    def height(self) -> tuple[float, bool, float]:
        """The classifier decides where the tables do not; a cause that says more comes before one that does not."""
        return self.strength, not self.cause.fallback, self.likely


def in_order(standings: Iterable[Standing]) -> list[Standing]:
    """The best first."""
    ordered: list[Standing] = []
    for one in sorted(standings, key=lambda each: each.height, reverse=True):
        behind = (
            place
            for place, other in enumerate(ordered)
            if other.cause.id in one.cause.before and other.grade is one.grade is not None
        )
        ordered.insert(next(behind, len(ordered)), one)
    return ordered


__all__ = ["NAMED", "Standing", "in_order"]
