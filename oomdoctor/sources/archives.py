"""The logs inside a tar or zip archive, read as streams: nothing is unpacked to the disk.

A member is a stretch of the archive's bytes and a name to print. Links, devices, sparse files and names that lead out
of the archive are left out, archives in archives are not opened, and what comes out of a small archive is bounded.
"""

from __future__ import annotations

import io
import stat
import tarfile
import weakref
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, Protocol, cast

from oomdoctor.language import say
from oomdoctor.records import dataclass
from oomdoctor.sources import recognised, unpack
from oomdoctor.sources.trouble import Trouble, UnreadableError, shown, why

MOST_MEMBERS: Final = 200_000
LONGEST_HEADER: Final = 64 * 1024  # of a long name or of its attributes; they are read whole
BLOCK: Final = 1024 * 1024
# The headers that `tarfile` reads to their end before the member's own
_READ_WHOLE: Final = (
    *(tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK),
    *(tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE),
)


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
    """A stream of which each read gives as much as is asked for, as `tarfile` wants it."""

    def __init__(self, tar: _Unpacked) -> None:
        self._tar = tar

    def read(self, size: int) -> bytes:
        parts = []
        while size > 0 and (data := self._tar.read(size)):
            parts.append(data)
            size -= len(data)
        return b"".join(parts)


class _Header(tarfile.TarInfo):
    """A header of bounded size: names and attributes are read into memory before anything looks at them."""

    # Every release of Python calls this before it reads on behind a header; the newest ones no longer call `frombuf`.
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _READ_WHOLE and self.size > LONGEST_HEADER:
            raise tarfile.ReadError
        return cast("tarfile.TarInfo", super()._proc_member(archive))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class _InTar:
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
    try:
        with closing(tar):
            for member, stream in _members(tar, left_out):
                inside, reason = _not_by_name(member.name)
                reason = reason or recognised.not_by_content(inside, _head(inside, stream))
                if reason is None:
                    found.append(_InTar(inside, tar, member.offset_data, member.size))
                else:
                    left_out[reason] += 1
            packed = tar.compressed
    except UnreadableError as error:
        packed = True
        troubles.append(Trouble(name, str(error)))
    except OSError as error:
        packed = True
        troubles.append(Trouble(name, why(error)))
    except tarfile.TarError:
        packed = True
        troubles.append(Trouble(name, say("damaged {format} file: read up to the damage", format="tar")))
    in_order: list[Part] = [*sorted(found, key=lambda part: _turn(part, packed=packed))]
    return in_order, troubles


def _turn(part: _InTar, *, packed: bool) -> tuple[float, object]:
    """A compressed archive is read once for every kind of log, not once for every log."""
    rank, *rest = recognised.place(part.name)
    return rank, part.offset if packed else rest


def _members(tar: _Unpacked, left_out: Counter[str]) -> Iterator[tuple[tarfile.TarInfo, BinaryIO]]:
    with tarfile.open(fileobj=_Whole(tar), mode="r|", tarinfo=_Header) as archive:  # type: ignore[call-overload]
        for number, member in enumerate(archive):
            if number == MOST_MEMBERS:
                raise UnreadableError(say("it holds more than {count} files: read only those", count=f"{number:,}"))
            archive.members.clear()  # it would keep them all
            if member.issym() or member.islnk():
                left_out[recognised.LINK] += 1
            elif member.isreg() and not member.issparse():
                yield member, archive.extractfile(member)


# --- zip -------------------------------------------------------------------------------------------------------------


class _Zip:
    """An archive of which no more is unpacked than a log may hold, over all of its members."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.most = min(unpack.LARGEST, max(unpack.FREE_OF_RATIO, unpack.HIGHEST_RATIO * path.stat().st_size))
        self.given = 0


@dataclass(frozen=True, slots=True)
class _InZip:
    name: PurePosixPath
    archive: _Zip
    info: zipfile.ZipInfo

    def open(self) -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Inflated(self), BLOCK))


class _Inflated(io.RawIOBase):
    """A member of a zip; what is wrong with it is said as of any other log."""

    def __init__(self, part: _InZip) -> None:
        self._counted = part.archive
        try:
            self._archive = zipfile.ZipFile(part.archive.path)
            self._stream = self._archive.open(part.info)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
            raise UnreadableError(say("damaged {format} file: read up to the damage", format="zip")) from error

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._counted.given > self._counted.most:
            raise UnreadableError(
                say("{format} file unpacks to more than {size} bytes: read only that far",
                    format="zip", size=f"{self._counted.most:,}")
            )  # fmt: skip
        try:
            data = self._stream.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError) as error:
            raise UnreadableError(say("damaged {format} file: read up to the damage", format="zip")) from error
        self._counted.given += len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._archive.close()
        super().close()


def _of_zip(path: Path, name: str, left_out: Counter[str]) -> Listing:
    found: list[_InZip] = []
    troubles = []
    try:
        archive = _Zip(path)
        with zipfile.ZipFile(path) as opened:
            infos = opened.infolist()
    except OSError as error:
        return [], [Trouble(name, why(error))]
    except (zipfile.BadZipFile, NotImplementedError, UnicodeDecodeError):
        damaged = say("damaged {format} file: read up to the damage", format="zip")
        return [], [Trouble(name, damaged)]
    if len(infos) > MOST_MEMBERS:
        troubles.append(
            Trouble(name, say("it holds more than {count} files: read only those", count=f"{MOST_MEMBERS:,}"))
        )
    for info in infos[:MOST_MEMBERS]:
        if info.is_dir():
            continue
        part = _InZip(_not_by_name(info.filename)[0], archive, info)
        try:
            reason = _not_in_zip(part)
        except (UnreadableError, OSError) as error:
            said = why(error) if isinstance(error, OSError) else str(error)
            troubles.append(Trouble(f"{name}/{shown(info.filename)}", said))
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
