"""A cause's table in words, and why one answer comes before the next."""

from __future__ import annotations

from itertools import pairwise

import pytest
from gpu_logs import FORWARD, LOADING, LOSS, crash, refused, trace

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.diagnosis import decide
from oomdoctor.decision.outline import outline


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
    for one, behind in pairwise(answers):
        assert one.ahead.startswith(f"{one.cause.id} comes before {behind.cause.id}")
    assert answers[-1].ahead == ""


def test_what_stands_before_is_named_with_its_sign() -> None:
    first, second = decide(crash(*trace(LOADING), refused(tried="9.28 GiB"))).answers[:2]
    assert all(sign in first.ahead for sign in (*first.finding.signs[:1], *second.finding.signs[:1]))
