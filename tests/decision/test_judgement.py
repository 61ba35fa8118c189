"""How a cause's table is read: from top to bottom, and what speaks against the cause lowers it."""

from __future__ import annotations

import pytest
from engine_logs import RUNNER, crash_of, traceback
from gpu_logs import crash, refused
from msgspec.structs import replace
from reports import ROOT

from oomdoctor.causes import Cause, Row
from oomdoctor.decision.judgement import Finding, NotEnough, RuledOut, is_shown, judgement_of
from oomdoctor.incident.model import Crash
from oomdoctor.signs import Grade, Seen, Sign

CRASH = crash(refused())
CUT = crash_of(traceback((RUNNER, "capture_model"), end="    ^^^^^"))
CUT_TRAINING = crash(*(ROOT / "fixtures/training_cut/backward.log").read_text().splitlines())
KILLED = crash("bash: line 1:  4955 Killed                  python train.py")


def seen(words: str) -> Sign:
    def sign(_: Crash) -> Seen | None:
        return Seen(words=words)

    return sign


def unseen(_: Crash) -> Seen | None:
    return None


PLAIN = Cause(id="flood", title="", pools=("gpu",), knobs=(), signs=(Row(seen("points"), Grade.POINTS),))


def found(cause: Cause, of: Crash = CRASH) -> Finding:
    judgement = judgement_of(cause, of)
    assert isinstance(judgement, Finding)
    return judgement


def test_the_first_sign_that_is_seen_carries_the_cause() -> None:
    rows = (Row(unseen, Grade.PROVES), Row(seen("names"), Grade.NAMES), Row(seen("hints"), Grade.HINTS))
    finding = found(replace(PLAIN, signs=rows))
    assert (finding.why, finding.grade) == ("names", Grade.NAMES)


@pytest.mark.parametrize(
    ("against", "grade"),
    [
        ((), Grade.NAMES),
        ((Row(unseen, Grade.LEFT),), Grade.NAMES),
        ((Row(seen("less"), Grade.HINTS),), Grade.HINTS),
        ((Row(seen("less"), Grade.POINTS), Row(seen("least"), Grade.LEFT)), Grade.LEFT),
        ((Row(seen("no less"), Grade.PROVES),), Grade.NAMES),
    ],
)
def test_what_speaks_against_it_lowers_it_and_never_raises_it(against: tuple[Row, ...], grade: Grade) -> None:
    finding = found(replace(PLAIN, signs=(Row(seen("names"), Grade.NAMES),), against=against))
    assert finding.grade == grade
    assert finding.against == tuple(row.sign(CRASH).words for row in against if row.sign(CRASH))  # type: ignore[union-attr]


def test_silence_comes_before_exclusion_and_both_before_the_signs() -> None:
    excluded = replace(PLAIN, excluded=(seen("a figure excludes it"),))
    assert judgement_of(replace(excluded, silent=(seen("another's"),)), CRASH) is None
    assert judgement_of(excluded, CRASH) == RuledOut("a figure excludes it")
    assert judgement_of(replace(PLAIN, signs=(Row(unseen, Grade.NAMES),)), CRASH) is None


def test_what_is_missing_is_said_only_where_no_sign_is_seen() -> None:
    missing = (seen("the limit"),)
    assert isinstance(judgement_of(replace(PLAIN, missing=missing), CRASH), Finding)
    assert judgement_of(replace(PLAIN, signs=(), missing=missing), CRASH) == NotEnough("the limit")


def test_before_an_errors_own_words_a_sign_is_worth_two_grades_less() -> None:
    finding = found(replace(PLAIN, signs=(Row(seen("names"), Grade.NAMES),)), CUT)
    assert finding.grade == Grade.HINTS
    assert "ends before" in finding.against[-1]
    assert finding.next_evidence


@pytest.mark.parametrize(
    ("grade", "after"), [(Grade.NAMES, Grade.HINTS), (Grade.POINTS, Grade.LEFT), (Grade.HINTS, None)]
)
def test_of_a_training_that_is_cut_off_only_what_names_the_cause_counts(grade: Grade, after: Grade | None) -> None:
    """An update that breaks off is no hint by itself: any error may follow."""
    judgement = judgement_of(replace(PLAIN, signs=(Row(seen("words"), grade),)), CUT_TRAINING)
    assert (judgement.grade if isinstance(judgement, Finding) else judgement) == after


def test_memory_is_shown_by_the_crash_or_by_what_a_finding_rests_on() -> None:
    bare = found(PLAIN, KILLED)
    assert is_shown(CRASH, [])
    assert not is_shown(KILLED, [bare])
    assert is_shown(KILLED, [bare, replace(bare, shows_memory=True)])
