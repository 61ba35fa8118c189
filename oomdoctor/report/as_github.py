"""The report for a step of GitHub Actions: annotations, and the text with no line in it that the runner obeys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from oomdoctor.language import say
from oomdoctor.report import text
from oomdoctor.report.contract import Incident, Report
from oomdoctor.report.markup import command, harmless, shortened
from oomdoctor.report.words import action, headline, nothing_in_a_line, open_question, root_of, sure, verdict
from oomdoctor.text import sanitize

MOST: Final = 10  # annotations of a kind that GitHub shows of a step
WIDTH: Final = 100
LONGEST_TITLE: Final = 200
LONGEST_WORDS: Final = 1_000


def document(report: Report, files: Mapping[str, str]) -> str:
    """`--format github`. `files` are the logs that lie in the workspace, by their names in the report."""
    plain = text.rendered(report, width=WIDTH, color=False, unicode=False, verbose=False)
    return "".join(_annotations(report, files)) + harmless(plain)


def _annotations(report: Report, files: Mapping[str, str]) -> Iterator[str]:
    if not report.incidents and report.stats.bytes:
        yield command("notice", nothing_in_a_line(report), title="oomdoctor")
    for number, incident in enumerate(report.incidents[:MOST]):
        more = len(report.incidents) - MOST if number == MOST - 1 else 0
        yield _of_incident(report, incident, files, more)
    for trouble in report.errors[:MOST]:
        yield command("warning", f"{trouble.file}: {trouble.why}", title=say("oomdoctor: this input was not read"))


def _of_incident(report: Report, incident: Incident, files: Mapping[str, str], more: int) -> str:
    """At the line that began the crash, where the log is a file of the workspace."""
    told, root = headline(incident), root_of(report, incident)
    file = files.get(root.file) if root is not None else None
    return command(
        "error" if incident.verdict == "oom" else "warning",
        "\n".join(_words(report, incident, more)),
        file=file,
        line=root.line if root is not None and file is not None else None,
        title=shortened(verdict(told), LONGEST_TITLE),
    )


def _words(report: Report, incident: Incident, more: int) -> Iterator[str]:
    root = root_of(report, incident)
    if incident.diagnoses:
        best = incident.diagnoses[0]
        yield sanitize(say("{title} ({cause}, {sure})", title=best.title, cause=best.cause, sure=sure(incident, best)))
        yield sanitize(best.explanation, LONGEST_WORDS)
        if question := open_question(incident):
            yield sanitize(question)
        if best.remedies:
            first = action(best.remedies[0])
            yield sanitize(say("What to change first: {action}", action=first), LONGEST_WORDS)
    if root is not None:
        yield sanitize(say("Where: {place}", place=f"{root.file}:{root.line}"), LONGEST_WORDS)
    yield say("Fingerprint: {fingerprint}", fingerprint=incident.fingerprint)
    if more > 0:
        yield say("There are {count} more crashes, which have no annotation of their own.", count=more)
