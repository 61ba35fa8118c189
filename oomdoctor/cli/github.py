"""`oomdoctor diagnose --format github`: what a step of GitHub Actions prints, and what it adds to its summary."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from oomdoctor import street
from oomdoctor.cli import out
from oomdoctor.language import say
from oomdoctor.redaction import Redactor
from oomdoctor.report import as_github, as_markdown
from oomdoctor.report.contract import Report
from oomdoctor.sources import shown

SUMMARY_LIMIT = 1_048_576  # bytes, of all that a step writes to its summary
SHORTEST = 8_192  # less room than this is not worth a report


def write(
    report: Report, paths: Sequence[str], output: str | None, *, absolute: bool, redactor: Redactor | None
) -> None:
    """The annotations and the report to the step's log, and the report to its summary where there is one."""
    shown = redactor.report(report) if redactor is not None else report
    files = in_workspace(paths, os.environ, absolute=absolute)
    if redactor is not None:
        files = {name: path for name, path in files.items() if redactor.text(path) == path}
    out.write(as_github.document(shown, files), output)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        try:
            add_to_summary(Path(summary), shown, redacted=redactor is not None)
        except OSError as error:
            out.tell(say("{file}: cannot write the step's summary: {why}", file=summary, why=error.strerror))


def in_workspace(paths: Sequence[str], environ: Mapping[str, str], *, absolute: bool = False) -> dict[str, str]:
    """The logs that lie in the repository's checkout: their names in the report, and their paths there."""
    workspace = Path(environ.get("GITHUB_WORKSPACE") or ".").resolve()
    files = {}
    for source in street.gather(paths, absolute=absolute)[0]:
        path = source.path.resolve() if source.path is not None and source.part is None else None
        if path is None or not path.is_relative_to(workspace):
            continue
        place = path.relative_to(workspace).as_posix()
        if place == shown(place):  # an annotation cannot point at what cannot be printed
            files[source.name] = place
    return files


def add_to_summary(summary: Path, report: Report, *, redacted: bool) -> None:
    """GitHub shows none of a summary that is too long."""
    there = summary.stat().st_size if summary.exists() else 0
    room = SUMMARY_LIMIT - there - 2
    if room < SHORTEST:
        out.tell(say("{file}: the step's summary is full; the report was not added", file=summary))
        return
    text = as_markdown.document(report, limit=min(room, as_markdown.LIMIT), redacted=redacted)
    try:
        with summary.open("ab") as file:
            file.write(("\n\n" * bool(there) + text).encode("utf-8", "replace"))
    except BaseException:  # no half report, also where we are asked to end
        with suppress(OSError):
            os.truncate(summary, there)
        raise
