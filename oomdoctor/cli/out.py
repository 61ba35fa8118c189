"""Where the door writes: standard output or a file, in an encoding that takes everything; progress on a terminal."""

from __future__ import annotations

import codecs
import os
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

from msgspec import Struct

from oomdoctor.aside import replace
from oomdoctor.language import say
from oomdoctor.text import disarm, sanitize
from oomdoctor.units import show

NARROWEST = 20
PIPED_WIDTH = 100  # what a report in a file or a pager is set in, where COLUMNS does not say otherwise


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks as JSON and JavaScript write it; Python's own escapes are no JSON."""
    assert isinstance(error, UnicodeEncodeError)
    units = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    pairs = (units[at : at + 2].hex() for at in range(0, len(units), 2))
    return "".join(f"\\u{pair}" for pair in pairs), error.end


ESCAPED = "oomdoctor.escaped"
codecs.register_error(ESCAPED, _escaped)


class CannotWriteError(Exception):
    """The output cannot be written; the text says where and why."""


class Style(Struct, frozen=True):
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
        _write_file(Path(to), text.encode("utf-8", ESCAPED))
        return
    if sys.stdout is None:  # started with its standard output closed
        return
    encoded = text.encode(sys.stdout.encoding or "utf-8", ESCAPED)
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(encoded)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up(sys.stdout)
        raise CannotWriteError(say("standard output: {why}", why=error.strerror)) from error


def write_log(text: str, to: str | None = None) -> None:
    """A log's own lines, to a file or a pipe as they are; a terminal gets nothing that it would obey."""
    at_a_terminal = to in (None, "-") and _is_terminal(sys.stdout)
    write(disarm(text) if at_a_terminal else text, to)


def write_error(text: str) -> None:
    """The text to standard error; where that cannot be written, there is nobody to tell it to."""
    if sys.stderr is None:
        return
    encoding = sys.stderr.encoding or "utf-8"
    try:
        sys.stderr.write(text.encode(encoding, ESCAPED).decode(encoding))
        sys.stderr.flush()
    except BrokenPipeError:
        raise
    except OSError:
        _give_up(sys.stderr)


def _give_up(stream: IO[str]) -> None:
    """Or Python tries once more when it ends, complains in its own words and changes the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def check_folder(to: str | None) -> None:
    """Before the work, not after it: is there a folder for the output?"""
    if to is None or to == "-":
        return
    target = Path(to)
    try:
        is_folder, has_folder = target.is_dir(), target.parent.is_dir()
    except OSError as error:  # a name that is too long, a folder that is not ours to look into
        raise _cannot_write(to, error) from error
    if is_folder:
        raise CannotWriteError(say("{file}: it is a folder; name a file in it", file=to))
    if not has_folder:
        raise CannotWriteError(say("{file}: there is no folder {folder}; make it first", file=to, folder=target.parent))


def check_spares(to: str | None, inputs: Iterable[Path | None]) -> None:
    """Before the work: the output must not replace what is read (None: standard input), by whatever name."""
    if to is None or to == "-" or (os.path.exists(to) and not os.path.isfile(to)):  # noqa: PTH110, PTH113  (long names)
        return
    if any(_is_same(to, one) for one in inputs):
        raise CannotWriteError(say("{file}: it is one of the files to read; name another file", file=to))


def _is_same(to: str, read: Path | None) -> bool:
    """Also where neither is there yet: `watch` waits for its log."""
    with suppress(OSError, ValueError, AttributeError):  # gone since, or no standard input
        if read is not None and os.path.realpath(to) == os.path.realpath(read):
            return True
        return os.path.samefile(to, sys.stdin.fileno() if read is None else read)  # noqa: PTH121  (a number, too)
    return False


def _write_file(target: Path, data: bytes) -> None:
    try:
        if target.exists() and not target.is_file():  # /dev/stdout, a named pipe
            target.write_bytes(data)
        else:
            replace(target, data)
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself, until Python 3.13
        raise _cannot_write(str(target), error) from error


def _cannot_write(file: str, error: OSError | RuntimeError) -> CannotWriteError:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return CannotWriteError(f"{file}: {why}")


def tell(message: str) -> None:
    """One line on standard error, whatever a file's name has in it."""
    write_error(one_line(f"oomdoctor: {message}") + "\n")


def one_line(message: str) -> str:
    """Words that no terminal and, behind "##[", no runner of GitHub's obeys."""
    return sanitize(message).replace("##[", "## [")


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
            write_error("\r" + say("read {size}", size=f"{show(read_bytes):<12}"))

    def done(self) -> None:
        if self._shown:
            write_error(f"\r{'':<20}\r")


def progress() -> Progress | None:
    """None where nobody looks at it."""
    return Progress() if _is_terminal(sys.stderr) else None
