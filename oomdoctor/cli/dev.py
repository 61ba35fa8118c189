"""`oomdoctor dev`."""

from __future__ import annotations

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang


def dev(ctx: typer.Context, _lang: Lang = None) -> None:
    """Commands for programs that build on oomdoctor, and for its classifier.

    \b
    Commands:
      oomdoctor dev events   every message that was read, as JSON lines
      oomdoctor dev schema   the JSON Schema of a report
      oomdoctor dev bench    how many labelled logs get the right diagnosis
      oomdoctor dev train    the classifier, with your labelled logs added
    """
    out.write(ctx.get_help() + "\n")
