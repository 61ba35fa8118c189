"""GPU memory through NVIDIA's library, where its Python package is installed (extra `gpu`)."""

from __future__ import annotations

from contextlib import suppress
from types import ModuleType
from typing import Any

from oomdoctor.recorder.cards import Card, Cards


class Nvml:
    """The library, open as long as the job runs: to open it anew takes seconds without the persistence daemon."""

    def __init__(self, library: ModuleType) -> None:
        self._library: Any = library
        self._library.nvmlInit()
        count = self._library.nvmlDeviceGetCount()
        self._handles = [self._library.nvmlDeviceGetHandleByIndex(number) for number in range(count)]

    def read(self) -> Cards:
        """The cards and, where the driver tells, their processes."""
        cards = []
        for number, handle in enumerate(self._handles):
            memory = self._library.nvmlDeviceGetMemoryInfo(handle)
            cards.append(Card(number, int(memory.used), int(memory.total), tuple(self._processes(handle))))
        return tuple(cards)

    def _processes(self, handle: Any) -> list[tuple[int, int]]:
        with suppress(self._library.NVMLError):  # MIG, containers, drivers before 510
            running = self._library.nvmlDeviceGetComputeRunningProcesses(handle)
            return [(one.pid, int(one.usedGpuMemory)) for one in running if one.usedGpuMemory is not None]
        return []


def library() -> Nvml | None:
    """None without the package, the driver or a card."""
    try:
        import pynvml  # noqa: PLC0415  (an extra; its import takes a moment)
    except ImportError:
        return None
    try:
        return Nvml(pynvml)
    except pynvml.NVMLError:
        return None
