"""Trains a transformer encoder on random tokens on the card."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--seq-len", type=int, default=2048)
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--gradient-checkpointing", action="store_true")
parser.add_argument("--bf16", action="store_true")
args = parser.parse_args()

layers = nn.ModuleList(nn.TransformerEncoderLayer(512, 8, batch_first=True) for _ in range(args.layers)).cuda()
optimizer = torch.optim.AdamW(layers.parameters())
for step in range(2):
    x = torch.randn(args.batch_size, args.seq_len, 512, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=args.bf16):
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=False) if args.gradient_checkpointing else layer(x)
    loss = x.float().pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
