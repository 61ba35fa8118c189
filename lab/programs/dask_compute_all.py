"""Reports the hourly means of a year of sensor readings with Dask."""

import argparse

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask import delayed
from dask.diagnostics import ProgressBar

parser = argparse.ArgumentParser()
parser.add_argument("--days", type=int, default=120)
parser.add_argument("--num-workers", type=int, default=2)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
parser.add_argument("--aggregate-in-dask", action="store_true")
args = parser.parse_args()


def readings(day):
    index = pd.date_range(pd.Timestamp("2025-01-01") + pd.Timedelta(days=day), periods=86400 // 2, freq="2s")
    generator = np.random.default_rng(day)
    values = {f"sensor_{n}": generator.standard_normal(len(index)).astype(args.dtype) for n in range(40)}
    return pd.DataFrame(values, index=index)


def main():
    frame = dd.from_delayed([delayed(readings)(day) for day in range(args.days)], meta=readings(0).iloc[:0])
    print(f"{frame.npartitions} partitions, {len(frame.columns)} columns", flush=True)
    with ProgressBar(), dask.config.set(scheduler="threads", num_workers=args.num_workers):
        if args.aggregate_in_dask:
            hourly = frame.map_partitions(lambda part: part.resample("1h").mean()).compute()
        else:
            everything = frame.compute()
            print(f"computed {len(everything)} rows", flush=True)
            hourly = everything.resample("1h").mean()
    print(hourly.describe().T.head(), flush=True)


if __name__ == "__main__":
    main()
