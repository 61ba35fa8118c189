"""Named byte streams: files, standard input, folders, compressed files, in any encoding."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from oomdoctor.language import say
from oomdoctor.sources.folders import background, logs_in, why
from oomdoctor.sources.source import BLOCK, Source
from oomdoctor.sources.trouble import Trouble, shown

STDIN = "-"
STDIN_NAME = "<stdin>"


def gather(paths: Sequence[str], *, absolute: bool = False) -> tuple[list[Source], list[Trouble]]:
    """The logs behind the paths, in the order given, folders walked; no log twice.

    Troubles that show only while a log is read are the source's own.
    """
    sources: list[Source] = []
    troubles: list[Trouble] = []
    seen: set[tuple[int, int]] = set()
    names = _Names(paths, absolute=absolute)
    for path in dict.fromkeys(paths):
        if path == STDIN:
            sources.append(Source(STDIN_NAME, None))
            continue
        try:
            os.stat(path)  # noqa: PTH116  # Path("") would be the current folder
            files, met = _files(Path(path))
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            troubles.append(Trouble(names.missing(path), _why(error)))
            continue
        troubles += met
        if not files and not met:
            troubles.append(Trouble(shown(path), say("no logs in this folder")))
        sources += [
            Source(names.of(file), file, ends=file == Path(path) or not background(file)) for file in _new(files, seen)
        ]
    return sources, troubles


def _files(path: Path) -> tuple[list[Path], list[Trouble]]:
    return logs_in(path) if path.is_dir() else ([path], [])


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
        name = shown(os.path.relpath(path, self._parent) if self._parent else path)
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


__all__ = ["BLOCK", "STDIN", "Source", "Trouble", "gather", "shown"]
