"""`oomdoctor compare`."""

from __future__ import annotations

from typing import Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Absolute, Output
from oomdoctor.cli.quick import Lang, one_of
from oomdoctor.cli.reports import STDIN, UNREADABLE, facts
from oomdoctor.cli.speech import for_others
from oomdoctor.language import say

FORMATS = ("text", "json")
NOTHING_EXPLAINS, EXPLAINED, NOT_SHOWN = 0, 1, 3


def compare(
    good: Annotated[str, typer.Argument(metavar="GOOD", show_default=False, help="The log of the run that worked.")],
    bad: Annotated[str, typer.Argument(metavar="BAD", show_default=False, help="The log of the run that crashed.")],
    form: Annotated[
        str,
        typer.Option("-f", "--format", metavar="|".join(FORMATS), callback=one_of(*FORMATS), help="What to print."),
    ] = "text",
    output: Output = None,
    absolute_paths: Absolute = False,
    _lang: Lang = None,
) -> None:
    """Compare a run that worked with the one that crashed.

    \b
    Examples:
      oomdoctor compare yesterday.log today.log
      oomdoctor compare good/ bad/ --format json -o difference.json

    Shows the settings, versions, models, hardware, memory peaks and ledgers that differ. First come the changes that
    can explain the crash, computed as `whatif` does with the value of the good run. GOOD and BAD may be folders.

    Exits with 0 (no change explains the crash, or there is none), 1 (a change can explain it), 3 (something died in
    BAD and its log does not say why), 2 (wrong usage, or a log could not be read) or 70 (an error of oomdoctor itself).
    """
    if form == "json":
        for_others()
    if STDIN in (good, bad) and good == bad:
        raise typer.BadParameter(
            say("only one of GOOD and BAD can be a pipe; name a file for the other"), param_hint="BAD"
        )
    there = facts([good], output, absolute=absolute_paths, told=None)
    here = facts([bad], output, absolute=absolute_paths, told=None)
    if not (there.stats.bytes and here.stats.bytes):
        raise typer.Exit(UNREADABLE)  # `facts` has said why
    from oomdoctor.remedies.compared import Run, compared  # noqa: PLC0415  (not for --help)
    from oomdoctor.report import compared as report  # noqa: PLC0415

    first, second = (Run(crashes=one.crashes, context=one.context, events=one.events) for one in (there, here))
    found = compared(first, second)
    if form == "json":
        out.write(report.as_json(found), output)
    else:
        look = out.style("never", to_file=output not in (None, STDIN))
        out.write(report.text(found, min(look.width, out.PIPED_WIDTH)), output)
    if found.crash is not None and not found.proven:
        raise typer.Exit(NOT_SHOWN)
    raise typer.Exit(EXPLAINED if found.explains else NOTHING_EXPLAINS)
