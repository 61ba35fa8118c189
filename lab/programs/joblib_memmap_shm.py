"""Cross-validates a ridge regression in parallel."""

import argparse

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_validate

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=36_000)
parser.add_argument("--features", type=int, default=400)
parser.add_argument("--folds", type=int, default=4)
parser.add_argument("--n-jobs", type=int, default=2)
parser.add_argument("--dtype", default="float64")
args = parser.parse_args()

if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.standard_normal((args.rows, args.features), dtype="float32").astype(args.dtype)
    y = x[:, :5].sum(axis=1) + rng.normal(size=args.rows).astype(args.dtype)
    print(f"features {x.shape} {x.dtype}, {x.nbytes / 1e6:.0f} MB", flush=True)
    print(f"{args.folds} folds, n_jobs={args.n_jobs}", flush=True)
    scores = cross_validate(Ridge(solver="cholesky"), x, y, cv=args.folds, n_jobs=args.n_jobs, verbose=2)
    print(f"R2 {scores['test_score'].mean():.4f} +- {scores['test_score'].std():.4f}", flush=True)
