"""GPU memory, looked at by a thread of its own: a driver may take seconds for an answer."""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from oomdoctor.recorder.cards import Cards

COST: Final = 100  # an answer that took a second is followed by a hundred without a question


class Source(Protocol):
    def read(self) -> Cards: ...


class Watcher(threading.Thread):
    """Keeps the last answer at hand."""

    def __init__(self, every: float) -> None:
        super().__init__(daemon=True)
        self.cards: Cards = ()
        self._every = every

    def run(self) -> None:
        """Until the process ends, or the driver fails."""
        source = found()
        while source is not None:
            began = time.monotonic()
            try:
                self.cards = source.read()
            except Exception:  # noqa: BLE001  (a driver's error of any kind ends the looking, and nothing else)
                return
            time.sleep(max(self._every, COST * (time.monotonic() - began)))


def found() -> Source | None:
    """NVIDIA's library before its program; None where there is neither."""
    from oomdoctor.recorder import nvidia_smi, nvml  # noqa: PLC0415  (they take a moment, which is the thread's)

    return nvml.library() or nvidia_smi.program()
