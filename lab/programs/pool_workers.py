"""Computes features of pictures in a pool of processes."""

import argparse
from concurrent.futures import ProcessPoolExecutor

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--jobs", type=int, default=8)
parser.add_argument("--chunk-size", type=int, default=32, help="pictures per task")
parser.add_argument("--dtype", default="float64", choices=["float64", "float32"])
args = parser.parse_args()


def features(chunk):
    pictures = np.random.default_rng(chunk).random((args.chunk_size, 512, 512), dtype=args.dtype)
    spectra = np.stack([np.abs(np.fft.rfft2(picture)).astype(args.dtype) for picture in pictures])
    return float((pictures[:, :, :257] * spectra).mean())


if __name__ == "__main__":
    chunks = 512 // args.chunk_size
    with ProcessPoolExecutor(args.jobs) as pool:
        for number, mean in enumerate(pool.map(features, range(chunks))):
            print(f"batch {number} of {chunks}: {mean:.4f}", flush=True)
