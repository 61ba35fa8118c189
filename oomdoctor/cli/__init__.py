"""The door: it parses the command line, calls the library, picks a renderer and maps the outcome to an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
from typing import NoReturn

OUR_OWN_ERROR = 70
INTERRUPTED = 130
UNUSABLE = 2
ENDING = ("SIGTERM", "SIGHUP")


class _Ended(BaseException):
    """Another process asked this one to end: on the way out what was begun is cleared away."""


def main() -> NoReturn:
    """The entry point `oomdoctor`."""
    _heed_those_who_end_us()
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us as it ends other tools: at once and silently
    # A start and a report make a hundred thousand objects, which stay up to the end: to look through them for cycles
    # takes 7 % of their time once they are made, and 20 % when Python ends.
    gc.set_threshold(250_000, 50, 50)
    atexit.register(gc.freeze)
    try:
        sys.exit(_run(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except _Ended as end:
        number = end.args[0]
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # so that whoever waits for us is told of what we died
        sys.exit(128 + number)
    except Exception as error:  # noqa: BLE001  (the last one to catch it)
        sys.exit(_failed(error))


def _run(words: list[str]) -> int:
    from oomdoctor.cli import plain  # noqa: PLC0415  (imports take a moment, in which Ctrl-C may come)

    logs = plain.logs_of(words)
    if logs is not None:
        return plain.diagnose(logs)
    from oomdoctor.cli.commands import app_for  # noqa: PLC0415

    app_for(words)(prog_name="oomdoctor")
    return 0


def _heed_those_who_end_us() -> None:
    """Those that this process was started to ignore (nohup) are still ignored."""

    def end(number: int, _: object) -> None:
        raise _Ended(number)

    for number in (getattr(signal, name) for name in ENDING if hasattr(signal, name)):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def _failed(error: Exception) -> int:
    from oomdoctor.cli import out  # noqa: PLC0415
    from oomdoctor.language import say, spoken, use  # noqa: PLC0415

    use(spoken())  # what the command line asked for is gone with it

    if isinstance(error, out.CannotWriteError):
        out.tell(say("cannot write to {place}", place=error))
        return UNUSABLE
    from oomdoctor.decision.model import ModelError  # noqa: PLC0415

    if isinstance(error, ModelError):
        out.tell(
            say(
                "OOMDOCTOR_MODEL: {error}; unset it, or set it to a file that `oomdoctor dev train -o FILE` wrote",
                error=error,
            )
        )
        return UNUSABLE
    if isinstance(error, MemoryError):
        out.tell(
            say("not enough memory to read these logs: name fewer or smaller logs, or use a machine with more memory")
        )
        return UNUSABLE
    if os.environ.get("OOMDOCTOR_DEBUG"):
        raise error
    # Without the error's own text: it may quote the log.
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" at {trace.tb_frame.f_globals.get('__name__')}:{trace.tb_lineno}" if trace is not None else ""
    out.tell(
        say(
            "a bug in oomdoctor: {error}. Please report it (see CONTRIBUTING.md) with the output of the same "
            "command under OOMDOCTOR_DEBUG=1",
            error=type(error).__name__ + where,
        )
    )
    return OUR_OWN_ERROR
