"""Of two answers that the tables think as strong, the one that names a cause comes before a fallback."""

from __future__ import annotations

from typing import Final

import pytest
from gpu_logs import crash, refused
from msgspec.structs import replace

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.judgement import Finding
from oomdoctor.decision.model import GROUNDS, Trust, used
from oomdoctor.decision.order import Standing, in_order
from oomdoctor.decision.ranking import FALLBACK, IN_DOUBT, IN_OTHER_WORDS, MOST, UNPROVEN, ranked
from oomdoctor.signs import Grade


def standing(cause: str, strength: float, likely: float, grade: Grade | None = None) -> Standing:
    return Standing(_cause(cause), grade, strength, likely)


def _cause(name: str) -> Cause:
    return next(each for each in causes() if each.id == name)


@pytest.mark.parametrize(
    ("concrete", "fallback", "first"),
    [
        ((0.4, 0.1), (0.4, 0.9), "activations"),  # the classifier prefers the fallback
        ((0.4, 0.1), (0.3, 0.9), "activations"),
        ((0.4, 0.9), (0.5, 0.1), "gpu-memory-exhausted"),  # the tables do
    ],
)
def test_a_cause_before_a_fallback_of_equal_strength(
    concrete: tuple[float, float], fallback: tuple[float, float], first: str
) -> None:
    ordered = in_order([standing("gpu-memory-exhausted", *fallback), standing("activations", *concrete)])
    assert ordered[0].cause.id == first


def test_the_classifier_decides_between_two_causes() -> None:
    ordered = in_order([standing("activations", 0.4, 0.2), standing("logits-spike", 0.4, 0.7)])
    assert [one.cause.id for one in ordered] == ["logits-spike", "activations"]


SURE: Final = replace(used(), trust=Trust(base=9.0, **dict.fromkeys(GROUNDS, 0.0)))
OF_A_CARD: Final = refused()
IN_WORDS: Final = "RuntimeError: the scratch pool of the GPU is exhausted: 900 MB needed, 100 MB free"
KILLED: Final = "Killed"


def answers(line: str, cause: str, *, shows: bool = True) -> tuple[float, ...]:
    """How sure a curve that is always sure of a cause that proves itself, and of a second one."""
    it = crash(line)
    findings = [
        (_cause(name), Finding(grade=grade, why="", evidence=(it.root,), shows_memory=shows))
        for name, grade in ((cause, Grade.PROVES), ("gpu-memory-exhausted", Grade.HINTS))
    ]
    return tuple(one.confidence for one in ranked(it, findings, frozenset(), SURE).answers)


@pytest.mark.parametrize(
    ("line", "shows", "most"),
    [(OF_A_CARD, True, MOST), (IN_WORDS, True, IN_OTHER_WORDS), (KILLED, False, UNPROVEN), (KILLED, True, MOST)],
)
def test_how_sure_an_answer_may_be(line: str, shows: bool, most: float) -> None:
    assert answers(line, "activations", shows=shows)[0] == most


def test_no_answer_is_surer_than_the_one_before() -> None:
    first, second = answers(IN_WORDS, "activations")
    assert (first, second) == (IN_OTHER_WORDS, FALLBACK)
    ahead = (
        Finding(grade=Grade.PROVES, why="", evidence=(), unsure=True),
        Finding(grade=Grade.NAMES, why="", evidence=()),
    )
    it = crash(OF_A_CARD)
    found = [(_cause(name), one) for name, one in zip(("activations", "logits-spike"), ahead, strict=True)]
    confidences = [one.confidence for one in ranked(it, found, frozenset(), SURE).answers]
    assert confidences == pytest.approx([IN_DOUBT, 1 - IN_DOUBT])
