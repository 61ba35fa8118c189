"""Of two answers that the tables think as strong, the one that names a cause comes before a fallback."""

from __future__ import annotations

import pytest

from oomdoctor.causes import causes
from oomdoctor.decision.order import Standing, in_order
from oomdoctor.signs import Grade


def standing(cause: str, strength: float, likely: float, grade: Grade | None = None) -> Standing:
    known = next(each for each in causes() if each.id == cause)
    return Standing(known, grade, strength, likely)


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
