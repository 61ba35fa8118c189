"""Where the door writes: standard output or a file, in an encoding that takes everything; progress on a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from oomdoctor.language import say
from oomdoctor.records import dataclass
from oomdoctor.text import sanitize
from oomdoctor.units import show

NARROWEST = 20
PIPED_WIDTH = 100  # what a report in a file or a pager is set in, where COLUMNS does not say otherwise


class CannotWriteError(Exception):
    """The output cannot be written; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Style:
    """How a text may look where it goes."""

    width: int
    color: bool
    unicode: bool


def style(choice: str, *, to_file: bool = False, environ: Mapping[str, str] = os.environ) -> Style:
    """What the place of the output can show, and what its reader asked for (`--color`, NO_COLOR, FORCE_COLOR)."""
    terminal = not to_file and _is_terminal(sys.stdout)
    dumb = environ.get("TERM", "") in ("dumb", "unknown")
    if choice == "auto":
        color = not to_file and not environ.get("NO_COLOR")
        color = color and (bool(environ.get("FORCE_COLOR")) or (terminal and not dumb))
    else:
        color = choice == "always"
    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return Style(width=_width(environ, terminal), color=color, unicode=terminal and utf8 and not dumb)


def _width(environ: Mapping[str, str], terminal: bool) -> int:
    columns = environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        return max(NARROWEST, int(columns))
    if not terminal:
        return PIPED_WIDTH
    try:
        return max(NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns or PIPED_WIDTH)
    except OSError:
        return PIPED_WIDTH


def columns(environ: Mapping[str, str] = os.environ) -> int | None:
    """How wide a table may be: as the terminal or COLUMNS is; None where it goes to a program, which reads lines."""
    terminal = _is_terminal(sys.stdout)
    return _width(environ, terminal) if terminal or environ.get("COLUMNS", "").isdecimal() else None


def _is_terminal(stream: IO[str] | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def stdin_is_terminal() -> bool:
    """True also where there is no standard input at all."""
    return sys.stdin is None or sys.stdin.closed or sys.stdin.isatty()


def write(text: str, to: str | None = None) -> None:
    """The text to standard output, or to a file that is there whole or not at all."""
    if to is not None and to != "-":
        _write_file(Path(to), text.encode("utf-8", "backslashreplace"))
        return
    if sys.stdout is None:  # started with its standard output closed
        return
    encoded = text.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(encoded)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        # Or Python tries once more when it ends, and complains in its own words.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise CannotWriteError(say("standard output: {why}", why=error.strerror)) from error


def write_error(text: str) -> None:
    """The text to standard error, where standard output is another's."""
    if sys.stderr is not None:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stderr.flush()


def check_folder(to: str | None) -> None:
    """Before the work, not after it: is there a folder for the output?"""
    if to is not None and to != "-":
        if Path(to).is_dir():
            raise CannotWriteError(say("{file}: it is a folder; name a file in it", file=to))
        if not Path(to).parent.is_dir():
            raise CannotWriteError(
                say("{file}: there is no folder {folder}; make it first", file=to, folder=Path(to).parent)
            )


def check_spares(to: str | None, inputs: Iterable[Path | None]) -> None:
    """Before the work: the output must not replace one of the logs (None: standard input), by whatever name."""
    if to is None or to == "-" or not Path(to).is_file():
        return
    for log in inputs:
        with suppress(OSError, ValueError, AttributeError):  # gone since, or no standard input
            if os.path.samefile(to, sys.stdin.fileno() if log is None else log):  # noqa: PTH121  (a number, too)
                raise CannotWriteError(say("{file}: it is one of the logs to read; name another file", file=to))


def _write_file(target: Path, data: bytes) -> None:
    aside = None
    try:
        if target.exists() and not target.is_file():  # /dev/stdout, a named pipe
            target.write_bytes(data)
            return
        target = target.resolve()  # a link stays a link
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        aside.write_bytes(data)
        aside.replace(target)
    except OSError as error:
        if aside is not None:
            aside.unlink(missing_ok=True)
        raise CannotWriteError(f"{target}: {error.strerror}") from error


def tell(message: str) -> None:
    """One line on standard error, whatever a file's name has in it."""
    if sys.stderr is not None:
        encoding = sys.stderr.encoding or "utf-8"
        words = sanitize(f"oomdoctor: {message}").replace("##[", "## [")  # which GitHub's runner would obey
        line = words.encode(encoding, "backslashreplace").decode(encoding)
        print(line, file=sys.stderr)  # noqa: T201


class Progress:
    """How many bytes are read, on a terminal's standard error, from the moment it takes long."""

    PATIENCE_S = 1.0
    PAUSE_S = 0.1

    def __init__(self) -> None:
        self._next = time.monotonic() + self.PATIENCE_S
        self._shown = False

    def __call__(self, read_bytes: int) -> None:
        """So many bytes of all inputs are read."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.PAUSE_S
            self._shown = True
            sys.stderr.write("\r" + say("read {size}", size=f"{show(read_bytes):<12}"))
            sys.stderr.flush()

    def done(self) -> None:
        if self._shown:
            sys.stderr.write(f"\r{'':<20}\r")
            sys.stderr.flush()


def progress() -> Progress | None:
    """None where nobody looks at it."""
    return Progress() if _is_terminal(sys.stderr) else None
