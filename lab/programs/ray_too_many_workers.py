"""Scores shards of a data set by as many Ray tasks as there are shards."""

import argparse
import time

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--num-scorers", type=int, default=6)
parser.add_argument("--rows", type=int, default=30_000_000)
parser.add_argument("--object-store-memory", type=int, default=100_000_000)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
args = parser.parse_args()

ray.init(num_cpus=8, object_store_memory=args.object_store_memory, include_dashboard=False)


@ray.remote(num_cpus=1, max_retries=0)
def score(shard):
    parts = []
    for _ in range(10):
        parts.append(np.ones(args.rows // 10, dtype=args.dtype))
        time.sleep(0.3)
    time.sleep(3)
    return float(sum(part.sum() for part in parts)) + shard


shards = list(range(6))
done = []
for start in range(0, len(shards), args.num_scorers):
    part = shards[start : start + args.num_scorers]
    done += ray.get([score.remote(shard) for shard in part])
    print(f"step {len(done)} shards scored", flush=True)
print(f"total {sum(done):.0f}", flush=True)
