"""A flight record as it is written: a line at a time, never larger than one slice of a log is."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct, json

from oomdoctor.recorder.schema import Entry, Named, Sample

MOST: Final = 224 * 1024  # bytes; what is read as one page ends at 256 KiB
RECENT: Final = 90  # samples that are never left out


class _Kept(Struct):
    entry: Entry
    line: bytes


class Record:
    """In memory, and in a file where one is wanted: each line by one write, so that a kill leaves whole lines."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._encoder = json.Encoder()
        self._kept: list[_Kept] = []
        self._size = 0
        self._file = -1 if path is None else os.open(path, _FRESH, 0o644)

    def add(self, entry: Entry) -> None:
        """A full disk ends the file, not the job."""
        line = self._encoder.encode(entry) + b"\n"
        self._kept.append(_Kept(entry, line))
        self._size += len(line)
        with suppress(OSError):
            if self._size > MOST:
                self._thin_out()
            elif self._file >= 0:
                os.write(self._file, line)

    def whole(self) -> bytes:
        """The record so far."""
        return b"".join(kept.line for kept in self._kept)

    def _thin_out(self) -> None:
        """Leave out every second of the older samples, and the names that no sample uses any more."""
        samples = [at for at, kept in enumerate(self._kept) if isinstance(kept.entry, Sample)]
        left_out = set(samples[: max(0, len(samples) - RECENT)][1::2])
        last = samples[-1] if samples else 0
        fresh = {kept.entry.pid for kept in self._kept[last:] if isinstance(kept.entry, Named)}  # of the sample to come
        rest = [kept for at, kept in enumerate(self._kept) if at not in left_out]
        used = {size.pid for kept in rest if isinstance(kept.entry, Sample) for size in kept.entry.processes} | fresh
        self._kept = [kept for kept in rest if not isinstance(kept.entry, Named) or kept.entry.pid in used]
        self._size = sum(len(kept.line) for kept in self._kept)
        if self._path is not None and self._file >= 0:
            self._replace(self._path)

    def _replace(self, path: Path) -> None:
        """Whole at every moment: another file takes its name."""
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        fresh = os.open(beside, _FRESH, 0o644)
        os.write(fresh, self.whole())
        beside.replace(path)
        os.close(self._file)
        self._file = fresh


_FRESH: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | getattr(os, "O_CLOEXEC", 0)
