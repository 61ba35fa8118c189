"""Drafts and links of every fixture's crash: no number that its report does not have, no form that breaks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reports import LOGS, of_each, report_on

from oomdoctor import __version__
from oomdoctor.helpers import answers, draft, excerpt, forms, our_form
from oomdoctor.redaction import Redactor
from oomdoctor.report.contract import Report
from oomdoctor.sources import gather
from oomdoctor.units import show

FORMS = [
    *(forms.read(Path(__file__).parent / "forms" / name) for name in ("vllm.yml", "ray.yml", "openrlhf.md")),
    our_form.form(),
]
NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def asked(report: Report, log: Path) -> draft.Ask:
    redactor = Redactor()
    lines = excerpt.lines(report, report.incidents[0], gather([str(log)])[0])
    shared = redactor.report(report)
    return lambda budget: answers.answers(shared, shared.incidents[0], lines, redactor, budget)


def numbers_of(report: Report) -> set[str]:
    """As they stand in the report, and as its sizes and shares are shown to a person."""
    shared = Redactor().report(report).as_json()
    found = set(NUMBER.findall(json.dumps(shared, ensure_ascii=False)))
    for value in values(shared):
        found.update(NUMBER.findall(show(value)))
        found.update(NUMBER.findall(f"{value:.0%}"))
    return found | {str(number) for number in range(1, answers.REMEDIES + 1)} | {__version__}


def values(part: Any) -> Iterator[float]:
    if isinstance(part, dict | list):
        for inner in part.values() if isinstance(part, dict) else part:
            yield from values(inner)
    elif isinstance(part, int | float) and not isinstance(part, bool):
        yield part


@of_each(LOGS[::3], one_in=5)
def test_drafts_hold_the_report_s_numbers_and_links_fit(log: Path) -> None:
    report = report_on(log)
    if not report.incidents:
        return  # a near miss: `oomdoctor issue` refuses it, as is tested elsewhere
    ask = asked(report, log)
    known = numbers_of(report)
    told = ask(answers.FULL)
    said = [answer.plain for topic, answer in told.by_topic.items() if topic != "log"]
    assert [one for text in (told.title, *said) for one in NUMBER.findall(text) if one not in known] == []
    for form in FORMS:
        text = draft.document(form, ask)
        assert text.count(report.incidents[0].fingerprint) == 1
        assert draft.fits(text)
        assert len(draft.link(form, "octo-org/octo", ask, is_theirs=form is not FORMS[-1]).url) <= draft.LONGEST_LINK
