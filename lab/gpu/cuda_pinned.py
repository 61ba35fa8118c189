"""Keeps batches in page-locked memory, to copy them to the card without waiting."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batches", type=int, default=64)
parser.add_argument("--batch-mb", type=int, default=64)
parser.add_argument("--no-pin-memory", action="store_true")
parser.add_argument("--prefetch", type=int, default=0, help="batches kept; 0 keeps all")
args = parser.parse_args()

kept = []
for step in range(args.batches):
    kept.append(torch.empty(args.batch_mb << 20, dtype=torch.uint8, pin_memory=not args.no_pin_memory))
    if args.prefetch:
        kept = kept[-args.prefetch :]
    total = kept[-1].to("cuda", non_blocking=True).float().sum().item()
    if step % 8 == 0:
        print(f"step {step} sum {total:.0f}", flush=True)
