"""Searches the hyperparameters of a forest that predicts the prices of flats."""

import argparse
import logging
import pickle
import sys
import time

import numpy as np
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.metrics import r2_score
from sklearn.model_selection import ParameterSampler, train_test_split

parser = argparse.ArgumentParser()
parser.add_argument("--n-trials", type=int, default=16)
parser.add_argument("--n-estimators", type=int, default=60)
parser.add_argument("--rows", type=int, default=20_000)
parser.add_argument("--max-leaf-nodes", type=int, default=0, help="0: as many as there are")
parser.add_argument("--n-jobs", type=int, default=2)
parser.add_argument("--keep", default="all", choices=["all", "best"])
parser.add_argument("--model-dir", default="", help="write each trial's model there and forget it")
args = parser.parse_args()
logging.basicConfig(format="[%(levelname).1s %(asctime)s] %(message)s", level=logging.INFO, stream=sys.stdout)
log = logging.getLogger("search")

rng = np.random.default_rng(0)
X = rng.normal(size=(args.rows, 12)).astype(np.float32)
y = X[:, 0] * X[:, 1] + np.sin(3 * X[:, 2]) + rng.normal(scale=0.3, size=args.rows)
X_train, X_valid, y_train, y_valid = train_test_split(X, y, random_state=0)
space = {
    "max_features": [0.3, 0.5, 0.8, 1.0],
    "min_samples_split": [2, 3, 4],
    "criterion": ["squared_error"],
    "bootstrap": [True, False],
}
log.info("A new study created: %d trials, %d training rows", args.n_trials, len(X_train))
trials = []
for number, params in enumerate(ParameterSampler(space, args.n_trials, random_state=1)):
    began = time.perf_counter()
    leaves = args.max_leaf_nodes or None
    model = ExtraTreesRegressor(args.n_estimators, max_leaf_nodes=leaves, n_jobs=args.n_jobs, random_state=0, **params)
    model.fit(X_train, y_train)
    score = r2_score(y_valid, model.predict(X_valid))
    seconds = time.perf_counter() - began
    log.info("Trial %d finished with value: %.5f and parameters: %s. (%.1fs)", number, score, params, seconds)
    if args.model_dir:
        with open(f"{args.model_dir}/trial-{number}.pkl", "wb") as file:
            pickle.dump(model, file)
        model = file.name
    trials.append((score, number, model))
    if args.keep == "best":
        trials = [max(trials)]
best = max(trials)
log.info("Best trial: %d with value: %.5f", best[1], best[0])
if not args.model_dir:
    with open("best.pkl", "wb") as file:
        pickle.dump(best[2], file)
