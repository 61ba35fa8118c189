"""Batches of many lengths leave holes in the allocator's segments that the longest batch does not fit into."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--pieces", type=int, default=1600, help="pairs of 20 MiB")
parser.add_argument("--long-batch-mb", type=int, default=36000)
parser.add_argument("--empty-cache", action="store_true", help="before each long batch")
args = parser.parse_args()

small = [torch.empty(20 << 20, dtype=torch.uint8, device="cuda") for _ in range(2 * args.pieces)]
print(f"step 0: {torch.cuda.memory_allocated() / 2**30:.1f} GiB allocated", flush=True)
small = small[::3]  # what is kept lies between what is freed
print(f"step 1: {torch.cuda.memory_allocated() / 2**30:.1f} GiB allocated", flush=True)
if args.empty_cache:
    torch.cuda.empty_cache()
batch = torch.empty(args.long_batch_mb << 20, dtype=torch.uint8, device="cuda")
print(f"step 2: {torch.cuda.memory_allocated() / 2**30:.1f} GiB allocated", flush=True)
