"""`oomdoctor diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang, for_others, one_of
from oomdoctor.language import say

if TYPE_CHECKING:  # the types of a report take a moment to build, which --help has no use for
    from oomdoctor.job.outside import Outside
    from oomdoctor.redaction import Redactor
    from oomdoctor.report.contract import Report
    from oomdoctor.street import Facts

FORMATS = ("text", "json", "jsonl", "markdown", "html", "github")
FOR_PROGRAMS = ("json", "jsonl", "github")
SHARED = ("markdown", "html", "github")  # what others will read: redacted unless told otherwise
COLORS = ("auto", "always", "never")
STDIN = "-"

NO_FAILURE, FAILURE, UNREADABLE, INCONCLUSIVE = 0, 1, 2, 3

Paths = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PATH",
        show_default=False,
        help="Logs, folders, archives of one crash; - or none: a pipe.",
    ),
]
Output = Annotated[
    str | None,
    typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Write to this file, whole or not at all."),
]
ExitZero = Annotated[bool, typer.Option("--exit-zero", help="Exit with 0 where it would be 1 or 3.")]
Launch = Annotated[
    list[str] | None,
    typer.Option(
        "--launch",
        metavar="FILE",
        show_default=False,
        help="The script that started the job: read as text for what the log does not print.",
    ),
]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", metavar="FILE", show_default=False, help="The job's configuration, YAML or JSON."),
]
Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME=VALUE",
        show_default=False,
        help="A version or a setting that you know: vllm=0.8.3, zero_stage=3.",
    ),
]
Absolute = Annotated[bool, typer.Option("--absolute-paths", help="Name files by their absolute paths.")]
Redact = Annotated[
    bool | None,
    typer.Option(
        "--redact/--no-redact",
        show_default=False,
        help="Replace secrets, hosts and people's names, or do not. markdown, html and github do.",
    ),
]
Color = Annotated[
    str,
    typer.Option(metavar="|".join(COLORS), callback=one_of(*COLORS), help="Colours in the text report."),
]
Form = Annotated[
    str,
    typer.Option(
        "-f",
        "--format",
        metavar="FORM",
        callback=one_of(*FORMATS),
        help="text, json, jsonl, markdown, html or github (annotations and a step's summary).",
    ),
]
Brief = Annotated[bool, typer.Option("--brief", help="One line for each crash: for a chat, a pager, a title.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Everything, not only one screen.")]


def diagnose(
    paths: Paths = None,
    form: Form = "text",
    output: Output = None,
    exit_zero: ExitZero = False,
    absolute_paths: Absolute = False,
    redact: Redact = None,
    verbose: Verbose = False,
    brief: Brief = False,
    color: Color = "auto",
    launch: Launch = None,
    config: Config = None,
    assume: Assume = None,
    _lang: Lang = None,
) -> None:
    """Say what ran out, who held it, why, and what to change.

    \b
    Examples:
      oomdoctor diagnose train.log
      oomdoctor diagnose driver.log raylet.out --format json -o report.json
      kubectl logs trainer-0 --previous | oomdoctor diagnose
      oomdoctor diagnose train.log --format markdown -o crash.md
      oomdoctor diagnose train.log --brief
      oomdoctor diagnose train.log --launch run.sh --assume vllm=0.8.3

    --launch, --config and --assume add what the log does not print; what it prints
    wins. Each may be repeated.

    Exits with 0 (no memory failure), 1 (a memory failure, or a request that Ray cannot place), 3 (something died and
    the log does not show whether of memory), 2 (wrong usage, or nothing could be read) or 70 (an error of oomdoctor
    itself).
    """
    if brief and (form != "text" or verbose):
        raise typer.BadParameter(say("it is a form of its own; leave out -f and -v"), param_hint="--brief")
    form = "brief" if brief else form
    if form in FOR_PROGRAMS:
        for_others()
    report = read(paths, output, absolute=absolute_paths, told=beside(launch, config, assume, output))
    redactor = _redactor((form in SHARED if redact is None else redact), paths, [*(launch or ()), *(config or ())])
    logs = paths or [STDIN]
    deliver(report, form, output, redactor, color=color, verbose=verbose, logs=logs, absolute=absolute_paths)
    raise typer.Exit(exit_code(report, exit_zero=exit_zero))


def deliver(
    report: Report,
    form: str,
    output: str | None,
    redactor: Redactor | None,
    *,
    color: str,
    verbose: bool,
    logs: Sequence[str] = (),
    absolute: bool = False,
) -> None:
    """The report where it is wanted, redacted where there is a redactor; annotations point into these logs."""
    if form == "github":
        from oomdoctor.cli import github  # noqa: PLC0415

        github.write(report, logs, output, absolute=absolute, redactor=redactor)
        return
    shown = redactor.report(report) if redactor else report
    look = out.style(color, to_file=output not in (None, STDIN))
    out.write(rendered(shown, form, look, redacted=redactor is not None, verbose=verbose), output)


def read(paths: list[str] | None, output: str | None, *, absolute: bool, told: Outside | None = None) -> Report:
    """The report on the inputs, which the output leaves alone; what could not be read is said on standard error."""
    from oomdoctor import street  # noqa: PLC0415  (not for --help)

    return street.report_of(facts(paths, output, absolute=absolute, told=told))


def facts(paths: list[str] | None, output: str | None, *, absolute: bool, told: Outside | None) -> Facts:
    """What the inputs say, as `read` reads them."""
    from oomdoctor import street  # noqa: PLC0415

    out.check_folder(output)
    if not paths and out.stdin_is_terminal():
        raise typer.BadParameter(
            say("name a log, or pipe one in: {command}", command="oomdoctor diagnose train.log"), param_hint="PATH"
        )
    logs = street.look(paths or [STDIN], absolute=absolute)
    named = (Path(path) for path in paths or () if path != STDIN)  # archives, too, of which nothing may be read
    out.check_spares(output, (*named, *(source.path for source in logs.sources)))
    progress = out.progress()
    try:
        found = street.facts_in(logs, progress, told)
    finally:
        if progress is not None:
            progress.done()
    for trouble in found.errors:
        out.tell(f"{trouble.file}: {trouble.why}")
    return found


def beside(
    launch: list[str] | None, config: list[str] | None, assume: list[str] | None, output: str | None = None
) -> Outside | None:
    """What is handed over beside the logs, and left alone by the output; None where nothing is."""
    if not (launch or config or assume):
        return None
    out.check_spares(output, map(Path, (*(launch or ()), *(config or ()))))
    from oomdoctor.job import outside  # noqa: PLC0415  (most runs need none of it)

    try:
        told = outside.read(launch or (), config or (), assume or ())
    except outside.OutsideError as error:
        raise typer.BadParameter(str(error), param_hint=f"--{error.kind}") from error
    if assume:
        from oomdoctor.cli import assumed  # noqa: PLC0415

        for note in assumed.unread(assumed.assumed(told)):
            out.tell(note)
    return told


def exit_code(report: Report, *, exit_zero: bool) -> int:
    """A finding wins over unreadable inputs, which win over nothing found."""
    if not report.incidents:
        return UNREADABLE if report.errors else NO_FAILURE
    if exit_zero:
        return 0
    return FAILURE if report.verdict == "oom" else INCONCLUSIVE


def _redactor(wanted: bool, paths: list[str] | None, beside: list[str]) -> Redactor | None:
    if not wanted:
        return None
    from oomdoctor.redaction.learned import knowing  # noqa: PLC0415  (one's own terminal has no use for it)

    return knowing(paths or [], beside)


def rendered(report: Report, form: str, look: out.Style, *, redacted: bool, verbose: bool) -> str:
    """Each form's renderer is loaded only for it."""
    if form == "text":
        from oomdoctor.report import text  # noqa: PLC0415

        return text.rendered(report, width=look.width, color=look.color, unicode=look.unicode, verbose=verbose)
    if form == "brief":
        from oomdoctor.report import brief  # noqa: PLC0415

        return brief.rendered(report)
    if form == "markdown":
        from oomdoctor.report import as_markdown  # noqa: PLC0415

        return as_markdown.document(report, redacted=redacted)
    if form == "html":
        from oomdoctor.report import html  # noqa: PLC0415

        return html.document(report, redacted=redacted)
    from oomdoctor.report import as_json  # noqa: PLC0415

    return as_json.document(report) if form == "json" else as_json.incident_lines(report)
