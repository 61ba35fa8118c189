"""Named byte streams: files, standard input, folders, archives, compressed files, in any encoding."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from oomdoctor.language import say, translated
from oomdoctor.sources import unpack
from oomdoctor.sources.folders import logs_in
from oomdoctor.sources.recognised import background, turn
from oomdoctor.sources.source import BLOCK, InMemory, Source
from oomdoctor.sources.trouble import Trouble, shown, why
from oomdoctor.units import show

STDIN = "-"
STDIN_NAME = "<stdin>"


class Found(Struct, frozen=True):
    """The logs behind what the user named."""

    sources: list[Source]
    troubles: list[Trouble]
    left_out: Counter[str] | None = None  # the other files, by the reason; None where no folder or archive was named

    def summary(self) -> tuple[str, ...]:
        """One line on what was read of folders and archives, once it is read, and what was left out."""
        if self.left_out is None:
            return ()
        read = [source.size for source in self.sources if source.size]
        return (read_and_left_out(len(read), sum(read), self.left_out),)


def read_and_left_out(logs: int, size: int, left_out: Counter[str]) -> str:
    """How many logs were read, of which size, and how many files were not."""
    if not left_out:
        return say("logs read: {count} ({size}); nothing left out", count=f"{logs:,}", size=show(size))
    reasons = [say("{what} ({count})", what=translated(what), count=n) for what, n in sorted(left_out.items())]
    others = ", ".join(reasons)
    return say("logs read: {count} ({size}); left out: {others}", count=f"{logs:,}", size=show(size), others=others)


def gather(paths: Sequence[str], *, absolute: bool = False) -> tuple[list[Source], list[Trouble]]:
    """The logs behind the paths, folders and archives opened; no log twice.

    Those of a Ray session stand in an order of their own, so that another order of the paths tells nothing else; all
    others in the order given.

    Troubles that show only while a log is read are the source's own.
    """
    found = look(paths, absolute=absolute)
    return found.sources, found.troubles


def look(paths: Sequence[str], *, absolute: bool = False) -> Found:
    """As `gather`, and what was left out of folders and archives."""
    sources: list[Source] = []
    troubles: list[Trouble] = []
    left_out: Counter[str] = Counter()
    opened = False
    seen: set[tuple[int, int]] = set()
    names = _Names(paths, absolute=absolute)
    for given in dict.fromkeys(paths):
        if given == STDIN:
            sources.append(Source(STDIN_NAME, None))
            continue
        path = Path(given)
        try:
            is_folder = stat.S_ISDIR(os.stat(given).st_mode)  # noqa: PTH116  # Path("") would be the current folder
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            troubles.append(Trouble(names.missing(given), _why(error)))
            continue
        if is_folder:
            files, met = logs_in(path, left_out)
            troubles += met
            if not files and not met:
                troubles.append(Trouble(shown(given), say("no logs in this folder")))
            sources += [Source(names.of(file), file, ends=not background(file)) for file in _new(files, seen)]
            opened = True
            continue
        for file in _new([path], seen):
            name = names.of(file)
            inside = _inside(file, name, names, left_out)
            opened = opened or inside is not None
            found, met = inside or ([Source(name, file)], [])
            sources += found
            troubles += met
    sources.sort(key=lambda source: turn(PurePath(source.name)))
    return Found(sources, troubles, left_out if opened else None)


def _inside(file: Path, name: str, names: _Names, left_out: Counter[str]) -> tuple[list[Source], list[Trouble]] | None:
    """The logs in an archive; None if the file is none, or holds none."""
    kind = unpack.archive(file) if file.is_file() else None
    if kind is None:
        return None
    from oomdoctor.sources.archives import listing  # noqa: PLC0415  (few logs come in archives)

    logs, troubles = listing(file, name, kind, left_out)
    if not logs and not troubles:
        return None  # reading it will say what it is
    return [
        Source(names.unique(f"{name}/{shown(str(part.name))}"), file, ends=not background(part.name), part=part)
        for part in logs
    ], troubles


def _new(files: Iterable[Path], seen: set[tuple[int, int]]) -> list[Path]:
    """Those that no other input named already, under this or another name."""
    fresh = []
    for file in files:
        try:
            known = file.stat()
        except OSError:  # vanished since the folder was listed: reading it will say so
            fresh.append(file)
            continue
        key = (known.st_dev, known.st_ino)
        if key not in seen:
            seen.add(key)
            fresh.append(file)
    return fresh


class _Names:
    """The names under which the report speaks of files: relative to the inputs' common parent."""

    def __init__(self, paths: Iterable[str], *, absolute: bool) -> None:
        self._taken: dict[str, int] = {}
        self._parent = ""
        parents = {_parent(path) for path in paths if path != STDIN and os.path.exists(path)}  # noqa: PTH110
        if parents and not absolute:
            try:
                self._parent = os.path.commonpath(parents)
            except ValueError:  # on several Windows drives
                self._parent = ""

    def of(self, file: Path) -> str:
        path = os.path.abspath(file)  # noqa: PTH100  # resolve() would follow links
        return self.unique(shown(os.path.relpath(path, self._parent) if self._parent else path))

    def unique(self, name: str) -> str:
        count = self._taken[name] = self._taken.get(name, 0) + 1
        return name if count == 1 else f"{name} ({count})"

    def missing(self, path: str) -> str:
        """As typed, unless it can be told from the inputs' common parent."""
        inside = bool(self._parent) and os.path.isabs(path) and path.startswith(self._parent + os.sep)  # noqa: PTH117
        return shown(os.path.relpath(path, self._parent) if inside else path)


def _parent(path: str) -> str:
    path = os.path.abspath(path)  # noqa: PTH100
    return path if os.path.isdir(path) else os.path.dirname(path)  # noqa: PTH112, PTH120


def _why(error: OSError | ValueError) -> str:
    return why(error) if isinstance(error, OSError) else say("no such file")


__all__ = ["BLOCK", "STDIN", "Found", "InMemory", "Source", "Trouble", "gather", "look", "read_and_left_out", "shown"]
