"""Joins the meter readings of twelve months into one table and reports the load by hour."""

import argparse
import sys
from pathlib import Path

import numpy as np
import pandas as pd

if "--prepare" in sys.argv:
    Path("readings").mkdir()
    for month in range(12):
        generator = np.random.default_rng(month)
        rows = 400_000
        table = {f"phase_{n}": generator.normal(230, 5, rows) for n in range(24)}
        table["hour"] = generator.integers(0, 24, rows)
        pd.DataFrame(table).to_parquet(f"readings/2025-{month + 1:02}.parquet", compression=None)
    sys.exit()

parser = argparse.ArgumentParser()
parser.add_argument("--folder", type=Path, default=Path("readings"))
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--usecols", type=int, default=24, help="how many of the phases to read")
parser.add_argument("--by-month", action="store_true", help="aggregate each month before the next one is read")
args = parser.parse_args()

phases = [f"phase_{n}" for n in range(args.usecols)]
months = []
for path in sorted(args.folder.glob("*.parquet")):
    month = pd.read_parquet(path, columns=[*phases, "hour"]).astype({name: args.dtype for name in phases})
    print(f"read {path} {month.shape}, {month.memory_usage().sum() / 1e6:.0f} MB", flush=True)
    months.append(month.groupby("hour")[phases].mean().reset_index() if args.by_month else month)
readings = pd.concat(months, ignore_index=True)
print(f"all readings: {readings.shape}", flush=True)
print(readings.groupby("hour")[phases].mean().iloc[:, :4], flush=True)
