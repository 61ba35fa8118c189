"""How the reports on all fixtures speak: no phrase that says nothing, one screen, headlines that name and count."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from reports import FIXTURES, LOGS, diagnosed, of_each, report_on

from oomdoctor.causes import causes
from oomdoctor.remedies.knobs import KNOBS
from oomdoctor.report.contract import Report
from oomdoctor.report.text import rendered

SCREEN = 24  # lines of a report on one crash
WIDTH = 100

# What a tired reader stumbles over: words of a class, of nobody, of another language.
BANNED = (
    r"\bcards?\b",  # GPU, NPU or TPU
    r"\brefused request\(s\)",
    r"\(s\)",  # plurals are counted
    r"\b1 (?:bytes|GPUs|processes|workers|requests|crashes|lines|steps)\b",
    r"\b0\.0 ?%",
    r"\b(?:was|were) (?:refused|asked for)\b",
    r"\bis asked for\b",
    r"\blive tensors\b",
    r"\bin no row of the table\b",
    r"\bto give back\b",
    r"\bSet the environment right\b",
    r"\bUse a version that does not need the extra memory\b",
    r"\bwhat is cut off is lost\b",
    r"\ba look at the code\b",
    r"\bwhole it would not do\b",
    r"\bit bears on what\b",
    r"\bPast this refusal\b",
    r"\bthe log does not say what for\b",
    r"\bis needed more than it should\b",
)
_BANNED = tuple(re.compile(phrase, re.IGNORECASE) for phrase in BANNED)
_FIGURE_OR_NAME = re.compile(r"\d|[A-Z][a-z]+[A-Z]|[\w-]+[._/][\w-]+|\b[A-Z]{2,}\b|\b[A-Z][\w-]+\b(?<!^The)")


def texts(body: dict[str, Any]) -> Iterator[str]:
    """What our own words of a report are, without the log's."""
    quoted = {body_of["text"] for body_of in body["events"]}
    for incident in body["incidents"]:
        yield incident["headline"]
        for one in incident["diagnoses"]:
            yield from (one["headline"], one["title"], one["explanation"], *one["against"])
            for remedy in one["remedies"]:
                yield from (remedy["action"], remedy["derivation"] or "", remedy["cost"], *remedy["assumes"])
        yield from (ruled["why"] for ruled in incident["ruled_out"])
        yield from (rejected["why"] for rejected in incident["remedies_rejected"])
    yield from (hint["why"] for hint in (*body["advice_rejected"], *body["lookalikes"]))
    yield from (note for note in body["notes"] if note not in quoted)


@of_each(LOGS)
def test_no_phrase_says_nothing(log: Path) -> None:
    body = diagnosed(log)
    printed = " ".join(event["text"] for event in body["events"])
    found = [
        (phrase.pattern, text)
        for text in texts(body)
        for phrase in _BANNED
        if (match := phrase.search(text)) and match[0] not in printed
    ]
    assert found == []


@of_each(LOGS)
def test_a_report_on_one_crash_fits_the_screen(log: Path) -> None:
    report = report_on(log)
    if len(report.incidents) > 1 or report.advice_rejected[2:] or report.notes:
        return
    assert plain(report).count("\n") <= SCREEN + 2


def plain(report: Report) -> str:
    return rendered(report, width=WIDTH, color=False, unicode=False, verbose=False)


def test_nearly_all_fit_the_screen_itself() -> None:
    lengths = [plain(report_on(log)).count("\n") for log in LOGS if len(report_on(log).incidents) == 1]
    assert sum(length <= SCREEN for length in lengths) >= 0.95 * len(lengths)


TRAINING = "Train epoch [1/1]:   0%|          | 0/40 [00:00<?, ?it/s]\n"


@pytest.mark.parametrize(("above", "cause"), [("", ""), (TRAINING, "activations (if it was memory): ")])
def test_a_log_that_is_cut_while_it_waits_names_no_likely_cause(tmp_path: Path, above: str, cause: str) -> None:
    log = tmp_path / "job.log"
    log.write_text(above + (FIXTURES / "training_cut/driver-waits.log").read_text("utf-8"), "utf-8")
    report = report_on(log)
    last = 11 + bool(above)
    assert plain(report).startswith(f"CANNOT TELL: The log ends inside the traceback around line {last}, before")
    assert cause in plain(report)
    assert "(likely)" not in plain(report)
    assert f"job.log:{last}: " in plain(report)


def test_a_kill_that_deepspeed_reports_is_shown_by_its_exit_code() -> None:
    (incident,) = report_on(FIXTURES / "kill/deepspeed-while-loading.log").incidents
    assert [one.line for one in incident.diagnoses[0].evidence] == [4]
    assert "(if it was memory)" not in plain(report_on(FIXTURES / "kill/exit-codes.log"))  # that it was a kill is sure


def test_headlines_carry_figures_and_names() -> None:
    headlines = [incident.headline for log in LOGS for incident in report_on(log).incidents]
    assert sum(any(map(str.isdigit, text)) for text in headlines) >= 0.65 * len(headlines)  # many fixtures print none
    assert sum(_FIGURE_OR_NAME.search(text) is not None for text in headlines) >= 0.95 * len(headlines)


@of_each(LOGS)
def test_a_headline_is_one_short_sentence(log: Path) -> None:
    for incident in report_on(log).incidents:
        assert incident.headline
        assert "\n" not in incident.headline
        assert not incident.headline.endswith(".")
        assert len(incident.headline) <= 170


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_a_cause_s_title_has_no_banned_phrase(cause: Any) -> None:
    assert [
        phrase.pattern for phrase in _BANNED for text in (cause.title, *cause.headlines) if phrase.search(text)
    ] == []


@pytest.mark.parametrize("knob", KNOBS.values(), ids=KNOBS)
def test_a_knob_has_no_banned_phrase(knob: Any) -> None:
    assert [phrase.pattern for phrase in _BANNED if phrase.search(f"{knob.action} {knob.cost}")] == []
