"""Vessel enhancement of a CT scan: gradient, Hessian and a threshold; writes a mask."""

import argparse
import time

import numpy as np
import scipy
from scipy import ndimage

parser = argparse.ArgumentParser()
parser.add_argument("--scan", default="scan.npy")
parser.add_argument("--sigma", type=float, default=1.5)
parser.add_argument("--dtype", default="float64")
parser.add_argument("--downsample", type=int, default=1)
parser.add_argument("--slab", type=int, default=0, help="slices at a time; 0 is all")
parser.add_argument("--write-example", action="store_true")
args = parser.parse_args()


def enhance(volume):
    volume = volume.astype(args.dtype)
    volume -= volume.mean()
    print(f"  smoothing, sigma {args.sigma}", flush=True)
    edges = ndimage.gaussian_gradient_magnitude(volume, args.sigma)
    print("  hessian", flush=True)
    trace = np.zeros_like(volume)
    for axis in range(3):
        order = [0, 0, 0]
        order[axis] = 2
        trace += ndimage.gaussian_filter(volume, args.sigma, order=order)
    return (-trace > 0.2 * edges).astype(np.uint8)


if args.write_example:
    rng = np.random.default_rng(1)
    np.save(args.scan, rng.integers(-1000, 2000, (240, 400, 400), dtype=np.int16))
else:
    begin = time.time()
    scan = np.load(args.scan, mmap_mode="r")
    step = args.downsample
    scan = scan[::step, ::step, ::step]
    print(f"SciPy {scipy.__version__}; {args.scan}: {scan.shape} {scan.dtype}", flush=True)
    margin = int(4 * args.sigma) + 1
    slab = args.slab or scan.shape[0]
    mask = np.lib.format.open_memmap("mask.npy", mode="w+", dtype=np.uint8, shape=scan.shape)
    for low in range(0, scan.shape[0], slab):
        above = max(0, low - margin)
        print(f"slices {low} to {min(low + slab, scan.shape[0])}", flush=True)
        part = enhance(scan[above : low + slab + margin])
        mask[low : low + slab] = part[low - above :][:slab]
    print(f"mask of {int(mask.sum())} voxels written in {time.time() - begin:.1f} s")
