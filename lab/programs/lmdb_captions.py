"""Packs captions and their embeddings into an LMDB for training."""

import argparse
import time

import lmdb
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--output", default="captions.lmdb")
parser.add_argument("--map-size-gb", type=int, default=64, help="largest size that the database may grow to")
parser.add_argument("--captions", type=int, default=60_000)
parser.add_argument("--commit-every", type=int, default=5000)
args = parser.parse_args()

rng = np.random.default_rng(0)
words = [f"w{number}" for number in range(5000)]
print(f"lmdb {lmdb.version()}, opening {args.output}, map_size {args.map_size_gb} GiB", flush=True)
env = lmdb.open(args.output, map_size=args.map_size_gb * 2**30, subdir=False, sync=False, meminit=False)
begin, transaction = time.time(), env.begin(write=True)
for number in range(1, args.captions + 1):
    caption = " ".join(words[i] for i in rng.integers(0, 5000, 12))
    transaction.put(
        f"{number:09}".encode(), caption.encode() + b"\0" + rng.standard_normal(256, dtype=np.float32).tobytes()
    )
    if number % args.commit_every == 0:
        transaction.commit()
        print(
            f"batch {number // args.commit_every}: {number} captions, {number / (time.time() - begin):.0f}/s",
            flush=True,
        )
        transaction = env.begin(write=True)
transaction.commit()
print(f"{env.stat()['entries']} entries written", flush=True)
