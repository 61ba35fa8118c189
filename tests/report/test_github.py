from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from poison import poisoned
from runner import KNOWN, commands
from sample_reports import CRASH, HEALTHY, HOG, INCONCLUSIVE, KILL, OOM, UNREADABLE
from test_markup import TEXTS

from oomdoctor.report.as_github import document
from oomdoctor.report.contract import Incident, Moment, Report

OURS = ["error", "warning", "notice"]
ORDERS = [f"::{name} a=b::c" for name in sorted(KNOWN)] + [f"##[{name} a=b;]c" for name in sorted(KNOWN)]
FILLING = st.sampled_from(
    ["", " ", "\t", "\n", "\r", "\r\n", "\x1b[0m", "\u2028", "\ufeff", "\u200b", ":", "#", "%0A", "%"]
)
POISON = st.tuples(FILLING, st.sampled_from(ORDERS), FILLING, TEXTS).map("".join)


def test_a_crash_is_an_error_at_its_line() -> None:
    (made,) = commands(document(OOM, {"driver.log": "logs/a,b:c 100%.log"}))
    assert made.name == "error"
    assert made.properties == {
        "file": "logs/a,b:c 100%.log",
        "line": "412",
        "title": f"OUT OF MEMORY: {HOG.headline}",
    }
    assert made.message.splitlines() == [
        "A reward model's process holds most of the node's memory (reward-model-ram-hog, 93% sure)",
        HOG.explanation,
        "What to change first: Start the reward server (PID 230) on another node, or cap its memory",
        "Where: driver.log:412",
        "Fingerprint: v1:0123456789abcdef",
    ]


def test_a_log_that_is_not_in_the_workspace_is_only_named() -> None:
    (made,) = commands(document(OOM, {"other.log": "other.log"}))
    assert made.properties.keys() == {"title"}
    assert "Where: driver.log:412" in made.message


def test_below_the_annotations_stands_the_text() -> None:
    printed = document(OOM, {})
    assert printed.splitlines()[1].startswith(f"OUT OF MEMORY: {HOG.headline}")
    assert "What to change" in printed
    assert printed.isascii()


@pytest.mark.parametrize(
    ("report", "names"),
    [
        (OOM, ["error"]),
        (INCONCLUSIVE, ["warning"]),
        (HEALTHY, ["notice"]),
        (UNREADABLE, ["warning"]),
        (replace(OOM, errors=UNREADABLE.errors), ["error", "warning"]),
        (replace(OOM, incidents=(replace(CRASH, diagnoses=(), timeline=(), events=()),)), ["error"]),
    ],
)
def test_what_is_annotated(report: Report, names: list[str]) -> None:
    assert [made.name for made in commands(document(report, {}))] == names


def crash(number: int) -> tuple[Incident, Moment]:
    moment = Moment(f"e{number}", "root", None)
    return replace(CRASH, events=(f"e{number}",), timeline=(moment,)), moment


def test_github_shows_ten_of_a_kind() -> None:
    crashes = tuple(crash(number)[0] for number in range(14))
    events = tuple(replace(KILL, id=f"e{number}", line=number) for number in range(14))
    made = commands(document(replace(OOM, incidents=crashes, events=events, errors=UNREADABLE.errors * 14), {}))
    assert [one.name for one in made] == ["error"] * 10 + ["warning"] * 10
    assert [one.message.splitlines()[-1] for one in made[8:10]] == [
        "Fingerprint: v1:0123456789abcdef",
        "There are 4 more crashes, which have no annotation of their own.",
    ]


@given(POISON, st.sampled_from([OOM, HEALTHY, INCONCLUSIVE, UNREADABLE]), st.sampled_from(["{1}{0}", "{0}\n{1}"]))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_log_gives_the_runner_an_order(poison: str, report: Report, where: str) -> None:
    hostile = poisoned(report, lambda text: where.format(text, poison))
    made = commands(document(hostile, {event.file: event.file for event in hostile.events}))
    assert [one.name for one in made] == [one.name for one in commands(document(report, {}))]
    assert all(set(one.properties) <= {"file", "line", "title"} for one in made)
    assert [one for one in made if commands(one.message)] == []
