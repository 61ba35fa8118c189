"""Of a death that nothing explains the report asks first whether it was memory; the question is no remedy."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sample_reports import CRASH, INCONCLUSIVE, MORE

from oomdoctor.remedies import Remedy
from oomdoctor.report.as_markdown import document as markdown
from oomdoctor.report.contract import Report
from oomdoctor.report.html import document as page
from oomdoctor.report.text import rendered
from oomdoctor.report.words import worth_doing

ASKED = "dmesg -T | grep -i oom"
QUESTION = Remedy(knob="collect-evidence", action="Check the kernel log", snippet=ASKED, relieves=(), cost="")


def died(*remedies: Remedy, verdict: str = "inconclusive") -> Report:
    incident = INCONCLUSIVE.incidents[0]
    best = replace(incident.diagnoses[0], remedies=remedies)
    changed = replace(incident, verdict=verdict, diagnoses=(best,), next_evidence=(ASKED, "free -h"))
    return replace(INCONCLUSIVE, incidents=(changed,))


def plain(report: Report) -> str:
    return rendered(report, width=100, color=False, unicode=False, verbose=True)


def test_it_is_asked_once_and_numbered_never() -> None:
    report = died(QUESTION, MORE)
    for text in (plain(report), markdown(report)):
        assert text.count(ASKED) == 1
        assert QUESTION.action not in text
        assert f"1. {MORE.action}" in text
    assert QUESTION.action not in page(report)
    assert QUESTION.action in str(report.as_json()["diagnoses"][0]["remedies"])


@pytest.mark.parametrize(
    ("remedies", "verdict"),
    [
        ((QUESTION,), "inconclusive"),  # nothing else is advised
        ((QUESTION, MORE), "oom"),  # that it was memory is known: it would tell of what
        ((replace(QUESTION, snippet="oomdoctor run -- COMMAND"), MORE), "inconclusive"),  # another one
        ((replace(QUESTION, snippet=None), MORE), "inconclusive"),
        ((replace(MORE, snippet=ASKED), MORE), "inconclusive"),  # a remedy
    ],
)
def test_elsewhere_every_remedy_stays(remedies: tuple[Remedy, ...], verdict: str) -> None:
    incident = died(*remedies, verdict=verdict).incidents[0]
    assert worth_doing(incident, incident.diagnoses[0]) == remedies


def test_two_questions_in_one_line_are_asked_too() -> None:
    incident = died(replace(QUESTION, snippet=f"free -h; {ASKED}"), MORE).incidents[0]
    assert worth_doing(incident, incident.diagnoses[0]) == (MORE,)
    assert worth_doing(CRASH, CRASH.diagnoses[0]) == CRASH.diagnoses[0].remedies
