"""`oomdoctor diagnose`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import one_of

if TYPE_CHECKING:  # the types of a report take a moment to build, which --help has no use for
    from oomdoctor.report.contract import Report

FORMATS = ("text", "json", "jsonl")
COLORS = ("auto", "always", "never")
STDIN = "-"

NO_FAILURE, FAILURE, UNREADABLE, INCONCLUSIVE = 0, 1, 2, 3

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Logs or folders of one crash; - or nothing reads a pipe.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Write to this file, whole or not at all."),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 where it would be 1 or 3.")]
Absolute = Annotated[bool, typer.Option("--absolute-paths", help="Name files by their absolute paths.")]


def diagnose(
    paths: Paths = None,
    form: Annotated[
        str,
        typer.Option("-f", "--format", metavar="|".join(FORMATS), callback=one_of(*FORMATS), help="What to print."),
    ] = "text",
    output: Output = None,
    exit_zero: ExitZero = False,
    absolute_paths: Absolute = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Everything, not only one screen.")] = False,
    color: Annotated[
        str,
        typer.Option(metavar="|".join(COLORS), callback=one_of(*COLORS), help="Colours in the text report."),
    ] = "auto",
) -> None:
    """Say what ran out, who held it, why, and what to change.

    \b
    Examples:
      oomdoctor diagnose train.log
      oomdoctor diagnose driver.log raylet.out --format json -o report.json
      kubectl logs trainer-0 --previous | oomdoctor diagnose

    Exits with 0 (no memory failure), 1 (a memory failure), 3 (the log does not show which), 2 (nothing could be
    read) or 70 (an error of oomdoctor itself).
    """
    report = read(paths, output, absolute=absolute_paths)
    out.write(_rendered(report, form, output, verbose, color), output)
    raise typer.Exit(exit_code(report, exit_zero=exit_zero))


def read(paths: list[str] | None, output: str | None, *, absolute: bool) -> Report:
    """The report on the inputs, which the output leaves alone; what could not be read is said on standard error."""
    from oomdoctor import street  # noqa: PLC0415  (not for --help)

    out.check_folder(output)
    if not paths and out.stdin_is_terminal():
        raise typer.BadParameter("name a log, or pipe one in: oomdoctor diagnose train.log", param_hint="PATH")
    sources, troubles = street.gather(paths or [STDIN], absolute=absolute)
    out.check_spares(output, (source.path for source in sources))
    progress = out.progress()
    try:
        report = street.report_on(sources, troubles, progress)
    finally:
        if progress is not None:
            progress.done()
    for trouble in report.errors:
        out.say(f"{trouble.file}: {trouble.why}")
    return report


def exit_code(report: Report, *, exit_zero: bool) -> int:
    """A finding wins over unreadable inputs, which win over nothing found."""
    if not report.incidents:
        return UNREADABLE if report.errors else NO_FAILURE
    if exit_zero:
        return 0
    return FAILURE if report.verdict == "oom" else INCONCLUSIVE


def _rendered(report: Report, form: str, output: str | None, verbose: bool, color: str) -> str:
    if form == "text":
        from oomdoctor.report import text  # noqa: PLC0415

        look = out.style(color, to_file=output not in (None, STDIN))
        return text.rendered(report, width=look.width, color=look.color, unicode=look.unicode, verbose=verbose)
    from oomdoctor.report import as_json  # noqa: PLC0415

    return as_json.document(report) if form == "json" else as_json.incident_lines(report)
