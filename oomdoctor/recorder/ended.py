"""How a job ended."""

from __future__ import annotations

import signal
from contextlib import suppress

from msgspec import Struct


class Ended(Struct, frozen=True):
    """One of the two is not None."""

    status: int | None = None
    signal: int | None = None

    @property
    def is_success(self) -> bool:
        return self.status == 0

    @property
    def signal_name(self) -> str:
        """As programs write it, "" where no signal ended it."""
        with suppress(ValueError, TypeError):
            return signal.Signals(self.signal).name  # type: ignore[arg-type]
        return f"signal {self.signal}" if self.signal is not None else ""
