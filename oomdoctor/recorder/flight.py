"""The recorder as the job's starter sees it: whatever fails in it, the job goes on and its end is passed on."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from oomdoctor.recorder.outcome import Outcome
from oomdoctor.recorder.record import Record
from oomdoctor.recorder.sampler import Sampler

NEVER_S: Final = 3600.0


class Flight:
    """Until the first error of its own."""

    def __init__(self, path: Path | None, every: float, command: Sequence[str]) -> None:
        self._record = Record(path)
        self._sampler = Sampler(self._record, every, command)
        self.why_not: Exception | None = None

    def start(self, pid: int) -> None:
        try:
            self._sampler.start(pid)
        except Exception as error:  # noqa: BLE001  (the job must not suffer from it)
            self.why_not = error

    def tick(self) -> float:
        """Look at the job where that is due; when to look again."""
        if self.why_not is None:
            try:
                if time.monotonic() >= self._sampler.due:
                    self._sampler.tick()
            except Exception as error:  # noqa: BLE001
                self.why_not = error
        return self._sampler.due if self.why_not is None else time.monotonic() + NEVER_S

    @property
    def saw_a_kill(self) -> bool:
        """Whether the kernel OOM-killed a process of the job, which itself may have gone on."""
        return bool(self._sampler.kills)

    def pass_on(self, name: str) -> None:
        self._sampler.pass_on(name)

    def end(self, outcome: Outcome) -> bytes:
        """The whole record, once the job has ended and before it is reaped."""
        if self.why_not is None:
            try:
                self._sampler.end(outcome.status, outcome.signal)
            except Exception as error:  # noqa: BLE001
                self.why_not = error
        return self._record.whole()
