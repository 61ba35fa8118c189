"""Fitting with scikit-learn: the linear model and its temperature, the strengths of signs where enough logs contest
them, and the curve that turns answers into confidence. What is measured is measured on projects that were left out."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor import __version__
from oomdoctor.decision.model import FORMAT, GROUNDS, Model, Strength, Trust
from oomdoctor.decision.order import NAMED
from oomdoctor.language import say
from oomdoctor.training.confidence import ENOUGH, LATEST, calibration_error, trust
from oomdoctor.training.examples import Advance, Example
from oomdoctor.training.strengths import Likely, first, strengths

FOLDS: Final = 5  # of projects
LEAST: Final = 30  # logs to learn from
RARE: Final = 5  # a feature of fewer logs says more of these logs than of their cause
PENALTIES: Final = (0.3, 1.0)  # of the fit, of which the better one on held-back projects is taken
SMALL: Final = 0.16  # weights below it are left out: they cost bytes and change nothing
DECIMALS: Final = 2
TEMPERATURES: Final = tuple(0.5 + 0.1 * n for n in range(26))
OPEN_BELOW: Final = 0.85  # where more than one answer in seven is wrong, the cause is open
STEPS: Final = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)  # of the classifier's probability
RIGHT_ENOUGH: Final = 0.8  # of the causes that the classifier adds on held-back logs
NO_TRUST: Final = Trust(base=0.0, **dict.fromkeys(GROUNDS, 0.0))


class TooFewError(ValueError):
    """There is too little to learn from."""


class Trained(Struct, frozen=True):
    model: Model
    document: str  # the model as JSON
    right: float  # of the held-back logs, first by the classifier alone


def fit(examples: Sequence[Example], seed: int, logs: int, advance: Advance) -> Trained:
    """The model of these examples: the same examples give the same bytes."""
    given, examples = examples, [one for one in examples if not one.first]
    if len({example.cause for example in examples}) < FOLDS or len(examples) < LEAST:
        raise TooFewError(say("{count} logs with a crash are too few to learn from", count=len(examples)))
    folds = _folds(examples)
    vocabulary = _vocabulary(examples)
    best: tuple[float, float, float, list[Likely]] | None = None
    for penalty in PENALTIES:
        held_back = [
            _linear([e for e, at in zip(examples, folds, strict=True) if at != fold], vocabulary, penalty, seed)
            for fold in range(FOLDS)
        ]
        temperature, loss = _temperature(held_back, examples, folds)
        if best is None or loss < best[0]:
            cooled = [replace(model, temperature=temperature) for model in held_back]
            likely = [cooled[at].probabilities(e.features) for e, at in zip(examples, folds, strict=True)]
            best = loss, penalty, temperature, likely
        advance()
    assert best is not None  # there is at least one penalty
    loss, penalty, temperature, likely = best
    worth = strengths(examples, folds, likely)
    advance()
    fitted = replace(_linear(examples, vocabulary, penalty, seed), temperature=temperature)
    judges, chances = _judges(given, examples, likely, fitted)
    model = replace(fitted, trust=trust(judges, chances, worth), strengths=worth, add_from=_add_from(examples, likely))
    advance()
    right = _share(max(p, key=p.__getitem__) in e.fair for e, p in zip(examples, likely, strict=True))
    figures = {
        "logs": logs,
        "with a crash": len(examples),
        "projects": len({example.project for example in examples if example.own}),
        "held back: loss": round(loss, 3),
        "held back: first by the classifier alone": right,
        "first by the grades alone": _right(examples, likely, {}),
        "first with fitted strengths": _right(examples, likely, worth),
        "held back: calibration error": calibration_error(judges, _folds(judges), chances, worth),
    }
    return Trained(model, _document(model, seed, penalty, figures), right)


def _judges(
    given: Sequence[Example], examples: Sequence[Example], likely: Sequence[Likely], fitted: Model
) -> tuple[Sequence[Example], Sequence[Likely]]:
    """The logs that tell how often answers are right, with what a classifier that has not seen them says."""
    first = [one for one in given if one.first]
    if len(first) < ENOUGH:
        return examples, likely
    latest = first[-LATEST:]
    return latest, [fitted.probabilities(one.features) for one in latest]


def _folds(examples: Sequence[Example]) -> list[int]:
    """Of each example the fold that it is held back in; all logs of a project are in one."""
    projects = sorted({example.project for example in examples})
    places = {project: number % FOLDS for number, project in enumerate(projects)}
    return [places[example.project] for example in examples]


def _vocabulary(examples: Sequence[Example]) -> frozenset[str]:
    seen = Counter(name for example in examples for name in example.features)
    return frozenset(name for name, count in seen.items() if count >= RARE)


def _linear(examples: Sequence[Example], vocabulary: frozenset[str], penalty: float, seed: int) -> Model:
    """A multinomial logistic regression, its small weights left out."""
    from sklearn.feature_extraction import DictVectorizer  # noqa: PLC0415  (1.3 s)
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415

    rows = [{name: value for name, value in e.features.items() if name in vocabulary} for e in examples]
    vectorizer = DictVectorizer()
    matrix = vectorizer.fit_transform(rows)
    fitted = LogisticRegression(C=penalty, max_iter=300, tol=1e-3, random_state=seed)
    fitted.fit(matrix, [e.cause for e in examples], sample_weight=[e.share for e in examples])
    names = vectorizer.get_feature_names_out()
    labels = [str(cause) for cause in fitted.classes_]
    weights = {
        str(name): {
            cause: round(float(weight), DECIMALS)
            for cause, weight in zip(labels, fitted.coef_[:, column], strict=True)
            if abs(weight) >= SMALL
        }
        for column, name in enumerate(names)
    }
    return Model(
        causes=tuple(labels),
        bias=tuple(round(float(bias), DECIMALS) for bias in fitted.intercept_),
        weights={name: of for name, of in sorted(weights.items()) if of},
        temperature=1.0,
        trust=NO_TRUST,
        strengths={},
        open_below=OPEN_BELOW,
        add_from=1.0,
    )


def _temperature(held_back: Sequence[Model], examples: Sequence[Example], folds: Sequence[int]) -> tuple[float, float]:
    """What makes the probabilities of held-back logs as sure as they are right, and their loss with it."""
    trials = []
    for temperature in TEMPERATURES:
        models = [replace(model, temperature=temperature) for model in held_back]
        chances = [
            models[at].probabilities(e.features).get(e.cause, 0.0) for e, at in zip(examples, folds, strict=True)
        ]
        trials.append((-sum(math.log(max(p, 1e-9)) for p in chances) / len(chances), round(temperature, 1)))
    loss, temperature = min(trials)
    return temperature, loss


def _add_from(examples: Sequence[Example], likely: Sequence[Likely]) -> float:
    """From which probability on the causes that no table names are right often enough on held-back logs."""
    added = []
    for e, p in zip(examples, likely, strict=True):
        best = max(p, key=p.__getitem__)
        if best not in e.answers and max((a.grade / 100 for a in e.answers.values()), default=0.0) < NAMED:
            added.append((p[best], best in e.fair))
    for least in STEPS:
        above = [right for probability, right in added if probability >= least]
        if above and sum(above) >= RIGHT_ENOUGH * len(above):
            return least
    return 1.0


def _right(examples: Sequence[Example], likely: Sequence[Likely], fitted: Mapping[str, Strength]) -> float:
    return _share(first(e, p, fitted) in e.fair for e, p in zip(examples, likely, strict=True) if e.own)


def _share(right: Iterable[bool]) -> float:
    answers = list(right)
    return round(sum(answers) / len(answers), 3) if answers else 0.0


def _document(model: Model, seed: int, penalty: float, figures: dict[str, Any]) -> str:
    body = {
        "format": FORMAT,
        "about": "the classifier, by `oomdoctor train`: sums of a crash's features' weights, softmax over causes; what "
        "signs are worth beyond their grades, where enough logs contest them; and how sure that makes",
        "version": __version__,
        "seed": seed,
        "penalty": penalty,
        "figures": figures,
        "temperature": model.temperature,
        "trust": {"base": model.trust.base, **{name: getattr(model.trust, name) for name in GROUNDS}},
        "open_below": model.open_below,
        "add_from": model.add_from,
        "causes": list(model.causes),
        "bias": dict(zip(model.causes, model.bias, strict=True)),
    }
    head = json.dumps(body, indent=1, ensure_ascii=False)[:-2]
    worth = (
        f"  {json.dumps(sign)}: {json.dumps([it.logs, it.contested, it.offset])}"
        for sign, it in model.strengths.items()
    )
    lines = (f"  {json.dumps(name)}: {json.dumps(of)}" for name, of in model.weights.items())
    return (
        f'{head},\n "strengths": {{\n' + ",\n".join(worth) + '\n },\n "weights": {\n' + ",\n".join(lines) + "\n }\n}\n"
    )


__all__ = ["TooFewError", "Trained", "fit"]
