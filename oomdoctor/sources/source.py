"""One log as a stream of blocks, whatever it is kept in."""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct, field

from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.sources import text, unpack
from oomdoctor.sources.recognised import may_be_timeline
from oomdoctor.sources.trouble import PickleError, Trouble, UnreadableError, why

if TYPE_CHECKING:
    from oomdoctor.sources.archives import Part

BLOCK = 1024 * 1024  # stays in the processor's cache between reading, scanning and counting

# `ray logs` shows the last 1,000 lines unless told otherwise, and says so in its first line (Ray 2.0 and later).
_CUT_BY_RAY = late(rb"(?:\A|\n)--- Log has been truncated to last (\d{1,12}) lines\.")


class Source(Struct):
    """One log. What its reading met stands in `troubles`, `notes` and `size` once its blocks are read."""

    name: str  # as the report prints it: relative to the inputs' common parent, "<stdin>" for a pipe
    path: Path | None  # the file that holds it; None for standard input
    ends: bool = True  # whether its head and tail are worth reading where no anchor stands in it
    size: int = 0  # bytes of text so far, decompressed
    troubles: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    part: Part | None = None  # where it lies in an archive
    is_pickle: bool = False
    is_timeline: bool = False  # as far as its first bytes say

    def blocks(self) -> Iterator[bytes]:
        """The log's bytes as UTF-8 (or another superset of ASCII), decompressed, in blocks of bounded size."""
        self.size = 0
        self.troubles.clear()
        self.notes.clear()
        nuls = 0
        try:
            with self._open() as stream:
                self._note_packing(stream)
                for block in text.utf8(unpack.unpacked(stream, BLOCK)):
                    written = block.replace(b"\0", b"") if b"\0" in block else block
                    nuls += len(block) - len(written)
                    if self.size == 0:
                        self._note_cut(written)
                        self.is_timeline = may_be_timeline(written) and not self._is_piped
                    self.size += len(written)
                    yield written
        except UnreadableError as error:
            self.is_pickle = isinstance(error, PickleError) and not self._is_piped
            self.troubles.append(Trouble(self.name, str(error)))
        except OSError as error:
            self.troubles.append(Trouble(self.name, why(error)))
        if nuls:
            self.notes.append(
                say(
                    "{file}: {count} NUL bytes left out (a crash or a rotation cut a write short)",
                    file=self.name,
                    count=f"{nuls:,}",
                )
            )
        if self.size == 0 and not self.troubles:
            self.troubles.append(Trouble(self.name, say("nothing but NUL bytes") if nuls else say("empty")))

    def unpacked(self) -> Iterator[bytes]:
        """The bytes as they are, decompressed: of what is no text."""
        with self._open() as stream:
            for block in unpack.unpacked(stream, BLOCK):
                self.size += len(block)
                yield block

    @property
    def _is_piped(self) -> bool:
        """Whether it can be read but once."""
        return self.path is None and self.part is None

    def _open(self) -> AbstractContextManager[BinaryIO]:
        if self.part is not None:
            return self.part.open()
        return _standard_input() if self.path is None else opened(self.path)

    def _note_packing(self, stream: BinaryIO) -> None:
        """Where its name promises a compressed file and its first bytes are of none, it is read as it is."""
        path = self.part.name if self.part is not None else self.path
        named = unpack.SUFFIXES.get(path.suffix.lower()) if path is not None else None
        if named is None or not isinstance(stream, io.BufferedReader):
            return
        head = stream.peek(unpack.LONGEST_MAGIC)
        if head and unpack.packed_as(head) is None:
            self.notes.append(
                say("{file}: named as {format}, which it is not; read as text", file=self.name, format=named)
            )

    def _note_cut(self, head: bytes) -> None:
        cut = _CUT_BY_RAY.search(head[:4096])
        if cut:
            self.notes.append(
                say(
                    "{file}: `ray logs` cut this to its last {count} lines; run it again with `--tail -1` for the "
                    "whole log",
                    file=self.name,
                    count=f"{int(cut[1]):,}",
                )
            )


class InMemory(Source):
    """A log that is part of something else, or was put together."""

    data: bytes = b""

    def _open(self) -> AbstractContextManager[BinaryIO]:
        return nullcontext(io.BytesIO(self.data))


def _standard_input() -> AbstractContextManager[BinaryIO]:
    # None where the process was started without one (pythonw, `<&-`)
    if sys.stdin is None or sys.stdin.closed:
        raise UnreadableError(say("standard input is closed"))
    with suppress(OSError, ValueError, AttributeError):  # whoever started us may have left it non-blocking
        os.set_blocking(sys.stdin.fileno(), True)
    return nullcontext(sys.stdin.buffer)  # not ours to close


def opened(path: str | Path) -> BinaryIO:
    """A file or a pipe, to be read; an UnreadableError where it is something else."""
    # Without O_NONBLOCK, a FIFO that nobody writes to would keep us waiting for ever.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    mode = os.fstat(descriptor).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise UnreadableError(say("not a file"))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)
    return cast("BinaryIO", os.fdopen(descriptor, "rb"))
