"""Popularity of items from an interaction log."""

import argparse

import numpy as np
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--interactions", type=int, default=200_000)
parser.add_argument("--chunksize", type=int, default=50_000)
parser.add_argument("--dtype", default="int64")
parser.add_argument("--factorize-ids", action="store_true", help="number the items, do not take their ids")
args = parser.parse_args()

rng = np.random.default_rng(7)
catalogue = rng.integers(10**11, 10**12, 5000)  # ids of a shop system
log = pd.DataFrame({"user": rng.integers(0, 3000, args.interactions), "item": rng.choice(catalogue, args.interactions)})
print(log.describe().to_string(), flush=True)
if args.factorize_ids:
    log["item"], names = pd.factorize(log["item"])
popularity = 0
for number, start in enumerate(range(0, len(log), args.chunksize)):
    some = log["item"].to_numpy()[start : start + args.chunksize].astype(args.dtype)
    popularity = popularity + np.bincount(some, minlength=log["item"].max() + 1)
    print(f"batch {number} counted", flush=True)
top = np.argsort(popularity)[::-1][:10]
print(f"top items: {top.tolist()}", flush=True)
