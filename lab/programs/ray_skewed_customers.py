"""Computes features of the transactions of each customer segment, one Ray task per segment."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

SEGMENTS = {"airlines": 300_000, "grocery": 500_000, "hotels": 200_000, "online": 9_000_000, "parking": 400_000}
if "--prepare" in sys.argv:
    Path("transactions").mkdir()
    for segment, rows in SEGMENTS.items():
        generator = np.random.default_rng(len(segment))
        table = {
            "account": generator.integers(0, 5000, rows), "seconds": np.sort(generator.integers(0, 86400 * 30, rows)),
            "amount": generator.integers(100, 900, rows) / 4, "balance": generator.integers(0, 999, rows) / 2,
        }  # fmt: skip
        pq.write_table(pa.table(table), f"transactions/{segment}.parquet", row_group_size=250_000)
    sys.exit()

parser = argparse.ArgumentParser()
parser.add_argument("--input", type=Path, default=Path("transactions"))
parser.add_argument("--num-cpus", type=int, default=2)
parser.add_argument("--rows-per-task", type=int, default=10_000_000)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--max-retries", type=int, default=1)
args = parser.parse_args()
ray.init(num_cpus=args.num_cpus, object_store_memory=100_000_000, include_dashboard=False)


@ray.remote(max_retries=args.max_retries)
def account_features(path, first, count):
    file = pq.ParquetFile(path)
    groups = range(first // 250_000, min(file.num_row_groups, (first + count + 249_999) // 250_000))
    rows = file.read_row_groups(groups).to_pandas()
    kinds = {"float32": {"account": "int32", "seconds": "int32", "amount": "float32", "balance": "float32"}}
    rows = rows.astype(kinds.get(args.dtype, {}))
    rows = rows.sort_values(["account", "seconds"])
    rows["gap"] = rows.groupby("account").seconds.diff()
    rows["share"] = (rows.amount / (rows.balance + 1)).astype(args.dtype)
    rows["rank"] = rows.groupby("account").amount.rank()
    return rows.groupby("account")[["amount", "gap", "share", "rank"]].agg(["mean", "max"])


tasks = {}
for path in sorted(args.input.glob("*.parquet")):
    count = pq.ParquetFile(path).metadata.num_rows
    for first in range(0, count, args.rows_per_task):
        rows = min(args.rows_per_task, count - first)
        tasks[account_features.remote(str(path.absolute()), first, rows)] = f"{path.stem}[{first}:{first + rows}]"
print(f"{len(tasks)} tasks of at most {args.rows_per_task:,} rows: {', '.join(tasks.values())}", flush=True)
waiting = list(tasks)
while waiting:
    [ready], waiting = ray.wait(waiting)
    features = ray.get(ready)
    print(f"job {len(tasks) - len(waiting)}/{len(tasks)} {tasks[ready]}: {len(features):,} accounts", flush=True)
