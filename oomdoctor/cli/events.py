"""`oomdoctor dev events`."""

from __future__ import annotations

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Absolute, ExitZero, Output, Paths
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.reports import exit_code, read
from oomdoctor.cli.speech import for_others


def events(
    paths: Paths = None,
    output: Output = None,
    exit_zero: ExitZero = False,
    absolute_paths: Absolute = False,
    _lang: Lang = None,
) -> None:
    """Print every message that was read, one JSON object per line.

    \b
    Examples:
      oomdoctor dev events raylet.out | jq -c 'select(.role == "root")'

    Exits with 0 (no memory failure), 1 (a memory failure, or a request that Ray cannot place), 3 (something died and
    the log does not show whether of memory), 2 (wrong usage, or nothing could be read) or 70 (an error of oomdoctor
    itself).
    """
    from oomdoctor.report import as_json  # noqa: PLC0415

    for_others()
    report = read(paths, output, absolute=absolute_paths)
    out.write(as_json.event_lines(report), output)
    raise typer.Exit(exit_code(report, exit_zero=exit_zero))
