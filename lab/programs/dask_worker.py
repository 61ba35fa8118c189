"""Normalizes an array of random numbers on a local Dask cluster."""

import argparse

import dask.array as da
from dask.distributed import Client, LocalCluster

parser = argparse.ArgumentParser()
parser.add_argument("--n-workers", type=int, default=2)
parser.add_argument("--memory-limit", default="500MB")
parser.add_argument("--chunk-rows", type=int, default=4000)
args = parser.parse_args()

if __name__ == "__main__":
    cluster = LocalCluster(
        n_workers=args.n_workers, threads_per_worker=1, memory_limit=args.memory_limit, dashboard_address=None
    )
    with Client(cluster) as client:
        print(client, flush=True)
        x = da.random.random((16_000, 8_000), chunks=(args.chunk_rows, 8_000))
        result = x.map_blocks(lambda block: (block**2 + block).cumsum(axis=0)).mean(axis=0).sum()
        print(f"sum {result.compute():.2f}", flush=True)
