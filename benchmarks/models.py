"""What else could rank the causes: other models beside the one that ships, on the same held-back logs.

    python -m benchmarks.models [--logs 2280] [--seed 1]

Three folds over the generated logs and the fixtures, the same for all. Told are the share of the held-back logs whose
first cause a fair judge accepts, apart for generated logs and for fixtures (whose labels are what the rules say of
them, read through by a person: the rules are right there by definition), and the log loss of the label. Needs the extra
`train`.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from oomdoctor.cli.train import LOGS, SEED
from oomdoctor.training.examples import Example, examples
from oomdoctor.training.fit import FOLDS, RARE

Likely = list[dict[str, float]]
MODELS: dict[str, Callable[[], Any]] = {
    "linear": lambda: LogisticRegression(C=1.0, max_iter=300, tol=1e-3),
    "forest": lambda: RandomForestClassifier(n_estimators=300, min_samples_leaf=1, random_state=0),
    "nearest neighbours": lambda: KNeighborsClassifier(n_neighbors=7, weights="distance", metric="cosine"),
    "gradient boosting": lambda: HistGradientBoostingClassifier(
        max_iter=25,
        learning_rate=0.3,
        max_leaf_nodes=15,
        min_samples_leaf=5,
        l2_regularization=1.0,
        max_features=0.1,
        random_state=0,
    ),
}


def held_back(make: Callable[[], Any], learned: Sequence[Example]) -> Likely:
    """What a model that has not seen it says of each log."""
    told: Likely = [{} for _ in learned]
    for fold in range(FOLDS):
        known = [e for n, e in enumerate(learned) if n % FOLDS != fold]
        vectorizer = DictVectorizer(sparse=False)
        matrix = vectorizer.fit_transform([e.features for e in known])
        often = (matrix > 0).sum(axis=0) >= RARE
        model = make()
        model.fit(matrix[:, often], [e.cause for e in known])
        places = [n for n in range(len(learned)) if n % FOLDS == fold]
        likely = model.predict_proba(vectorizer.transform([learned[n].features for n in places])[:, often])
        for n, row in zip(places, likely, strict=True):
            told[n] = dict(zip(map(str, model.classes_), map(float, row), strict=True))
    return told


def by_rules(learned: Sequence[Example]) -> Likely:
    return [{cause: float(answer.grade) for cause, answer in e.answers.items()} for e in learned]


def row(learned: Sequence[Example], told: Likely, *, own: bool) -> float:
    picked = [(e, p) for e, p in zip(learned, told, strict=True) if e.own is own]
    return sum(max(p, key=p.__getitem__, default="") in e.fair for e, p in picked) / len(picked)


def loss(learned: Sequence[Example], told: Likely) -> float:
    return -sum(math.log(max(p.get(e.cause, 0.0), 1e-3)) for e, p in zip(learned, told, strict=True)) / len(learned)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--logs", type=int, default=LOGS)
    arguments.add_argument("--seed", type=int, default=SEED)
    given = arguments.parse_args()
    learned = examples([], given.logs, given.seed, lambda: None)
    rules = by_rules(learned)
    print(
        f"{'rules':>20}: generated {row(learned, rules, own=False):.3f}, fixtures {row(learned, rules, own=True):.3f}"
    )
    for name, make in MODELS.items():
        begin = time.process_time()
        told = held_back(make, learned)
        print(
            f"{name:>20}: generated {row(learned, told, own=False):.3f}, fixtures {row(learned, told, own=True):.3f}, "
            f"loss {loss(learned, told):.3f}, {time.process_time() - begin:.0f} s of processor time",
            flush=True,
        )


if __name__ == "__main__":
    main()
