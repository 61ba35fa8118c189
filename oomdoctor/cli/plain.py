"""`oomdoctor diagnose LOG ...` with nothing but logs, as most people type it.

Nothing in it needs Typer, whose import and whose options take a tenth of the time of a small log's diagnosis.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextvars import copy_context

_COMMAND = "diagnose"


def logs_of(words: Sequence[str]) -> list[str] | None:
    """The logs of such a command line; None of any other, and on Windows, where Typer does what shells do elsewhere."""
    command, *logs = words or [""]
    if command != _COMMAND or not logs or any(log.startswith("-") and log != "-" for log in logs):
        return None
    return logs if os.name != "nt" else None


def diagnose(logs: list[str]) -> int:
    """The report on these logs on standard output, and the exit code."""
    return copy_context().run(_diagnose, logs)


def _diagnose(logs: list[str]) -> int:
    from oomdoctor.cli import reports, speech  # noqa: PLC0415

    speech.begin()
    return reports.diagnosed(logs)
