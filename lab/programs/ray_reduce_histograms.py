"""Counts pixels over many slides with Ray: map tasks make histograms, a reduce task adds them up."""

import argparse
import time

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--slides", type=int, default=24)
parser.add_argument("--bins", type=int, default=160, help="of each of three channels")
parser.add_argument("--fan-in", type=int, default=0, help="histograms that one reduce task adds up, 0 for all")
parser.add_argument("--counts-uint32", action="store_true")
parser.add_argument("--num-cpus", type=int, default=2)
parser.add_argument("--object-store-memory", type=int, default=1_000_000_000)
args = parser.parse_args()
ray.init(num_cpus=args.num_cpus, object_store_memory=args.object_store_memory, include_dashboard=False)


@ray.remote
def histogram(number):
    rng = np.random.default_rng(number)
    pixels = rng.integers(0, args.bins, (200_000, 3))
    counts = np.zeros((args.bins,) * 3, dtype=np.uint32 if args.counts_uint32 else np.float64)
    np.add.at(counts, tuple(pixels.T), 1)
    return counts


@ray.remote(max_retries=1)
def add_up(refs):
    parts = [counts / counts.sum() for counts in ray.get(refs)]
    return np.mean(parts, axis=0, dtype=np.float32)


begin, refs = time.time(), [histogram.remote(number) for number in range(args.slides)]
waiting = refs
while waiting:
    done, waiting = ray.wait(waiting, num_returns=min(4, len(waiting)))
    print(f"slides {args.slides - len(waiting)}/{args.slides} counted, {time.time() - begin:.1f} s", flush=True)
number = 0
while len(refs) > 1:
    size, number = args.fan_in or len(refs), number + 1
    print(f"round {number}: {len(refs)} histograms, reduce tasks of {size}", flush=True)
    groups, refs, sums = [refs[i : i + size] for i in range(0, len(refs), size)], [], []
    for group in groups:
        sums.append(add_up.remote(group))
        ray.wait(sums[-1:])
    refs = sums
total = ray.get(refs[0])
print(f"darkest bin {total[0, 0, 0]:.3e}, sum {total.sum():.4f}, {time.time() - begin:.1f} s", flush=True)
