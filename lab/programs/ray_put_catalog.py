"""Puts the pages of a catalog into Ray's object store, then indexes them by tasks."""

import argparse
from pathlib import Path

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--pages", type=int, default=40)
parser.add_argument("--page-mb", type=int, default=25)
parser.add_argument("--object-store-memory", type=int, default=200_000_000)
parser.add_argument("--temp-dir", default="spill")
parser.add_argument("--window", type=int, default=0, help="index after so many pages; 0: when all are there")
args = parser.parse_args()

ray.init(
    num_cpus=2,
    object_store_memory=args.object_store_memory,
    include_dashboard=False,
    _temp_dir=str(Path(args.temp_dir).absolute()),
)


@ray.remote
def index(page):
    return int(np.count_nonzero(page > 0.5))


refs, found = [], 0
for number in range(args.pages):
    refs.append(ray.put(np.random.rand(args.page_mb * 125_000)))
    print(f"step {number} put {args.page_mb * (number + 1)} MB", flush=True)
    if args.window and len(refs) >= args.window:
        found += sum(ray.get([index.remote(ref) for ref in refs]))
        refs = []
found += sum(ray.get([index.remote(ref) for ref in refs]))
print(f"indexed {found} entries", flush=True)
