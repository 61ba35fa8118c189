"""What the commands share that read logs and report on them; without Typer, which `cli.plain` does without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from oomdoctor.cli import out
from oomdoctor.cli.speech import for_others
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


def diagnosed(
    paths: list[str] | None,
    form: str = "text",
    output: str | None = None,
    *,
    exit_zero: bool = False,
    absolute: bool = False,
    redact: bool | None = None,
    verbose: bool = False,
    color: str = "auto",
    launch: list[str] | None = None,
    config: list[str] | None = None,
    assume: list[str] | None = None,
) -> int:
    """The report on these logs where it is wanted, and the exit code; what is not given is as `diagnose` has it."""
    if form in FOR_PROGRAMS:
        for_others()
    report = read(paths, output, absolute=absolute, told=beside(launch, config, assume, output))
    redactor = _redactor((form in SHARED if redact is None else redact), paths, [*(launch or ()), *(config or ())])
    logs = paths or [STDIN]
    deliver(report, form, output, redactor, color=color, verbose=verbose, logs=logs, absolute=absolute)
    return exit_code(report, exit_zero=exit_zero)


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
        import typer  # noqa: PLC0415  (only for what is wrong)

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
        import typer  # noqa: PLC0415  (only for what is wrong)

        raise typer.BadParameter(str(error), param_hint=f"--{error.kind}") from error
    if assume:
        from oomdoctor.cli import assumed  # noqa: PLC0415

        for note in assumed.unread(assumed.assumed(told)):
            out.tell(note)
    return told


def exit_code(report: Report, *, exit_zero: bool) -> int:
    """A finding wins over unreadable inputs, which win over nothing found."""
    is_open = report.verdict == "inconclusive" and bool(report.stats.bytes)
    if not report.incidents and (report.errors or not is_open):
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
