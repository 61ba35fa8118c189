"""How a job ended."""

from __future__ import annotations

from msgspec import Struct


class Outcome(Struct, frozen=True):
    """One of the two is not None."""

    status: int | None = None
    signal: int | None = None

    @property
    def is_success(self) -> bool:
        return self.status == 0
