"""Shuffles blocks through Ray's object store, which spills to a scratch disk."""

import argparse
import json
from pathlib import Path

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--object-store-memory", type=int, default=150_000_000)
parser.add_argument("--object-spilling-directory", default="spill")
parser.add_argument("--blocks", type=int, default=20)
parser.add_argument("--block-mb", type=int, default=30)
parser.add_argument("--keep-blocks", type=int, default=0, help="0 keeps all until the end")
args = parser.parse_args()

directory = str(Path(args.object_spilling_directory).absolute())
spilling = json.dumps({"type": "filesystem", "params": {"directory_path": directory}})
ray.init(
    num_cpus=2,
    object_store_memory=args.object_store_memory,
    include_dashboard=False,
    _system_config={"object_spilling_config": spilling, "local_fs_capacity_threshold": 0.95},
)


@ray.remote
def block(number):
    return np.random.rand(args.block_mb * 125_000)


kept, total = [], 0.0
for number in range(args.blocks):
    kept.append(block.remote(number))
    total += float(ray.get(kept[-1])[0])
    print(f"step {number}: block made", flush=True)
    if args.keep_blocks:
        kept = kept[-args.keep_blocks :]
print(f"total {total + sum(float(ray.get(it)[-1]) for it in kept):.3f}", flush=True)
