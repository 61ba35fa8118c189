"""Trains a small transformer encoder on random tokens."""

import argparse
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--seq-len", type=int, default=512)
parser.add_argument("--hidden", type=int, default=128)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--bf16", action="store_true")
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(args.hidden)
        self.up = nn.Linear(args.hidden, 4 * args.hidden)
        self.down = nn.Linear(4 * args.hidden, args.hidden)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


embedding = nn.Embedding(8000, args.hidden)
blocks = nn.ModuleList(Block() for _ in range(args.layers))
head = nn.Linear(args.hidden, 2)
model = nn.ModuleList([embedding, blocks, head])
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.1f}M", flush=True)
for step in range(args.steps):
    start = time.time()
    tokens = torch.randint(0, 8000, (args.batch_size, args.seq_len))
    with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
        x = embedding(tokens)
        for block in blocks:
            x = checkpoint(block, x, use_reentrant=False) if args.gradient_checkpointing else block(x)
        loss = nn.functional.cross_entropy(head(x.mean(1)), torch.zeros(args.batch_size, dtype=torch.long))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f} ({time.time() - start:.1f} s)", flush=True)
