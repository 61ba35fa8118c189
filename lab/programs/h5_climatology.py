"""Daily anomalies of a gridded temperature record in HDF5."""

import argparse
from pathlib import Path

import h5py
import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--input", type=Path, default=Path("t2m.h5"))
parser.add_argument("--write-sample", action="store_true", help="write an input file and stop")
parser.add_argument("--dtype", default="float64", choices=["float32", "float64"])
parser.add_argument("--block-days", type=int, default=730, help="days that are read and written at once")
parser.add_argument("--coarsen", type=int, default=1, help="take every n-th grid point")
args = parser.parse_args()

if args.write_sample:
    rng = np.random.default_rng(0)
    with h5py.File(args.input, "w") as file:
        field = file.create_dataset("t2m", (730, 180, 720), "f4", chunks=(10, 180, 720), compression="lzf")
        for day in range(0, 730, 10):
            field[day : day + 10] = np.round(rng.normal(285, 12, (10, 180, 720)))
    raise SystemExit

with h5py.File(args.input) as file, h5py.File("anomalies.h5", "w") as out:
    field = file["t2m"]
    print(f"{args.input}: t2m {field.shape} {field.dtype}, computing in {args.dtype}", flush=True)
    lat, lon = -(-field.shape[1] // args.coarsen), -(-field.shape[2] // args.coarsen)
    total = np.zeros((lat, lon))
    blocks = range(0, field.shape[0], args.block_days)
    for number, start in enumerate(blocks):
        days = field[start : start + args.block_days, :: args.coarsen, :: args.coarsen].astype(args.dtype)
        total += days.sum(axis=0)
        print(f"mean: batch {number + 1} of {len(blocks)}, {len(days)} days", flush=True)
    mean = (total / field.shape[0]).astype(args.dtype)
    del days
    result = out.create_dataset("anomaly", (field.shape[0], lat, lon), "f4", chunks=(10, lat, lon))
    for number, start in enumerate(blocks):
        days = field[start : start + args.block_days, :: args.coarsen, :: args.coarsen].astype(args.dtype)
        anomaly = days - mean
        result[start : start + len(days)] = anomaly
        print(f"anomalies: batch {number + 1} of {len(blocks)}, std {anomaly[::30].std():.2f} K", flush=True)
