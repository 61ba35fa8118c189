"""Compressed logs, known by their first bytes, unpacked as a stream and within bounds."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO, cast

from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.sources.trouble import UnreadableError

PACKED = 64 * 1024  # bytes fed at a time
PIECE = 1024 * 1024  # bytes taken out at a time, where the format lets us say so

# Real logs pack 5 to 300 times smaller; 256 MiB of zeros are 254 kB of gzip and 8 kB of zstd.
HIGHEST_RATIO = 500
FREE_OF_RATIO = 256 * 1024**2
LARGEST = 16 * 1024**3
LARGEST_WINDOW = 128 * 1024**2  # `xz -9` and `zstd -19` need less; a file may ask for gigabytes

# bz2, lzma and compression.zstd share one interface: decompress(data, max_length), needs_input, eof, unused_data
Decompressor = Any
Opened = tuple[Callable[[], Decompressor], tuple[type[Exception], ...]]


class _Gzip:
    """zlib's decompressor under the interface of the others."""

    def __init__(self) -> None:
        import zlib  # noqa: PLC0415  # few logs are compressed

        self._zlib = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        out = self._zlib.decompress(self._zlib.unconsumed_tail + data, max_length)
        self.needs_input = len(out) < max_length and not self._zlib.unconsumed_tail
        return out

    @property
    def eof(self) -> bool:
        return self._zlib.eof

    @property
    def unused_data(self) -> bytes:
        return self._zlib.unused_data


class _Zstandard:
    """zstandard's decompressor under the interface of the others.

    It cannot bound its output, so it is fed little: a byte in makes at most 32 KiB out.
    """

    needs_input = True
    _FED = 512

    def __init__(self) -> None:
        import zstandard  # noqa: PLC0415

        self._zstd = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW).decompressobj()
        self._rest = memoryview(b"")

    def decompress(self, data: bytes, max_length: int) -> bytes:  # noqa: ARG002
        if data:
            self._rest = memoryview(data)
        fed, self._rest = self._rest[: self._FED], self._rest[self._FED :]
        out: bytes = self._zstd.decompress(fed)
        self.needs_input = not self._rest
        return out

    @property
    def eof(self) -> bool:
        return bool(self._zstd.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._zstd.unused_data) + bytes(self._rest)


def _gzip() -> Opened:
    import zlib  # noqa: PLC0415

    return _Gzip, (zlib.error,)


def _bzip2() -> Opened:
    import bz2  # noqa: PLC0415

    return bz2.BZ2Decompressor, (OSError, ValueError)


def _xz() -> Opened:
    import lzma  # noqa: PLC0415

    return partial(lzma.LZMADecompressor, memlimit=LARGEST_WINDOW), (lzma.LZMAError,)


def _zstd() -> Opened:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415

        return zstd.ZstdDecompressor, (zstd.ZstdError,)
    import zstandard  # noqa: PLC0415

    return _Zstandard, (zstandard.ZstdError,)


FORMATS: tuple[tuple[str, re.Pattern[bytes], Callable[[], Opened]], ...] = (
    ("gzip", late(rb"\x1f\x8b\x08"), _gzip),
    ("bzip2", late(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), _bzip2),
    ("xz", late(rb"\xfd7zXZ\x00"), _xz),
    ("zstd", late(rb"\x28\xb5\x2f\xfd"), _zstd),
)


SUFFIXES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstd"}
LONGEST_MAGIC = 10


def packed_as(head: bytes) -> str | None:
    """The format that a file's first bytes are of."""
    return next((name for name, magic, _ in FORMATS if magic.match(head[:LONGEST_MAGIC])), None)


ARCHIVES: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("zip", late(rb"PK\x03\x04")),
    ("tar", late(rb".{257}ustar", re.DOTALL)),
)


def archive(path: Path) -> str | None:
    """The kind of archive that a file is, compressed or not; None for all others and for what cannot be read."""
    try:
        with path.open("rb") as stream:
            head = next(unpacked(stream, 4096), b"")
    except (OSError, UnreadableError):
        return None
    return next((kind for kind, magic in ARCHIVES if magic.match(head)), None)


def unpacked(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The stream's bytes, unpacked where they are compressed, in blocks of about this size.

    What could be read comes before any UnreadableError is raised.
    """
    head = _head(stream, min(size, PACKED))
    format_ = packed_as(head)
    if format_ is None:
        yield from _gathered(_plain(head, stream, size), size)
    else:
        opened = next(opened for name, _, opened in FORMATS if name == format_)
        yield from _gathered(_bounded(format_, head, stream, opened()), size)


def _head(stream: BinaryIO, size: int) -> bytes:
    """The first bytes, enough to tell a format by."""
    head = b""
    while len(head) < LONGEST_MAGIC and (more := _some(stream, size)):
        head += more
    return head


def _some(stream: BinaryIO, size: int) -> bytes:
    """What one read gives: `read` itself goes on until it has all, and forgets what it has where a later one fails."""
    return cast("BufferedReader", stream).read1(size)


def _plain(head: bytes, stream: BinaryIO, size: int) -> Iterator[bytes]:
    """The pieces, one of which ends where a block does: who searches blocks of one size need not cut them anew."""
    data, missing = head, size
    while data:
        yield data
        missing = max(missing - len(data), 0) or size
        data = _some(stream, missing)


def _bounded(name: str, head: bytes, stream: BinaryIO, opened: Opened) -> Iterator[bytes]:
    """The pieces of all members, as far as they go and as far as a log may go."""
    new, errors = opened
    taken = given = 0
    decompressor: Decompressor = None
    data = head
    while data:
        taken += len(data)
        while data or decompressor is not None:
            decompressor = decompressor or new()
            try:
                piece = decompressor.decompress(data, PIECE)
            except errors as error:
                raise UnreadableError(say("damaged {format} file: read up to the damage", format=name)) from error
            given += len(piece)
            if piece:
                yield piece
            if given > LARGEST or given > max(FREE_OF_RATIO, HIGHEST_RATIO * taken):
                times = given // taken
                raise UnreadableError(
                    say("{format} file unpacks to {times} times its size: read only that far", format=name, times=times)
                )
            if decompressor.eof:
                data = decompressor.unused_data.lstrip(b"\0")  # files are padded with zeros
                decompressor = None
            elif decompressor.needs_input:
                break
            else:
                data = b""
        data = _some(stream, PACKED)
    if decompressor is not None:
        raise UnreadableError(say("truncated {format} file: read up to where it ends", format=name))


def _gathered(pieces: Iterator[bytes], size: int) -> Iterator[bytes]:
    """The pieces in blocks of at least this size; those before a failure are not lost."""
    waiting: list[bytes] = []
    length = 0
    try:
        for piece in pieces:
            waiting.append(piece)
            length += len(piece)
            if length >= size:
                yield b"".join(waiting)
                waiting.clear()
                length = 0
    except (UnreadableError, OSError):
        if waiting:
            yield b"".join(waiting)
        raise
    if waiting:
        yield b"".join(waiting)
