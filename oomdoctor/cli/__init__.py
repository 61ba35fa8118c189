"""The door: it parses the command line, calls the library, picks a renderer and maps the outcome to an exit code."""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import NoReturn

OUR_OWN_ERROR = 70
INTERRUPTED = 130
UNUSABLE = 2


def main() -> NoReturn:
    """The entry point `oomdoctor`."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends us as it ends other tools: at once and silently
    gc.set_threshold(
        100_000, 50, 50
    )  # a start makes many objects that stay; looking through them again and again is 5 %
    try:
        from oomdoctor.cli.app import app  # noqa: PLC0415  (imports take a moment, in which Ctrl-C may come)

        app(prog_name="oomdoctor")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:  # noqa: BLE001  (the last one to catch it)
        sys.exit(_failed(error))
    sys.exit(0)


def _failed(error: Exception) -> int:
    from oomdoctor.cli import out  # noqa: PLC0415
    from oomdoctor.language import say, spoken, use  # noqa: PLC0415

    use(spoken())  # what the command line asked for is gone with it

    if isinstance(error, out.CannotWriteError):
        out.tell(say("cannot write to {place}", place=error))
        return UNUSABLE
    from oomdoctor.classifier.model import ModelError  # noqa: PLC0415

    if isinstance(error, ModelError):
        out.tell(f"OOMDOCTOR_MODEL: {error}")
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
            "an error of our own: {error}. Please report it (CONTRIBUTING.md says how) with what the same command "
            "prints under OOMDOCTOR_DEBUG=1",
            error=type(error).__name__ + where,
        )
    )
    return OUR_OWN_ERROR
