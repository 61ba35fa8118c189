"""Trains on several CPU ranks with the optimizer's states sharded by ZeRO, and writes checkpoints."""

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--hidden", type=int, default=512)
parser.add_argument("--optimizer", default="adamw", choices=["adamw", "sgd"])
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--save-steps", type=int, default=3)
parser.add_argument("--output-dir", type=Path, default=Path("checkpoints"))
parser.add_argument("--save-on-each-rank", action="store_true", help="each rank writes its shard")
parser.add_argument("--save-only-model", action="store_true")
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)


def say(text):
    if rank == 0:
        print(f"[{time.strftime('%Y-%m-%d %H:%M:%S')}] {text}", flush=True)


layers = [nn.TransformerEncoderLayer(args.hidden, 8, 4 * args.hidden, batch_first=True) for _ in range(args.layers)]
model = nn.Sequential(nn.Embedding(4000, args.hidden), *layers, nn.Linear(args.hidden, 4000))
ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[args.optimizer]
optimizer = ZeroRedundancyOptimizer(ddp.parameters(), kind, lr=1e-4)
say(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters on {world} ranks, backend gloo, {vars(args)}")


def save(step):
    folder = args.output_dir / f"checkpoint-{step}"
    folder.mkdir(parents=True, exist_ok=True)
    say(f"Saving checkpoint to {folder}")
    if args.save_on_each_rank:
        torch.save(optimizer.optim.state_dict(), folder / f"optimizer-{rank}-of-{world}.pt")
    elif not args.save_only_model:
        say("consolidating the optimizer's states on rank 0")
        optimizer.consolidate_state_dict(to=0)
        if rank == 0:
            torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    if rank == 0:
        torch.save(model.state_dict(), folder / "model.pt")
    dist.barrier()
    say(f"Saved checkpoint-{step}")


for step in range(1, args.steps + 1):
    tokens = torch.randint(0, 4000, (args.batch_size, 33))
    logits = ddp(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    say(f"step {step} loss {loss.item():.4f} lr 1.0e-04")
    if step % args.save_steps == 0:
        save(step)
dist.destroy_process_group()
