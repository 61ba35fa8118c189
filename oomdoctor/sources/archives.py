"""The logs inside a tar or zip archive, read as streams: nothing is unpacked to the disk.

A member is a stretch of the archive's bytes and a name to print. Links, devices, sparse files and names that lead out
of the archive are left out, archives in archives are not opened, and what comes out of a small archive is bounded.
"""

from __future__ import annotations

import io
import os
import stat
import tarfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Protocol, cast

from msgspec import Struct

from oomdoctor.language import say
from oomdoctor.sources import recognised, unpack
from oomdoctor.sources.trouble import Trouble, UnreadableError, shown, why

MOST_MEMBERS: Final = 200_000
LONGEST_HEADER: Final = 64 * 1024  # of a long name or of its attributes; they are read whole
BLOCK: Final = 1024 * 1024
PIECE: Final = 64 * 1024  # of a member of a zip; the one in which its damage shows is not read
# The headers that `tarfile` reads to their end before the member's own
_READ_WHOLE: Final = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)
# Beside their own errors, `tarfile` and `zipfile` let through what becomes of figures and names that are none
# (ValueError, of which UnicodeDecodeError is one), and of headers upon headers (RecursionError, a RuntimeError).
_DAMAGE: Final = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError)


class Part(Protocol):
    """A log inside an archive."""

    @property
    def name(self) -> PurePosixPath: ...

    def open(self) -> BinaryIO: ...


Listing = tuple[list[Part], list[Trouble]]  # the logs, in the order to read them


def listing(path: Path, name: str, kind: str, left_out: Counter[str]) -> Listing:
    """The logs in an archive of this kind, which the report calls by this name."""
    return _of_zip(path, name, left_out) if kind == "zip" else _of_tar(path, name, left_out)


def _not_by_name(name: str) -> tuple[PurePosixPath, str | None]:
    """The name as a path, and why what has it is no log, if the name tells."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or "\\" in name or ":" in (path.parts or ("",))[0]:
        return path, recognised.OUTSIDE
    if any(recognised.skips(folder) for folder in path.parts[:-1]):
        return path, recognised.NAMED
    return path, recognised.not_by_name(path)


@contextmanager
def _damage_told(kind: str) -> Iterator[None]:
    """What the standard library raises over a damaged archive, as a sentence; only its calls stand within this."""
    try:
        yield
    except _DAMAGE as error:
        raise UnreadableError(say("damaged {format} file: read up to the damage", format=kind)) from error


def _said(error: UnreadableError | OSError) -> str:
    return why(error) if isinstance(error, OSError) else str(error)


def _head(path: PurePosixPath, stream: BinaryIO) -> bytes:
    return next(unpack.unpacked(stream, recognised.sample(path)), b"")


# --- tar -------------------------------------------------------------------------------------------------------------


class _Unpacked:
    """The bytes of a tar, which may be compressed, from any place on; going back in a compressed one begins again.

    The file stays open from one log to the next, and is closed with the last of them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO | None = None
        self._blocks: Iterator[bytes] | None = None  # None where the file is not compressed
        self._rest = b""
        self.at = 0

    def to(self, offset: int) -> None:
        if self._stream is not None and offset == self.at:
            return
        if self._stream is None or (self._blocks is not None and offset < self.at):
            self._begin()
        if self._blocks is None:
            cast("BinaryIO", self._stream).seek(offset)
            self.at = offset
        while self.at < offset and self.read(min(BLOCK, offset - self.at)):
            pass

    def read(self, size: int) -> bytes:
        if self._stream is None:
            self._begin()
        if self._blocks is None:
            data = cast("BinaryIO", self._stream).read(size)
        else:
            while not self._rest and (block := next(self._blocks, b"")):
                self._rest = block
            data, self._rest = self._rest[:size], self._rest[size:]
        self.at += len(data)
        return data

    @property
    def compressed(self) -> bool:
        return self._blocks is not None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._stream = None

    def _begin(self) -> None:
        self.close()
        self._stream = self._path.open("rb")
        weakref.finalize(self, self._stream.close)
        self.at, self._rest = 0, b""
        packed = unpack.packed_as(self._stream.read(unpack.LONGEST_MAGIC)) is not None
        self._stream.seek(0)
        self._blocks = unpack.unpacked(self._stream, unpack.PACKED) if packed else None


class _Whole:
    """A stream of which each read gives as much as is asked for, as `tarfile` wants it.

    It skips a member by reading and does not look whether anything came: a size of 2**80 would keep it for ever.
    """

    def __init__(self, tar: _Unpacked) -> None:
        self._tar = tar
        self._ended = False

    def read(self, size: int) -> bytes:
        parts = []
        while size > 0 and (data := self._tar.read(size)):
            parts.append(data)
            size -= len(data)
        if not parts and self._ended:
            raise tarfile.ReadError
        self._ended = not parts
        return b"".join(parts)


class _Header(tarfile.TarInfo):
    """A header of bounded size: names and attributes are read into memory before anything looks at them."""

    # Every release of Python calls this before it reads on behind a header; the newest ones no longer call `frombuf`.
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _READ_WHOLE and self.size > LONGEST_HEADER:
            raise tarfile.ReadError
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc]


class _InTar(Struct, frozen=True):
    name: PurePosixPath
    tar: _Unpacked
    offset: int
    size: int

    def open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Stretch(self)))


class _Stretch(io.RawIOBase):
    """A member's bytes, wherever other members have been read meanwhile."""

    def __init__(self, part: _InTar) -> None:
        self._tar = part.tar
        self._at = part.offset
        self._end = part.offset + part.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self._tar.to(self._at)
        wanted = min(len(buffer), self._end - self._at)
        data = self._tar.read(wanted)
        if wanted and not data:
            raise UnreadableError(say("truncated {format} file: read up to where it ends", format="tar"))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _of_tar(path: Path, name: str, left_out: Counter[str]) -> Listing:
    tar = _Unpacked(path)
    found: list[_InTar] = []
    troubles = []
    packed = True
    try:
        with closing(tar):
            for member, stream in _members(tar, left_out):
                inside, reason = _not_by_name(member.name)
                if reason is None:
                    with _damage_told("tar"):
                        head = _head(inside, stream)
                    reason = recognised.not_by_content(inside, head)
                if reason is None:
                    found.append(_InTar(inside, tar, member.offset_data, member.size))
                else:
                    left_out[reason] += 1
            packed = tar.compressed
    except (UnreadableError, OSError) as error:
        troubles.append(Trouble(name, _said(error)))
    in_order: list[Part] = [*sorted(found, key=lambda part: _turn(part, packed=packed))]
    return in_order, troubles


def _turn(part: _InTar, *, packed: bool) -> tuple[float, object]:
    """A compressed archive is read once for every kind of log, not once for every log."""
    rank, *rest = recognised.place(part.name)
    return rank, part.offset if packed else rest


def _members(tar: _Unpacked, left_out: Counter[str]) -> Iterator[tuple[tarfile.TarInfo, BinaryIO]]:
    with _damage_told("tar"), tarfile.open(fileobj=_Whole(tar), mode="r|", tarinfo=_Header) as archive:  # type: ignore[call-overload]
        for number, member in enumerate(archive):
            if number == MOST_MEMBERS:
                raise UnreadableError(say("it holds more than {count} files: read only those", count=f"{number:,}"))
            if member.size < 0:
                raise tarfile.ReadError
            archive.members.clear()  # it would keep them all
            if member.issym() or member.islnk():
                left_out[recognised.LINK] += 1
            elif member.isreg() and not member.issparse():
                yield member, archive.extractfile(member)


# --- zip -------------------------------------------------------------------------------------------------------------


class _File:
    """A file that is open only within `with`, also where one stands within another: many archives may be named."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: BinaryIO = io.BytesIO()
        self._users = 0

    def __enter__(self) -> None:
        if self._users == 0:
            self._stream = self._path.open("rb")
        self._users += 1

    def __exit__(self, *_: object) -> None:
        self._users -= 1
        if self._users == 0:
            self._stream.close()

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def seekable(self) -> bool:
        return True


class _Zip:
    """An archive of which no more is unpacked than a log may hold, over all of its members.

    Its directory, which names them all, is read once and not for each of them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.most = min(unpack.LARGEST, max(unpack.FREE_OF_RATIO, unpack.HIGHEST_RATIO * path.stat().st_size))
        self.given = 0
        self.file = _File(path)
        with self.file, _damage_told("zip"):
            self.opened = zipfile.ZipFile(self.file)

    def __reduce__(self) -> tuple[type[_Zip], tuple[Path]]:
        return _Zip, (self.path,)  # another process reads with a file of its own


class _InZip(Struct, frozen=True):
    name: PurePosixPath
    archive: _Zip
    info: zipfile.ZipInfo

    def open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Inflated(self), PIECE))


class _Inflated(io.RawIOBase):
    """A member of a zip; what is wrong with it is said as of any other log."""

    def __init__(self, part: _InZip) -> None:
        self._archive = part.archive
        self._opened = ExitStack()
        with ExitStack() as opened:
            opened.enter_context(part.archive.file)
            with _damage_told("zip"):
                stream = opened.enter_context(part.archive.opened.open(part.info))
            self._stream = cast("zipfile.ZipExtFile", stream)
            self._opened = opened.pop_all()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._archive.given > self._archive.most:
            raise UnreadableError(
                say("{format} file unpacks to more than {size} bytes: read only that far",
                    format="zip", size=f"{self._archive.most:,}")
            )  # fmt: skip
        with _damage_told("zip"):
            data = self._stream.read1(min(len(buffer), PIECE))
        self._archive.given += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._opened.close()
        super().close()


def _of_zip(path: Path, name: str, left_out: Counter[str]) -> Listing:
    found: list[_InZip] = []
    troubles = []
    try:
        archive = _Zip(path)
    except (UnreadableError, OSError) as error:
        return [], [Trouble(name, _said(error))]
    infos = archive.opened.infolist().copy()
    archive.opened.filelist.clear()  # they would keep them all
    archive.opened.NameToInfo.clear()
    if len(infos) > MOST_MEMBERS:
        troubles.append(
            Trouble(name, say("it holds more than {count} files: read only those", count=f"{MOST_MEMBERS:,}"))
        )
    for info in infos[:MOST_MEMBERS]:
        if info.filename.endswith("/"):  # a folder
            continue
        part = _InZip(_not_by_name(info.filename)[0], archive, info)
        try:
            reason = _not_in_zip(part)
        except (UnreadableError, OSError) as error:
            troubles.append(Trouble(f"{name}/{shown(info.filename)}", _said(error)))
            continue
        if reason is None:
            found.append(part)
        else:
            left_out[reason] += 1
    archive.given = 0
    in_order: list[Part] = [*sorted(found, key=lambda part: recognised.place(part.name))]
    return in_order, troubles


def _not_in_zip(part: _InZip) -> str | None:
    """Why this member is no log; an UnreadableError where it cannot be read."""
    if stat.S_ISLNK(part.info.external_attr >> 16):
        return recognised.LINK
    reason = _not_by_name(part.info.filename)[1]
    if reason is not None:
        return reason
    if part.info.flag_bits & 1:
        raise UnreadableError(say("it is encrypted"))
    if part.info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack without a bound
        raise UnreadableError(
            say("no log but {what}", what=say("compressed in a way that is not known here: unpack it first"))
        )
    with part.open() as stream:
        return recognised.not_by_content(part.name, _head(part.name, stream))
