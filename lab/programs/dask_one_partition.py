"""Sessions of a web shop's events, with Dask."""

import argparse
import logging

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster, progress  # noqa: F401

parser = argparse.ArgumentParser()
parser.add_argument("--n-workers", type=int, default=2)
parser.add_argument("--memory-limit", default="600MiB")
parser.add_argument("--days", type=int, default=16)
parser.add_argument("--events-per-day", type=int, default=500_000)
parser.add_argument("--npartitions", type=int, default=1, help="of the events, before sessions are found")
parser.add_argument("--float32", action="store_true")
args = parser.parse_args()


def day(number):
    rng = np.random.default_rng(number)
    real = "float32" if args.float32 else "float64"
    return pd.DataFrame(
        {
            "user": rng.integers(0, 200_000, args.events_per_day).astype("int32" if args.float32 else "int64"),
            "at": (rng.uniform(0, 86_400, args.events_per_day) + number * 86_400).astype(real),
            "amount": rng.gamma(1.5, 20.0, args.events_per_day).astype(real),
        }
    )


def sessions(events):
    events = events.sort_values(["user", "at"])
    new = (events["user"].diff() != 0) | (events["at"].diff() > 1800)
    return events.assign(session=new.cumsum()).groupby("session", as_index=False)["amount"].sum()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    dask.config.set({"distributed.scheduler.allowed-failures": 2})
    cluster = LocalCluster(
        n_workers=args.n_workers, threads_per_worker=1, memory_limit=args.memory_limit, dashboard_address=None
    )
    with Client(cluster) as client:
        print(client, flush=True)
        events = dd.from_map(day, list(range(args.days)))
        print(f"{args.days} days, {args.days * args.events_per_day / 1e6:.1f} M events", flush=True)
        if args.npartitions:
            events = events.repartition(npartitions=args.npartitions)
        print(f"repartitioned to {events.npartitions}", flush=True)
        found = events.map_partitions(sessions, meta={"session": "i8", "amount": "f8"})
        print(found["amount"].describe().compute(), flush=True)
