"""Infers within a share of the card that was set for it."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--memory-fraction", type=float, default=0.2)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--image-size", type=int, default=2048)
args = parser.parse_args()

torch.cuda.set_per_process_memory_fraction(args.memory_fraction)
print(f"memory fraction {args.memory_fraction}", flush=True)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(16, 16, 3)).cuda()
with torch.inference_mode():
    for step in range(4):
        pictures = torch.rand(args.batch_size, 3, args.image_size, args.image_size, device="cuda")
        print(f"step {step} mean {model(pictures).mean().item():.4f}", flush=True)
