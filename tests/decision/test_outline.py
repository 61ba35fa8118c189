"""A cause's table in words, and why one answer comes before the next."""

from __future__ import annotations

from itertools import pairwise

import pytest
from gpu_logs import FORWARD, LOADING, LOSS, crash, refused, trace

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.diagnosis import decide
from oomdoctor.decision.outline import outline
from oomdoctor.signs import Grade


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_every_sign_of_a_table_asks_its_question(cause: Cause) -> None:
    rows = [row.sign for row in (*cause.signs, *cause.against)]
    for sign in (*cause.silent, *cause.excluded, *rows, *cause.missing):
        words = (sign.__doc__ or "").strip()
        assert words, f"{sign.__name__} does not say what it asks"
        assert f"`{sign.__name__}`: {' '.join(words.split())}" in outline(cause)


@pytest.mark.parametrize("cause", causes(), ids=lambda cause: cause.id)
def test_every_row_is_shown_with_its_grade(cause: Cause) -> None:
    shown = outline(cause)
    assert all(f"**{row.grade.name}** `{row.sign.__name__}`" in shown for row in (*cause.signs, *cause.against))
    assert all(other in shown for other in cause.before)


def test_an_answer_says_why_it_stands_before_the_next_one() -> None:
    answers = decide(crash(*trace(FORWARD, LOSS), refused(tried="9.28 GiB"))).answers
    named = [one for one in answers if not one.cause.fallback]
    assert len(named) > 1
    for one, behind in pairwise(named):
        assert one.ahead.startswith(f"{one.cause.id} comes before {behind.cause.id}: ")
    assert named[-1].ahead == ""


def test_beside_a_cause_a_fallback_is_compared_with_nothing() -> None:
    answers = decide(crash(*trace(LOADING), refused(tried="9.28 GiB"))).answers
    fallbacks = [one for one in answers if one.cause.fallback]
    assert fallbacks
    assert not any(one.ahead for one in fallbacks)
    assert not any(other.cause.id in one.ahead for one in answers for other in fallbacks)


def test_why_it_stands_before_is_said_without_names_of_signs_and_grades() -> None:
    for frames in (trace(FORWARD, LOSS), trace(FORWARD), trace(LOADING), ()):
        for one in decide(crash(*frames, refused(tried="9.28 GiB"))).answers:
            assert not any(sign in one.ahead for sign in one.finding.signs)
            assert not any(grade.name in one.ahead for grade in Grade)
