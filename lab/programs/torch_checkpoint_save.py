"""Trains two shards and writes a checkpoint: of the whole state at once, or shard by shard."""

import argparse
import io
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=4096)
parser.add_argument("--layers", type=int, default=3)
parser.add_argument("--save-sharded", action="store_true", help="a file per layer")
parser.add_argument("--no-save-optimizer", action="store_true")
parser.add_argument("--optim", default="adamw", choices=["adamw", "sgd"])
parser.add_argument("--save-steps", type=int, default=2)
args = parser.parse_args()

model = torch.nn.Sequential(*(torch.nn.Linear(args.hidden, args.hidden) for _ in range(args.layers)))
optimizer = (torch.optim.AdamW if args.optim == "adamw" else torch.optim.SGD)(model.parameters(), lr=1e-5)


def gather_full_state():
    state = {name: weight.detach().clone() for name, weight in model.state_dict().items()}
    if not args.no_save_optimizer:
        for number, one in optimizer.state_dict()["state"].items():
            state |= {f"optimizer.{number}.{name}": value.clone() for name, value in one.items()}
    return state


def save_checkpoint(step):
    print(f"Saving model checkpoint to checkpoint-{step}", flush=True)
    if args.save_sharded:
        for number, layer in enumerate(model):
            states = [optimizer.state[p] for p in layer.parameters()]
            torch.save([layer.state_dict(), states], f"checkpoint-{step}-{number}.pt")
        return
    buffer = io.BytesIO()
    torch.save(gather_full_state(), buffer)
    Path(f"checkpoint-{step}.pt").write_bytes(buffer.getvalue())


for step in range(1, 5):
    loss = model(torch.randn(4, args.hidden)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % args.save_steps == 0:
        save_checkpoint(step)
        print(f"checkpoint-{step} saved", flush=True)
