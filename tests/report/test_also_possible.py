"""What stands behind the first cause: no fallback beside a cause, and no remedy twice."""

from __future__ import annotations

from msgspec.structs import replace
from sample_reports import CRASH, GROWTH, MORE, OOM

from oomdoctor.report.as_markdown import document as markdown
from oomdoctor.report.contract import Diagnosis, Report
from oomdoctor.report.html import document as page
from oomdoctor.report.text import rendered


def plain(report: Report) -> str:
    """All of the report on lines as long as it takes."""
    return rendered(report, width=1000, color=False, unicode=False, verbose=True)


def with_others(*others: Diagnosis, best: Diagnosis = CRASH.diagnoses[0]) -> Report:
    return replace(OOM, incidents=(replace(CRASH, diagnoses=(best, *others)),))


FALLBACK = replace(GROWTH, cause="host-memory-exhausted", headline="The node is full")


def test_beside_a_cause_a_fallback_is_not_named() -> None:
    both = with_others(FALLBACK, GROWTH)
    for text in (plain(both), markdown(both), page(both)):
        assert "host-memory-exhausted" not in text
        assert "host-memory-leak" in text
    assert [one["cause"] for one in both.as_json()["diagnoses"]].count("host-memory-exhausted") == 1


def test_behind_a_fallback_every_cause_is_named() -> None:
    other = replace(FALLBACK, cause="killed-without-evidence", headline="Something was killed")
    text = plain(with_others(GROWTH, other, best=FALLBACK))
    assert f"Also possible: {GROWTH.headline}" in text
    assert "Also possible: Something was killed" in text


def test_a_cause_that_asks_for_nothing_new_is_one_line() -> None:
    best = CRASH.diagnoses[0]
    record = replace(best.remedies[0], knob="collect-evidence")
    same = replace(GROWTH, remedies=(*reversed(best.remedies), record))
    text = plain(with_others(same))
    assert f"Also possible: {GROWTH.headline} (host-memory-leak, 21% sure); same remedies" in text
    assert text.count(best.remedies[0].action) == 1
    assert "The same remedies help." in page(with_others(same))


def test_a_cause_that_asks_for_more_says_all_of_it() -> None:
    best = CRASH.diagnoses[0]
    for remedies in ((), (*best.remedies, replace(MORE, knob="clear-references"))):
        other = replace(GROWTH, remedies=remedies)
        text = plain(with_others(other))
        assert "same remedies" not in text + page(with_others(other))
        assert "Two prints of the same process" in text
