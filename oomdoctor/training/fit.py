"""Fitting with scikit-learn: the linear model, its temperature, and the curve that turns answers into confidence."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from oomdoctor import __version__
from oomdoctor.decision.judgement import NAMED
from oomdoctor.decision.model import FORMAT, Model, Trust, grounds
from oomdoctor.decision.ranking import standing
from oomdoctor.language import say
from oomdoctor.records import dataclass
from oomdoctor.training.examples import Advance, Example

FOLDS: Final = 3
RARE: Final = 5  # a feature of fewer logs says more of these logs than of their cause
STRENGTHS: Final = (0.3, 1.0)  # of the fit, of which the better one on held-back logs is taken
SMALL: Final = 0.15  # weights below it are left out: they cost bytes and change nothing
DECIMALS: Final = 2
TEMPERATURES: Final = tuple(0.5 + 0.1 * n for n in range(26))
OPEN_BELOW: Final = 0.85  # where more than one answer in seven is wrong, the cause is open
STEPS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the classifier's probability
RIGHT_ENOUGH: Final = 0.8  # of the causes that the classifier adds on held-back logs
GROUNDS: Final = ("first", "weight", "lead", "proven", "known", "agreement")
NO_TRUST: Final = Trust(0, 0, 0, 0, 0, 0, 0)


class TooFewError(ValueError):
    """There is too little to learn from."""


@dataclass(frozen=True, slots=True)
class Trained:
    model: Model
    document: str  # the model as JSON
    right: float  # of the held-back logs, first by the classifier alone


def fit(examples: Sequence[Example], seed: int, logs: int, advance: Advance) -> Trained:
    """The model of these examples: the same examples give the same bytes."""
    if len({example.cause for example in examples}) < FOLDS or len(examples) < 10 * FOLDS:
        raise TooFewError(say("{count} logs with a crash are too few to learn from", count=len(examples)))
    vocabulary = _vocabulary(examples)
    best: tuple[float, float, list[Model]] | None = None
    for strength in STRENGTHS:
        held_back = [
            _linear([e for n, e in enumerate(examples) if n % FOLDS != fold], vocabulary, strength, seed)
            for fold in range(FOLDS)
        ]
        temperature, loss = _temperature(held_back, examples)
        if best is None or loss < best[0]:
            best = loss, strength, [replace(model, temperature=temperature) for model in held_back]
        advance()
    assert best is not None  # there is at least one strength
    loss, strength, held_back = best
    likely = [held_back[n % FOLDS].probabilities(e.features) for n, e in enumerate(examples)]
    advance()
    trust = _trust(examples, likely)
    advance()
    model = replace(
        _linear(examples, vocabulary, strength, seed),
        temperature=held_back[0].temperature,
        trust=trust,
        add_from=_add_from(examples, likely),
    )
    right = _share(max(p, key=p.__getitem__) in e.fair for e, p in zip(examples, likely, strict=True))
    figures = {
        "logs": logs,
        "with a crash": len(examples),
        "held back: loss": round(loss, 3),
        "held back: first by the classifier alone": right,
        "rules alone": _share(_by_rules(e) in e.fair for e in examples),
    }
    return Trained(model, _document(model, seed, strength, figures), right)


def _vocabulary(examples: Sequence[Example]) -> frozenset[str]:
    seen = Counter(name for example in examples for name in example.features)
    return frozenset(name for name, count in seen.items() if count >= RARE)


def _linear(examples: Sequence[Example], vocabulary: frozenset[str], strength: float, seed: int) -> Model:
    """A multinomial logistic regression, its small weights left out."""
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415  (1.3 s)
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    rows = [{name: value for name, value in e.features.items() if name in vocabulary} for e in examples]
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(rows)
    fitted = LogisticRegression(C=strength, max_iter=300, tol=1e-3, random_state=seed)
    fitted.fit(matrix, [e.cause for e in examples], sample_weight=[e.share for e in examples])
    names = vectorizer.get_feature_names_out()
    causes = [str(cause) for cause in fitted.classes_]
    weights = {
        str(name): {
            cause: round(float(weight), DECIMALS)
            for cause, weight in zip(causes, fitted.coef_[:, column], strict=True)
            if abs(weight) >= SMALL
        }
        for column, name in enumerate(names)
    }
    return Model(
        causes=tuple(causes),
        bias=tuple(round(float(bias), DECIMALS) for bias in fitted.intercept_),
        weights={name: of for name, of in sorted(weights.items()) if of},
        temperature=1.0,
        trust=NO_TRUST,
        open_below=OPEN_BELOW,
        add_from=1.0,
    )


def _temperature(held_back: Sequence[Model], examples: Sequence[Example]) -> tuple[float, float]:
    """What makes the probabilities of held-back logs as sure as they are right, and their loss with it."""
    found = []
    for temperature in TEMPERATURES:
        models = [replace(model, temperature=temperature) for model in held_back]
        told = [models[n % FOLDS].probabilities(e.features).get(e.cause, 0.0) for n, e in enumerate(examples)]
        found.append((-sum(math.log(max(p, 1e-9)) for p in told) / len(told), round(temperature, 1)))
    loss, temperature = min(found)
    return temperature, loss


def _trust(examples: Sequence[Example], likely: Sequence[dict[str, float]]) -> Trust:
    """A logistic curve over every answer that a rule gave. What would make it fall is left out of it."""
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    own = sum(e.share for e in examples if e.own)
    generated = sum(e.share for e in examples if not e.own)
    of_own = generated / own if own and generated else 1.0  # both halves count alike
    rows, right, shares = [], [], []
    for e, p in zip(examples, likely, strict=True):
        best = _first(e, p)
        for cause, weight in e.weights.items():
            other = max((w for name, w in e.weights.items() if name != cause), default=0.0)
            rows.append(
                grounds(weight, other, first=cause == best, proven=e.proven, known=e.known, agreement=p.get(cause, 0.0))
            )
            right.append(cause in e.fair)
            shares.append(e.share * of_own if e.own else e.share)
    used = list(GROUNDS)
    while True:
        fitted = LogisticRegression(C=100.0)
        fitted.fit([[row[name] for name in used] for row in rows], right, sample_weight=shares)
        found = {name: round(float(value), DECIMALS) for name, value in zip(used, fitted.coef_[0], strict=True)}
        falls = [name for name, value in found.items() if value < 0]
        if not falls:
            break
        used = [name for name in used if name not in falls]
    return Trust(round(float(fitted.intercept_[0]), DECIMALS), **{name: found.get(name, 0.0) for name in GROUNDS})


def _add_from(examples: Sequence[Example], likely: Sequence[dict[str, float]]) -> float:
    """From which probability on the causes that no rule names are right often enough on held-back logs."""
    told = []
    for e, p in zip(examples, likely, strict=True):
        best = max(p, key=p.__getitem__)
        if best not in e.weights and max(e.weights.values(), default=0.0) < NAMED:
            told.append((p[best], best in e.fair))
    for least in STEPS:
        above = [right for probability, right in told if probability >= least]
        if above and sum(above) >= RIGHT_ENOUGH * len(above):
            return least
    return 1.0


def _by_rules(example: Example) -> str:
    return max(example.weights, key=example.weights.__getitem__, default="")


def _first(example: Example, likely: Mapping[str, float]) -> str:
    """The first of the rules' answers, in the order that a diagnosis has."""
    weights = example.weights
    return max(weights, key=lambda cause: standing(weights[cause], likely.get(cause, 0.0)), default="")


def _share(right: Iterable[bool]) -> float:
    told = list(right)
    return round(sum(told) / len(told), 3)


def _document(model: Model, seed: int, strength: float, figures: dict[str, Any]) -> str:
    told = {
        "format": FORMAT,
        "about": "the classifier, by `oomdoctor train`: sums of a crash's features' weights, softmax over causes",
        "version": __version__,
        "seed": seed,
        "strength": strength,
        "figures": figures,
        "temperature": model.temperature,
        "trust": {"base": model.trust.base, **{name: getattr(model.trust, name) for name in GROUNDS}},
        "open_below": model.open_below,
        "add_from": model.add_from,
        "causes": list(model.causes),
        "bias": dict(zip(model.causes, model.bias, strict=True)),
    }
    head = json.dumps(told, indent=1, ensure_ascii=False)[:-2]
    lines = (f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in model.weights.items())
    return head + ',\n "weights": {\n' + ",\n".join(lines) + "\n }\n}\n"


__all__ = ["TooFewError", "Trained", "fit"]
