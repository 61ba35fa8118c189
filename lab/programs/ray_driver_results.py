"""Embeds shards in Ray tasks and collects what they return."""

import argparse

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--shards", type=int, default=60)
parser.add_argument("--rows-per-shard", type=int, default=8000)
parser.add_argument("--num-cpus", type=int, default=2)
parser.add_argument("--object-store-mb", type=int, default=200)
parser.add_argument("--in-flight", type=int, default=4)
parser.add_argument("--dtype", default="float64")
parser.add_argument("--append-to-file", action="store_true", help="write each result out instead of keeping it")
args = parser.parse_args()


@ray.remote(num_cpus=1)
def embed(shard: int, rows: int, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(shard)
    return rng.standard_normal((rows, 512), dtype="float32").astype(dtype)


ray.init(num_cpus=args.num_cpus, object_store_memory=args.object_store_mb * 10**6, include_dashboard=False)
print(f"embedding {args.shards} shards of {args.rows_per_shard} rows ({args.dtype})", flush=True)
results = []
waiting = []
done = 0
with open("embeddings.bin", "wb") as file:
    for shard in range(args.shards + args.in_flight):
        if shard < args.shards:
            waiting.append(embed.remote(shard, args.rows_per_shard, args.dtype))
        if waiting and (len(waiting) >= args.in_flight or shard >= args.shards):
            block = ray.get(waiting.pop(0))
            if args.append_to_file:
                block.tofile(file)
            else:
                results.append(block.copy())
            del block
            done += 1
            if done % 4 == 0:
                print(f"batch {done} of {args.shards} collected", flush=True)
if results:
    norms = [np.linalg.norm(it[:100], axis=1).mean() for it in results]
    print(f"{sum(len(it) for it in results)} rows, mean norm {np.mean(norms):.3f}", flush=True)
print("all shards embedded", flush=True)
