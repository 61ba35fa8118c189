"""Searches the shards of an index of embeddings, each mapped from its file."""

import argparse
import sys
import time
from collections import OrderedDict
from pathlib import Path

import numpy as np

ROWS, WIDTH = 180_000, 384
parser = argparse.ArgumentParser()
parser.add_argument("--index", type=Path, default=Path("index"))
parser.add_argument("--open-shards", type=int, default=0, help="how many stay mapped; 0: all")
parser.add_argument("--queries", type=int, default=3)
parser.add_argument("--probes", type=int, default=64, help="rows that are read of each shard")
parser.add_argument("--write", type=int, default=0, help="writes so many shards")
args = parser.parse_args()
if args.write:
    args.index.mkdir()
    for number in range(args.write):
        with (args.index / f"shard-{number:05}.f32").open("wb") as out:
            out.truncate(ROWS * WIDTH * 4)
    sys.exit()

paths = sorted(args.index.glob("*.f32"))
total = sum(path.stat().st_size for path in paths)
print(f"{len(paths)} shards, {total / 2**30:.1f} GiB, {len(paths) * ROWS:,} vectors of {WIDTH}", flush=True)
mapped = OrderedDict()


def shard(path):
    if path in mapped:
        mapped.move_to_end(path)
        return mapped[path]
    while args.open_shards and len(mapped) >= args.open_shards:
        mapped.popitem(last=False)
    mapped[path] = np.memmap(path, dtype=np.float32, mode="r", shape=(ROWS, WIDTH))
    print(f"mapped {path} ({len(mapped)} open)", flush=True)
    return mapped[path]


generator = np.random.default_rng(0)
for query in range(args.queries):
    start, best = time.perf_counter(), -np.inf
    vector = generator.random(WIDTH, dtype=np.float32)
    for path in paths:
        rows = np.sort(generator.integers(0, ROWS, args.probes))
        best = max(best, float((shard(path)[rows] @ vector).max()))
    print(f"query {query}: best {best:.3f} in {time.perf_counter() - start:.2f} s", flush=True)
