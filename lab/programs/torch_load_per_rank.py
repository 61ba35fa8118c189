"""Every rank of a launch loads the whole checkpoint before it trains."""

import argparse
import os
import sys

import torch
import torch.distributed as dist

CHECKPOINT = "model.pt"
if "--prepare" in sys.argv:
    torch.save({f"layers.{n}.weight": torch.randn(2048, 4096) for n in range(12)}, CHECKPOINT)
    sys.exit()
parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint", default=CHECKPOINT)
parser.add_argument("--mmap", action="store_true", help="map the checkpoint instead of reading it")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
args = parser.parse_args()

dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
print(f"[rank {rank}] Loading checkpoint from {args.checkpoint}", flush=True)
state = torch.load(args.checkpoint, mmap=args.mmap, map_location="cpu", weights_only=True)
state = {name: weight.to(getattr(torch, args.dtype)) for name, weight in state.items()}
print(f"[rank {rank}] checkpoint loaded", flush=True)
dist.barrier()
print(f"step 0 on rank {rank}: norm {sum(float(it.flatten()[:1000].norm()) for it in state.values()):.1f}", flush=True)
dist.destroy_process_group()
