"""Distances of all points from all others."""

import argparse

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--points", type=int, default=12000)
parser.add_argument("--block-size", type=int, default=0)
parser.add_argument("--dtype", default="float64", choices=["float64", "float32", "float16"])
args = parser.parse_args()

points = np.random.default_rng(0).random((args.points, 16)).astype(args.dtype)


def distances(block):
    squares = (block**2).sum(1)[:, None] + (points**2).sum(1)[None, :]
    return np.sqrt(np.maximum(squares - 2 * block @ points.T, 0))


size = args.block_size or args.points
nearest = []
for number, start in enumerate(range(0, args.points, size)):
    matrix = distances(points[start : start + size])
    nearest.append(np.partition(matrix, 1, axis=1)[:, 1])
    print(f"block {number}: {matrix.shape}", flush=True)
print(f"mean distance to the nearest: {np.concatenate(nearest).mean():.4f}", flush=True)
