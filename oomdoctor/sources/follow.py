"""A file that is still being written, as `tail -F` reads it: also where it is rotated, cut or not there yet."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path
from typing import Final

from oomdoctor.sources.source import BLOCK

# The last bytes that were read: where others stand there now, the file was cut and has grown again.
_KNOWN: Final = 64


class Followed:
    """One path, and the file that it names now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None
        self._tail = b""
        self.files = 0  # opened so far: one more, and what comes next is another file's

    def read(self) -> bytes:
        """What was written since, or nothing. Of a file that gave way to another the rest comes first."""
        if self._file is None and not self._open():
            return b""
        if self._was_cut():
            self.close()
            return b""
        gave_way = self._gave_way()  # looked at first: what was written into the old file until then is read
        block = self._next()
        if gave_way and not block:
            self.close()
        return block

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> bool:
        try:
            self._file = self._path.open("rb", buffering=0)
        except FileNotFoundError:
            return False  # not there yet, or between two files
        self.files += 1
        self._tail = b""
        return True

    def _next(self) -> bytes:
        assert self._file is not None
        block = self._file.read(BLOCK)
        self._tail = (self._tail + block)[-_KNOWN:]
        return block

    def _was_cut(self) -> bool:
        """Whether it was written anew, where it stands."""
        assert self._file is not None
        position = self._file.tell()
        self._file.seek(position - len(self._tail))
        return self._file.read(len(self._tail)) != self._tail

    def _gave_way(self) -> bool:
        """Whether the path names another file."""
        assert self._file is not None
        mine = os.fstat(self._file.fileno())
        try:
            there = self._path.stat()
        except FileNotFoundError:
            return False  # moved away; the new one is on its way
        return (mine.st_dev, mine.st_ino) != (there.st_dev, there.st_ino)
