"""Stages the shards of a data set close to the processor and reads them for some epochs."""

import argparse
import logging
import shutil
import sys
import time
from pathlib import Path

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--prepare", type=int, metavar="N", help="write N shards and stop")
parser.add_argument("--data-dir", type=Path, default=Path("shards"))
parser.add_argument("--cache-dir", type=Path, default=Path("/dev/shm/cache"))
parser.add_argument("--cache-shards", type=int, default=12, help="how many shards are staged")
parser.add_argument("--compact", action="store_true", help="stage as float16")
parser.add_argument("--epochs", type=int, default=2)
args = parser.parse_args()
if args.prepare:
    args.data_dir.mkdir(exist_ok=True)
    for number in range(args.prepare):
        rows = np.random.default_rng(number).normal(size=(10_000, 2048)).astype(np.float32)
        np.save(args.data_dir / f"train-{number:05d}.npy", rows)
    raise SystemExit

logging.basicConfig(format="%(asctime)s | %(levelname)s | %(message)s", level=logging.INFO, stream=sys.stdout)
log = logging.getLogger()
shards = sorted(args.data_dir.glob("*.npy"))
args.cache_dir.mkdir(parents=True, exist_ok=True)
disk = shutil.disk_usage(args.cache_dir)
log.info("%d shards in %s, cache %s: %.1f GB free", len(shards), args.data_dir, args.cache_dir, disk.free / 1e9)
paths = []
for number, shard in enumerate(shards):
    if number < args.cache_shards:
        target = args.cache_dir / shard.name
        if args.compact:
            np.save(target, np.load(shard, mmap_mode="r").astype(np.float16))
        else:
            shutil.copyfile(shard, target)
        size = target.stat().st_size / 1e6
        log.info("staged %s (%d/%d, %.0f MB)", target, number + 1, min(len(shards), args.cache_shards), size)
        paths.append(target)
    else:
        paths.append(shard)
for epoch in range(args.epochs):
    began, total = time.perf_counter(), 0.0
    for path in paths:
        rows = np.load(path, mmap_mode="r")
        for at in range(0, len(rows), 1000):
            total += float(rows[at : at + 1000].astype(np.float32).std())
    log.info("epoch %d done in %.1f s, mean std %.4f", epoch, time.perf_counter() - began, total / len(paths) / 10)
shutil.rmtree(args.cache_dir)
log.info("finished")
