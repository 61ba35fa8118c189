"""Trains a network and keeps its last checkpoints on the node's fast tier."""

import argparse
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--checkpoint-dir", type=Path, default=Path("/dev/shm/checkpoints"))
parser.add_argument("--keep-last", type=int, default=4)
parser.add_argument("--save-every", type=int, default=5)
parser.add_argument("--save-dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--weights-only", action="store_true")
parser.add_argument("--steps", type=int, default=40)
args = parser.parse_args()

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(2048, 4096), nn.GELU(), nn.Linear(4096, 2048), nn.GELU(), nn.Linear(2048, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
args.checkpoint_dir.mkdir(parents=True, exist_ok=True)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters", flush=True)


def narrowed(value):
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.to(getattr(torch, args.save_dtype))
    return {key: narrowed(it) for key, it in value.items()} if isinstance(value, dict) else value


saved = []
for step in range(1, args.steps + 1):
    x, y = torch.randn(32, 2048), torch.randint(0, 10, (32,))
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % args.save_every == 0:
        state = {"step": step, "model": model.state_dict()}
        if not args.weights_only:
            state["optimizer"] = optimizer.state_dict()
        path = args.checkpoint_dir / f"step-{step:04d}.pt"
        print(f"saving {path}", flush=True)
        torch.save(narrowed(state), path)
        saved.append(path)
        while len(saved) > args.keep_last:
            saved.pop(0).unlink()
