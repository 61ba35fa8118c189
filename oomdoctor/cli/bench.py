"""`oomdoctor dev bench`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Output
from oomdoctor.cli.quick import Lang, one_of
from oomdoctor.cli.speech import for_others
from oomdoctor.language import say

FORMATS = ("text", "json")


def bench(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="A folder of cases: sub-folders with a case.json.")],
    form: Annotated[
        str,
        typer.Option("-f", "--format", metavar="|".join(FORMATS), callback=one_of(*FORMATS), help="What to print."),
    ] = "text",
    output: Output = None,
    _lang: Lang = None,
) -> None:
    """Measure how often the diagnoses of labelled logs are right.

    \b
    Examples:
      oomdoctor dev bench my-cases
      oomdoctor dev bench my-cases --format json -o figures.json

    A case is a folder with a case.json and the log (log.txt, or the files that "inputs" lists). case.json holds
    "root_cause" (a cause's id, or not-oom) and optionally "also_acceptable", "from_log_alone" and "software".

    Exits with 0 when every case was read, whatever the figures.
    """
    from oomdoctor.cli.steps import steps  # noqa: PLC0415  (not for --help)
    from oomdoctor.training import bench as measured  # noqa: PLC0415
    from oomdoctor.training.cases import CaseError, cases_in  # noqa: PLC0415

    if form == "json":
        for_others()
    out.check_folder(output)
    try:
        cases = cases_in(Path(folder))
    except CaseError as error:
        raise typer.BadParameter(str(error), param_hint="FOLDER") from error
    with steps(say("cases"), len(cases)) as advance:
        found = measured.outcomes(cases, advance)
    told = json.dumps(measured.figures(found), indent=1) + "\n" if form == "json" else measured.text(found)
    out.write(told, output)
