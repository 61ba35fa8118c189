"""`oomdoctor collect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang
from oomdoctor.language import counted, mark, say

ARCHIVE: Final = "evidence.tar.gz"


def collect(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="The archive.")] = ARCHIVE,
    redacted: Annotated[
        bool, typer.Option("--redact", help="Take secrets, names and addresses out, to share the archive.")
    ] = False,
    job: Annotated[
        str | None, typer.Option("--job", metavar="ID", show_default=False, help="Ask Slurm about this job, too.")
    ] = None,
    container: Annotated[
        str | None,
        typer.Option("--container", metavar="NAME", show_default=False, help="Ask Docker about this container, too."),
    ] = None,
    pod: Annotated[
        str | None,
        typer.Option("--pod", metavar="NAME", show_default=False, help="Ask Kubernetes about this pod, too."),
    ] = None,
    _lang: Lang = None,
) -> None:
    """Gather what this machine still knows of a crash into one archive.

    \b
    Examples:
      oomdoctor collect
      oomdoctor collect --job 4711 --redact -o evidence.tar.gz
      oomdoctor diagnose train.log evidence.tar.gz

    Run it on the machine where the job died, before a restart: it asks the kernel's log, the cgroups, the processes,
    the GPUs, Ray and the scheduler. Nothing is changed, every command has 15 seconds, and what could not be had is
    listed. What is taken after the crash shows the machine without the job: records prove, the rest supports.

    Exits with 0, or with 2 if the archive cannot be written.
    """
    from oomdoctor.aside import replace  # noqa: PLC0415  (not for --help)
    from oomdoctor.evidence.answers import answers  # noqa: PLC0415
    from oomdoctor.evidence.archive import packed  # noqa: PLC0415
    from oomdoctor.evidence.questions import questions  # noqa: PLC0415
    from oomdoctor.redaction import Redactor  # noqa: PLC0415

    out.check_folder(output)
    named = {"JOB": job, "CONTAINER": container, "POD": pod}
    said = list(answers(questions(named)))
    data = packed(said, Redactor().text if redacted else str)
    try:
        replace(Path(output), data)
    except OSError as error:
        raise out.CannotWriteError(say("{file}: {why}", file=output, why=error.strerror)) from error
    missing = [one for one in said if one.missing]
    for one in missing:
        out.tell(say("not available: {command} ({why})", command=one.question.text, why=one.missing))
    had = counted(len(said) - len(missing), mark("{count} answer"), mark("{count} answers"))
    out.tell(say("{file}: {answers}", file=output, answers=had))
    out.tell(say("Now: {command}", command=f"oomdoctor diagnose <the log> {output}"))


__all__ = ["collect"]
