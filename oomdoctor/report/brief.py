"""The report in a line per crash: for a chat, a pager, the title of a CI job."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.language import say
from oomdoctor.report.contract import Incident, Report
from oomdoctor.report.words import action, headline, nothing_in_a_line, root_of, sure, verdict
from oomdoctor.text import sanitize


def rendered(report: Report) -> str:
    """One line of each crash, or the one that says that there is none."""
    lines = [_line(report, incident) for incident in report.incidents] or [nothing_in_a_line(report)]
    return "".join(f"{sanitize(line)}\n" for line in lines)


def _line(report: Report, incident: Incident) -> str:
    return "".join(_parts(report, incident))


def _parts(report: Report, incident: Incident) -> Iterator[str]:
    root = root_of(report, incident)
    if root is not None:
        yield f"{root.file}:{root.line}: "
    yield verdict(headline(incident))
    if incident.diagnoses:
        best = incident.diagnoses[0]
        yield f" [{best.cause}, {sure(incident, best)}]"
        if incident.verdict == "inconclusive":
            yield from (say(" Find out: {command}", command=command) for command in incident.next_evidence[:1])
        elif best.remedies:
            first = best.remedies[0]
            yield say(" Fix: {action}", action=" ".join((first.snippet or action(first)).split()))
