"""Converts a checkpoint of pytorch_model-0000x-of-0000y.bin files to safetensors."""

import argparse
import json
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

parser = argparse.ArgumentParser()
parser.add_argument("--source", default="checkpoint")
parser.add_argument("--output", default="converted")
parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
parser.add_argument("--shard-by-shard", action="store_true", help="one safetensors file for each .bin file")
parser.add_argument("--mmap", action="store_true", help="torch.load(mmap=True)")
parser.add_argument("--make", type=int, default=0, help="write a random checkpoint of so many files first")
args = parser.parse_args()
source, output = Path(args.source), Path(args.output)

if args.make:
    source.mkdir(exist_ok=True)
    for number in range(1, args.make + 1):
        part = {
            f"model.layers.{number}.mlp.{name}.weight": torch.randn(2048, 8192)
            for name in ("gate_proj", "up_proj", "down_proj")
        }
        torch.save(part, source / f"pytorch_model-{number:05}-of-{args.make:05}.bin")
    raise SystemExit

output.mkdir(exist_ok=True)
files = sorted(source.glob("pytorch_model-*.bin"))
print(f"found {len(files)} shards, {sum(f.stat().st_size for f in files) / 2**30:.2f} GiB in {source}", flush=True)
started, merged, index = time.time(), {}, {}


def write(tensors, name):
    print(f"saving {len(tensors)} tensors to {output / name}", flush=True)
    save_file({key: value.contiguous() for key, value in tensors.items()}, output / name, metadata={"format": "pt"})
    index.update(dict.fromkeys(tensors, name))


for number, file in enumerate(files, start=1):
    shard = torch.load(file, map_location="cpu", weights_only=True, mmap=args.mmap)
    shard = {key: value.to(getattr(torch, args.dtype)) for key, value in shard.items()}
    print(f"Loading checkpoint shards: {number}/{len(files)} [{time.time() - started:.1f}s]", flush=True)
    if args.shard_by_shard:
        write(shard, f"model-{number:05}-of-{len(files):05}.safetensors")
    else:
        merged.update(shard)
    del shard
if merged:
    write(merged, "model.safetensors")
(output / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}, indent=1))
print(f"converted {len(index)} tensors in {time.time() - started:.1f}s", flush=True)
