"""The logs of a folder and of those below it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from oomdoctor.sources import recognised, unpack
from oomdoctor.sources.trouble import Trouble, UnreadableError, shown, why


def logs_in(folder: Path, left_out: Counter[str]) -> tuple[list[Path], list[Trouble]]:
    """The logs in the folder and in those below it, without following links, and the folders nobody may read.

    `left_out` counts the other files, by the reason.
    """
    troubles: list[Trouble] = []
    found = []
    for path in _files(folder, troubles, left_out):
        reason = _not_a_log(path)
        if reason is None:
            found.append(path)
        else:
            left_out[reason] += 1
    return sorted(found, key=lambda path: recognised.place(path.relative_to(folder))), troubles


def _files(folder: Path, troubles: list[Trouble], left_out: Counter[str]) -> Iterator[Path]:
    def tell(error: OSError) -> None:
        troubles.append(Trouble(shown(error.filename), why(error)))

    for at, folders, files in os.walk(folder, onerror=tell):
        folders[:] = [name for name in folders if not recognised.skips(name)]
        for name in files:
            path = Path(at, name)
            if path.is_symlink():
                left_out[recognised.LINK] += 1
            elif path.is_file():
                yield path


def _not_a_log(path: Path) -> str | None:
    reason = recognised.not_by_name(path)
    if reason is not None and not recognised.may_be_snapshot(path):
        return reason
    try:
        with path.open("rb") as stream:
            head = next(unpack.unpacked(stream, recognised.sample(path)), b"")
    except (OSError, UnreadableError):
        return reason  # without one, reading it will say what is wrong
    return recognised.not_by_content(path, head) if reason is None or recognised.is_snapshot(head) else reason
