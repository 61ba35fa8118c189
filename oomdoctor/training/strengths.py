"""The strengths of signs: what each is worth beyond its grade, where enough logs contest it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from oomdoctor.causes import Cause, causes
from oomdoctor.decision.model import Strength, strength_of
from oomdoctor.decision.order import Standing, in_order
from oomdoctor.training.examples import Example

CONTESTED: Final = 20  # logs in which a sign has to stand beside a wrong answer or a right one for it to be fitted
RIDGE: Final = 0.05  # toward the grade
GRADE_SCALE: Final = 10.0  # the grades themselves are hardly held back by the ridge
DECIMALS: Final = 2

Likely = dict[str, float]


def strengths(examples: Sequence[Example], folds: Sequence[int], likely: Sequence[Likely]) -> dict[str, Strength]:
    """Of every sign how many logs carry it and contest it. Offsets are kept only where those that were fitted to the
    other projects put more answers of a project first than the grades alone."""
    own = [(e, at, p) for e, at, p in zip(examples, folds, likely, strict=True) if e.own]
    logs = Counter(answer.sign for e, _, _ in own for answer in e.answers.values())
    contested = Counter(answer.sign for e, _, _ in own if e.contested for answer in e.answers.values())
    often = frozenset(sign for sign, count in contested.items() if count >= CONTESTED and sign)
    by_grade = by_offset = 0
    for fold in sorted(set(folds)):
        fitted = _as_strengths(_offsets([e for e, at, _ in own if at != fold], often))
        held = [(e, p) for e, at, p in own if at == fold]
        by_grade += sum(first(e, p, {}) in e.fair for e, p in held)
        by_offset += sum(first(e, p, fitted) in e.fair for e, p in held)
    kept = _offsets([e for e, _, _ in own], often) if by_offset > by_grade else {}
    return {
        sign: Strength(logs=count, contested=contested[sign], offset=kept.get(sign))
        for sign, count in sorted(logs.items())
        if sign
    }


def first(example: Example, likely: Likely, fitted: Mapping[str, Strength]) -> str:
    """The first of the tables' answers, in the order that a diagnosis has."""
    return next((standing.cause.id for standing in standings(example, likely, fitted)), "")


def standings(example: Example, likely: Likely, fitted: Mapping[str, Strength]) -> list[Standing]:
    """The tables' answers, best first."""
    return in_order(
        Standing(_by_id()[cause], answer.grade, strength_of(answer.grade, answer.sign, fitted), likely.get(cause, 0.0))
        for cause, answer in example.answers.items()
    )


def _by_id() -> dict[str, Cause]:
    return {cause.id: cause for cause in causes()}


def _as_strengths(offsets: Mapping[str, float]) -> dict[str, Strength]:
    return {sign: Strength(logs=0, contested=0, offset=offset) for sign, offset in offsets.items()}


def _offsets(examples: Sequence[Example], often: frozenset[str]) -> dict[str, float]:
    """What a sign is worth beyond its grade, in the grades' own unit: fitted to which of two answers is right."""
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415  (1.3 s)
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    pairs = [pair for e in examples if e.contested for pair in _contests(e, often)]
    if not pairs:
        return {}
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform([*pairs, *({name: -x for name, x in pair.items()} for pair in pairs)])
    fitted = LogisticRegression(C=RIDGE, fit_intercept=False, max_iter=500)
    fitted.fit(matrix, [1] * len(pairs) + [0] * len(pairs))
    worth = dict(zip(map(str, vectorizer.get_feature_names_out()), map(float, fitted.coef_[0]), strict=True))
    unit = worth.pop("grade", 0.0) * GRADE_SCALE
    return {sign: round(value / unit, DECIMALS) for sign, value in sorted(worth.items())} if unit > 0 else {}


def _contests(example: Example, often: frozenset[str]) -> Iterator[dict[str, float]]:
    """Each right answer beside each wrong one: the difference of their grades, and the signs that are fitted."""
    right = [answer for cause, answer in example.answers.items() if cause in example.fair]
    wrong = [answer for cause, answer in example.answers.items() if cause not in example.fair]
    for one in right:
        for other in wrong:
            pair: dict[str, float] = {"grade": GRADE_SCALE * (one.grade - other.grade) / 100}
            for answer, way in ((one, 1.0), (other, -1.0)):
                if answer.sign in often:
                    pair[answer.sign] = pair.get(answer.sign, 0.0) + way
            yield pair


__all__ = ["first", "standings", "strengths"]
