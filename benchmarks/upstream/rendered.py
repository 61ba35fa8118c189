"""A string as a user sees it: by how it is printed (frames of printers.toml)."""

from __future__ import annotations

from functools import cache
from pathlib import Path, PurePosixPath

import msgspec
from msgspec import Struct

from benchmarks.upstream.figures import filled
from benchmarks.upstream.text import Level, Printed


class Printer(Struct, frozen=True):
    """What prints a string, in these languages."""

    call: str
    languages: tuple[str, ...]
    frame: str
    stream: bool = False
    level: Level = "failure"


class Printers(Struct, frozen=True):
    frames: dict[str, str]
    levels: dict[str, Level]
    printer: tuple[Printer, ...]


@cache
def table() -> Printers:
    return msgspec.toml.decode((Path(__file__).parent / "printers.toml").read_bytes(), type=Printers)


def rendered(printed: Printed) -> str:
    path = PurePosixPath(printed.path)
    grave = printed.name.lower()
    level = grave if grave in table().levels else "warn" if printed.frame == "nccl" else "error"
    text = filled(printed.pieces)
    about = {
        "path": printed.path,
        "file": path.name,
        "stem": path.stem,
        "line": printed.line,
        "function": printed.function,
        "source": f"raise {printed.name.rpartition('.')[2]}(",
        "name": printed.name or "Error",
        "condition": "status.ok()",
        "letter": level[0].upper(),
        "level": level,
        "LEVEL": level.upper(),
        "module": module(printed.path),
    }
    frame = table().frames[printed.frame].removeprefix("\n")
    return frame.format(text=text, **about)


def module(path: str) -> str:
    """What a file is imported as."""
    parts = PurePosixPath(path).with_suffix("").parts
    return ".".join(part for part in parts if part not in ("src", "python", "__init__"))
