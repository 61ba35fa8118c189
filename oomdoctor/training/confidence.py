"""Confidence: the curve that turns what an answer rests on into how often such answers are right.

That is counted on logs that were read for the first time: on those that the tables were written with these are right in
nearly all, whatever they rest on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from oomdoctor.decision.model import GROUNDS, Strength, Trust, grounds
from oomdoctor.training.examples import Example
from oomdoctor.training.strengths import Likely, standings

ENOUGH: Final = 100  # first readings; with fewer the logs that the tables were written with have to do
# Of the first readings, those nearest to the tables of today: older ones tell how often older tables were right. On
# four sets in a row that it had not seen the error was smaller with 400 than with all: 0.07 on average, against 0.10.
LATEST: Final = 400
PENALTY: Final = 1.0  # of the curve's fit, by the sets of first readings held back in turn
DECIMALS: Final = 2
BINS: Final = 5

Rest = tuple[bool, dict[str, float]]  # whether the answer is right, and what it rests on


def trust(examples: Sequence[Example], likely: Sequence[Likely], strengths: Mapping[str, Strength]) -> Trust:
    """A logistic curve over every answer that a table gave. What would make it fall is left out of it."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415  (1.3 s)

    rests = [(rest, e.share) for e, p in zip(examples, likely, strict=True) for rest in _rests(e, p, strengths)]
    right = [is_right for (is_right, _), _ in rests]
    shares = [share for _, share in rests]
    names = list(GROUNDS)
    while True:
        fitted = LogisticRegression(C=PENALTY, max_iter=1000)
        fitted.fit([[row[name] for name in names] for (_, row), _ in rests], right, sample_weight=shares)
        slopes = {name: round(float(value), DECIMALS) for name, value in zip(names, fitted.coef_[0], strict=True)}
        if min(slopes.values()) >= 0:
            break
        names = [name for name in names if slopes[name] >= 0]
    return Trust(base=round(float(fitted.intercept_[0]), DECIMALS), **{name: slopes.get(name, 0.0) for name in GROUNDS})


def calibration_error(
    examples: Sequence[Example], folds: Sequence[int], likely: Sequence[Likely], strengths: Mapping[str, Strength]
) -> float:
    """How far the first answers' confidence is from how often they are right, on projects that the curve has not
    seen."""
    sure: list[tuple[float, bool]] = []
    for fold in sorted(set(folds)):
        seen = [n for n, at in enumerate(folds) if at != fold]
        curve = trust([examples[n] for n in seen], [likely[n] for n in seen], strengths)
        held = [n for n, at in enumerate(folds) if at == fold and examples[n].own]
        rests = [rest for n in held for rest in _rests(examples[n], likely[n], strengths)]
        sure += [(curve.of(row), is_right) for is_right, row in rests if row["first"]]
    sure.sort()
    edges = [n * len(sure) // BINS for n in range(BINS + 1)]
    bins = [sure[start:end] for start, end in pairwise(edges) if end > start]
    return round(sum(abs(sum(p - is_right for p, is_right in each)) for each in bins) / (len(sure) or 1), 3)


def _rests(example: Example, likely: Likely, strengths: Mapping[str, Strength]) -> Iterator[Rest]:
    """Every answer of the tables but a fallback's, which has its own."""
    answers = standings(example, likely, strengths)
    for place, one in enumerate(answers):
        if one.cause.fallback:
            continue
        row = grounds(
            one.strength,
            max((other.strength for other in answers if other is not one), default=0.0),
            first=place == 0,
            proven=example.proven,
            known=example.known,
            agreement=one.likely,
        )
        yield one.cause.id in example.fair, row


__all__ = ["ENOUGH", "LATEST", "calibration_error", "trust"]
