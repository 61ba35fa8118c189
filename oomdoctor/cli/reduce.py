"""`oomdoctor issue reduce`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.diagnose import Output, Paths
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.redact import text_of
from oomdoctor.cli.reports import STDIN
from oomdoctor.language import say

REDUCED, NOTHING = 0, 2


def reduce(
    paths: Paths = None,
    output: Output = None,
    redact: Annotated[
        bool, typer.Option("--redact/--no-redact", help="Take secrets and names out, or keep them.")
    ] = True,
    _lang: Lang = None,
) -> None:
    """Print the shortest excerpt of a log that still gets the same diagnosis.

    \b
    Examples:
      oomdoctor issue reduce train.log -o small.log

    Secrets and names are taken out; read the excerpt before you share it. A line marks each cut. Several logs become
    one excerpt.

    Exits with 0 (an excerpt was written) or 2 (wrong usage, or no memory failure in the log).
    """
    from oomdoctor import street  # noqa: PLC0415  (not for --help)
    from oomdoctor.helpers.reduce import Log, ReduceError  # noqa: PLC0415
    from oomdoctor.helpers.reduce import reduce as reduced  # noqa: PLC0415
    from oomdoctor.redaction import Redactor  # noqa: PLC0415

    out.check_folder(output)
    if not paths and out.stdin_is_terminal():
        raise typer.BadParameter(
            say("name a log, or pipe one in: {command}", command="oomdoctor issue reduce train.log"), param_hint="PATH"
        )
    if not paths or STDIN in paths:
        raise typer.BadParameter(
            say("reduce reads the log several times: name a file instead of a pipe"), param_hint="PATH"
        )
    sources, troubles = street.gather(paths)
    out.check_spares(output, (source.path for source in sources))
    facts = street.facts_of(sources, troubles, out.progress())
    for trouble in facts.errors:
        out.tell(f"{trouble.file}: {trouble.why}")
    redactor = Redactor()
    texts = [(source.name, text_of(source)) for source in sources]
    for _, text in texts if redact else ():
        redactor.learn(text)  # a name that the second log tells may stand in the first
    logs = [Log(name, _lines(text), _lines(redactor.text(text) if redact else text)) for name, text in texts]
    try:
        excerpt = reduced(logs, facts, _told)
    except ReduceError as error:
        out.tell(str(error))
        raise typer.Exit(NOTHING) from error
    out.write_log(excerpt.text, output)
    out.tell(
        say(
            "kept {kept:,} of {lines:,} lines; the diagnosis is the same ({tries} tries)",
            kept=excerpt.kept,
            lines=excerpt.of,
            tries=excerpt.diagnoses,
        )
    )
    if not excerpt.is_smallest:
        out.tell(say("the excerpt may get shorter: reduce it again"))


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")


def _told(made: int, left: int) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        out.write_error("\r" + say("{tries} tries, {lines:,} lines left", tries=made, lines=left) + "   \r")
