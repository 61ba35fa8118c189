"""Makes the matrix of users and items of a table of ratings and compares the items."""

import argparse

import numpy as np
import pandas as pd

parser = argparse.ArgumentParser()
parser.add_argument("--ratings", type=int, default=400_000)
parser.add_argument("--users", type=int, default=30_000)
parser.add_argument("--items", type=int, default=8_000)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--sparse", action="store_true")
parser.add_argument("--chunk-users", type=int, default=0, help="users pivoted at once, 0: all")
args = parser.parse_args()

rng = np.random.default_rng(0)
ratings = pd.DataFrame(
    {
        "user_id": rng.integers(0, args.users, args.ratings),
        "item_id": rng.integers(0, args.items, args.ratings),
        "rating": rng.integers(1, 6, args.ratings).astype(args.dtype),
    }
).drop_duplicates(["user_id", "item_id"])
print(ratings.dtypes, flush=True)
print(f"pivot of {len(ratings)} ratings: {args.users} users, {args.items} items", flush=True)
sums = np.zeros(args.items)
if args.sparse:
    from scipy.sparse import coo_matrix

    matrix = coo_matrix((ratings["rating"], (ratings["user_id"], ratings["item_id"])), (args.users, args.items))
    sums += np.asarray(matrix.sum(0)).ravel()
else:
    size = args.chunk_users or args.users
    for number, start in enumerate(range(0, args.users, size)):
        part = ratings[ratings["user_id"].between(start, start + size - 1)]
        wide = part.pivot_table(index="user_id", columns="item_id", values="rating", fill_value=0)
        sums[wide.columns] += wide.sum(0)
        print(f"batch {number}: {wide.shape}, {wide.memory_usage(deep=True).sum() / 1e6:.0f} MB", flush=True)
print(f"most rated: item {sums.argmax()} with {sums.max():.0f}", flush=True)
