"""Trains XGBoost on a wide table of features."""

import argparse

import numpy as np
import xgboost as xgb

parser = argparse.ArgumentParser()
parser.add_argument("--rows", type=int, default=600_000)
parser.add_argument("--features", type=int, default=200)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--matrix", default="DMatrix", choices=["DMatrix", "QuantileDMatrix", "external"])
parser.add_argument("--rows-per-part", type=int, default=50_000)
parser.add_argument("--max-bin", type=int, default=256)
parser.add_argument("--max-depth", type=int, default=6)
parser.add_argument("--nthread", type=int, default=2)
args = parser.parse_args()
print(f"xgboost {xgb.__version__}, {vars(args)}", flush=True)


def part(start, rows):
    x = np.random.default_rng(start).random((rows, args.features), dtype=args.dtype)
    return x, (x[:, 0] + x[:, 1] > 1).astype("float32")


class Parts(xgb.DataIter):
    def __init__(self):
        self.start = 0
        super().__init__(cache_prefix="cache" if args.matrix == "external" else None)

    def next(self, input_data):
        if self.start >= args.rows:
            return False
        data, label = part(self.start, args.rows_per_part)
        input_data(data=data, label=label)
        self.start += args.rows_per_part
        return True

    def reset(self):
        self.start = 0


if args.matrix == "external":
    train = xgb.ExtMemQuantileDMatrix(Parts(), max_bin=args.max_bin)
elif args.matrix == "QuantileDMatrix":
    train = xgb.QuantileDMatrix(Parts(), max_bin=args.max_bin)
else:
    x, y = part(0, args.rows)
    print(f"features {x.shape} {x.dtype}, {x.nbytes / 2**30:.2f} GiB", flush=True)
    train = xgb.DMatrix(x, label=y)
print(f"DMatrix of {train.num_row()} rows and {train.num_col()} columns", flush=True)
params = {"objective": "binary:logistic", "tree_method": "hist", "max_bin": args.max_bin, "max_depth": args.max_depth}
params["nthread"] = args.nthread
booster = xgb.train(params, train, num_boost_round=5, evals=[(train, "train")], verbose_eval=1)
print(f"trained {booster.num_boosted_rounds()} rounds", flush=True)
