"""Data-parallel training of a language model on CPUs with gloo."""

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=640)
parser.add_argument("--optimizer", default="adamw", choices=["adamw", "adafactor", "sgd"])
parser.add_argument("--zero", action="store_true", help="shard the optimizer's states over the ranks")
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--steps", type=int, default=3)
args = parser.parse_args()

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
embedding = nn.Embedding(8000, args.hidden)
layers = [nn.TransformerEncoderLayer(args.hidden, 10, 4 * args.hidden, batch_first=True) for _ in range(args.layers)]
model = nn.Sequential(embedding, *layers, nn.Linear(args.hidden, 8000))
ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
kinds = {"adamw": torch.optim.AdamW, "adafactor": torch.optim.Adafactor, "sgd": torch.optim.SGD}
kind = kinds[args.optimizer]
optimizer = ZeroRedundancyOptimizer(ddp.parameters(), kind, lr=1e-4) if args.zero else kind(ddp.parameters(), lr=1e-4)
if rank == 0:
    count = sum(p.numel() for p in model.parameters())
    print(f"world size {dist.get_world_size()}, {count / 1e6:.1f} M parameters, {args.optimizer}", flush=True)
for step in range(args.steps):
    tokens = torch.randint(0, 8000, (args.batch_size, 33))
    logits = ddp(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
