"""`oomdoctor watch`."""

from __future__ import annotations

import os
import queue
import signal
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Color, Output
from oomdoctor.cli.quick import Lang, one_of
from oomdoctor.cli.reports import COLORS, NO_FAILURE, STDIN, UNREADABLE, exit_code, rendered
from oomdoctor.cli.speech import for_others
from oomdoctor.language import say

if TYPE_CHECKING:
    from oomdoctor.live import Live
    from oomdoctor.redaction.learned import Listener
    from oomdoctor.report.contract import Report

FORMATS: Final = ("text", "jsonl", "markdown")
POLL_S: Final = 0.25
BLOCK: Final = 256 * 1024
WAITING: Final = 4  # blocks that are read and not yet looked at; then whoever writes the log into a pipe waits


def watch(
    path: Annotated[
        str | None,
        typer.Argument(metavar="PATH", show_default=False, help="A log that is being written; - or none: a pipe."),
    ] = None,
    form: Annotated[
        str,
        typer.Option("-f", "--format", metavar="|".join(FORMATS), callback=one_of(*FORMATS), help="What to print."),
    ] = "text",
    output: Output = None,
    tee: Annotated[
        bool, typer.Option("--tee", help="Copy the log to standard output; diagnoses go to standard error.")
    ] = False,
    redact: Annotated[
        bool | None,
        typer.Option(
            "--redact/--no-redact",
            show_default=False,
            help="Take out secrets, hosts and names, or keep them. Default: only for markdown.",
        ),
    ] = None,
    color: Color = COLORS[0],
    _lang: Lang = None,
) -> None:
    """Follow a log: warn while memory grows, diagnose a failure at once.

    \b
    Examples:
      oomdoctor watch train.log
      python train.py 2>&1 | oomdoctor watch --tee > train.log
      ray job logs --follow ID | oomdoctor watch
      oomdoctor watch train.log --format markdown -o crash.md

    The diagnosis comes two seconds after the last line of a failure, after ten seconds if other processes go on
    writing, or at the end of the log; again if later lines change it. With -o, the file holds the latest diagnosis.

    A file is followed until Ctrl-C, also through rotation; train.log@2 is the second file of that name. A pipe is read
    to its end: Ctrl-C also reaches the job, whose last words are still read; a second Ctrl-C stops the watch.

    Exits with the result of the last diagnosis: 0 (no failure so far), 1 (a memory failure, or a request that Ray
    cannot place), 3 (something died and the log does not show whether of memory); with 2 (wrong usage, or the log could
    not be read) or 70 (an error of oomdoctor itself).
    """
    from oomdoctor.live import Live  # noqa: PLC0415  (not for --help)
    from oomdoctor.sources.trouble import shown  # noqa: PLC0415

    if form != "text":
        for_others()
    if tee and output == STDIN:
        raise typer.BadParameter(
            say("with --tee, standard output carries the log: name a file for -o"), param_hint="--output"
        )
    out.check_folder(output)
    given = path or STDIN
    _check(given, from_a_pipe=path is None)
    if given != STDIN:
        out.check_spares(output, [Path(given)])
    reader = _Reader(given, tee=tee)
    watched = Live("<stdin>" if given == STDIN else shown(Path(given).name))
    listener = _listener(watched.name) if (form == "markdown" if redact is None else redact) else None
    told = _Told(form, output, color, tee=tee, listener=listener)
    if given == STDIN or _is_a_pipe(given):
        _wait_for_last_words()
    reader.start()
    try:
        told.tell(watched.end(time.monotonic(), ends=_follow(reader, watched, told)))
    except Exception:
        reader.pass_on_the_rest()  # the job must not die of us
        raise
    if reader.why_not is not None:
        out.tell(f"{watched.name}: {reader.why_not}")
    if told.code == NO_FAILURE:
        _warn(watched, at_the_end=True)  # a failure's report has the growth in it
        if reader.why_not is not None:
            raise typer.Exit(UNREADABLE)
        out.tell(say("{file}: no failure so far", file=watched.name))
    raise typer.Exit(told.code)


def _check(path: str, *, from_a_pipe: bool) -> None:
    if path == STDIN:
        if sys.stdin is None or sys.stdin.closed or (from_a_pipe and out.stdin_is_terminal()):
            raise typer.BadParameter(
                say("name a log, or pipe one in: {command}", command="oomdoctor watch train.log"), param_hint="PATH"
            )
    elif os.path.isdir(path):  # noqa: PTH112  (Path's fails on a long name)
        raise typer.BadParameter(say("{file} is a folder: name one log in it", file=path), param_hint="PATH")
    elif not os.path.exists(path):  # noqa: PTH110
        if not os.path.isdir(Path(path).parent):  # noqa: PTH112
            raise typer.BadParameter(
                say("{file}: there is no folder {folder}; make it first", file=path, folder=Path(path).parent),
                param_hint="PATH",
            )
        out.tell(say("{file} does not exist yet: waiting for it", file=path))


def _wait_for_last_words() -> None:
    """Let the first Ctrl-C be the job's alone: where nobody reads its pipe any more, what it saves and says is lost."""
    signal.signal(signal.SIGINT, lambda *_: signal.signal(signal.SIGINT, signal.default_int_handler))


class _Told:
    """What was said, and what it makes of the exit code."""

    def __init__(self, form: str, output: str | None, color: str, *, tee: bool, listener: Listener | None) -> None:
        self.code = NO_FAILURE
        self._form = form
        self._output = output
        self._color = color
        self._tee = tee
        self._listener = listener

    def tell(self, report: Report | None) -> None:
        """Print a diagnosis where one is."""
        if report is None:
            return
        self.code = exit_code(report, exit_zero=False)
        shown = self._listener.redactor().report(report) if self._listener else report
        to_file = self._output not in (None, STDIN)
        look = out.style(self._color, to_file=to_file or self._tee)
        words = rendered(shown, self._form, look, redacted=self._listener is not None, verbose=False)
        if self._tee and not to_file:
            out.write_error(words)
        else:
            out.write(words, self._output)

    def hear(self, block: bytes) -> None:
        """What the log tells beside its failures."""
        if self._listener is not None:
            self._listener.hear(block)


def _listener(name: str) -> Listener:
    from oomdoctor.redaction.learned import Listener  # noqa: PLC0415  (one's own terminal has no use for it)

    return Listener(name)


def _follow(reader: _Reader, watched: Live, told: _Told) -> bool:
    """Until the log ends, or the watching of it: whether it was the log."""
    try:
        while True:
            item = reader.wait(0)
            now = time.monotonic()
            if item is None:
                told.tell(watched.look(now))
                _warn(watched)
                item = reader.wait(POLL_S)
            if item is _END:
                return True
            if item is _ANOTHER:
                told.tell(watched.rotated(now))
            elif item is not None:
                told.hear(item)
                told.tell(watched.take(item, now))
    except KeyboardInterrupt:
        return False


def _warn(watched: Live, *, at_the_end: bool = False) -> None:
    for warning in watched.climbs(time.monotonic(), at_the_end=at_the_end):
        out.tell(f"{watched.name}: {warning}")


_END: Final = b"the end"  # told from the log's own bytes by being these very objects
_ANOTHER: Final = b"another file"


class _Reader(threading.Thread):
    """Reads the log, and passes it through, while another thread looks at it."""

    def __init__(self, path: str, *, tee: bool) -> None:
        super().__init__(daemon=True)
        self.why_not: str | None = None  # the log was not read to its end
        self._path = path
        self._tee = tee
        self._items: queue.Queue[bytes] = queue.Queue(WAITING)

    def wait(self, seconds: float) -> bytes | None:
        """The next block, the end or the beginning of another file; None where nothing comes."""
        try:
            return self._items.get(timeout=seconds) if seconds else self._items.get_nowait()
        except queue.Empty:
            return None

    def pass_on_the_rest(self) -> None:
        """Where nobody looks at the log any more."""
        while self._tee and self._items.get() is not _END:
            pass

    def run(self) -> None:
        from oomdoctor.sources.text import Text  # noqa: PLC0415  (not for --help)
        from oomdoctor.sources.trouble import UnreadableError, why  # noqa: PLC0415

        text = Text()
        try:
            for block in _blocks(self._path):
                if block is _ANOTHER:
                    text = Text()
                    self._items.put(block)
                    continue
                if self._tee:
                    _pass_on(block)
                try:
                    readable = text.utf8(block)
                except UnreadableError as error:
                    self.why_not = str(error)
                if self.why_not is None:
                    self._items.put(readable)
                elif not self._tee:
                    break
        except OSError as error:
            self.why_not = why(error)
        self._items.put(_END)


def _blocks(path: str) -> Iterator[bytes]:
    if path == STDIN:
        yield from _piped(sys.stdin.fileno())
    elif _is_a_pipe(path):
        with Path(path).open("rb") as pipe:
            yield from _piped(pipe.fileno())
    else:
        yield from _written(Path(path))


def _is_a_pipe(path: str) -> bool:
    return Path(path).exists() and not stat.S_ISREG(Path(path).stat().st_mode)


def _piped(descriptor: int) -> Iterator[bytes]:
    with suppress(OSError):  # whoever started us may have left it non-blocking
        os.set_blocking(descriptor, True)
    while block := os.read(descriptor, BLOCK):
        yield block


def _written(path: Path) -> Iterator[bytes]:
    from oomdoctor.sources.follow import Followed  # noqa: PLC0415  (not for --help)

    files = 1
    with closing(Followed(path)) as log:
        while True:
            block = log.read()
            if log.files > files:
                files = log.files
                yield _ANOTHER
            if block:
                yield block
            else:
                time.sleep(POLL_S)


def _pass_on(block: bytes) -> None:
    if sys.stdout is None:  # started with its standard output closed
        return
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]
