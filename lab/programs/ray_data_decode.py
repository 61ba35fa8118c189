"""Decodes pictures with a Ray Data pipeline and counts the bright ones."""

import argparse

import numpy as np
import ray

parser = argparse.ArgumentParser()
parser.add_argument("--num-cpus", type=int, default=4)
parser.add_argument("--concurrency", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=96)
parser.add_argument("--cpus-per-task", type=float, default=1)
parser.add_argument("--image-size", type=int, default=512)
parser.add_argument("--pictures", type=int, default=768)
parser.add_argument("--dtype", default="float32", choices=["float32", "float16", "uint8"])
args = parser.parse_args()

ray.init(num_cpus=args.num_cpus, object_store_memory=200_000_000, include_dashboard=False)
ray.data.DataContext.get_current().enable_progress_bars = False


def decode(batch):
    size = args.image_size
    generator = np.random.default_rng(int(batch["id"][0]))
    raw = generator.integers(0, 255, (len(batch["id"]), size, size, 3), dtype=np.uint8)
    pictures = raw.astype(args.dtype)
    edges = np.diff(pictures, axis=1)
    strength = np.abs(edges)
    mean, top = (it(axis=(1, 2, 3)).astype(np.float32) for it in (strength.mean, strength.max))
    slope = edges.mean(axis=(1, 2, 3), dtype=np.float32)
    return {"id": batch["id"], "bright": (mean > 40) & (top > slope)}


pictures = ray.data.range(args.pictures, override_num_blocks=args.pictures // args.batch_size)
decoded = pictures.map_batches(
    decode,
    batch_size=args.batch_size,
    compute=ray.data.TaskPoolStrategy(size=args.concurrency),
    num_cpus=args.cpus_per_task,
    max_retries=0,
)
print(f"{args.pictures} pictures in batches of {args.batch_size}", flush=True)
bright = 0
for number, batch in enumerate(decoded.iter_batches(batch_size=args.batch_size)):
    bright += int(batch["bright"].sum())
    print(f"batch {number} bright {bright}", flush=True)
print(f"bright: {bright}", flush=True)
