"""A grid search whose fits run at once, each with its copy of the data."""

import argparse

import numpy as np
from joblib import Parallel, delayed

parser = argparse.ArgumentParser()
parser.add_argument("--n-jobs", type=int, default=6)
parser.add_argument("--rows", type=int, default=1_000_000)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
args = parser.parse_args()


def fit(data, alpha):
    centred = data - data.mean(0)
    scaled = centred / (centred.std(0) + alpha)
    return alpha, float(np.linalg.norm(scaled.T @ scaled))


if __name__ == "__main__":
    table = np.random.default_rng(0).random((args.rows, 16)).astype(args.dtype)
    print(f"fitting 12 candidates, {table.nbytes / 1e6:.0f} MB of data", flush=True)
    scores = Parallel(n_jobs=args.n_jobs, verbose=10)(delayed(fit)(table, alpha) for alpha in np.linspace(0.1, 1, 12))
    print(max(scores, key=lambda it: it[1]), flush=True)
