"""Keeps the loss of every step for a plot at the end, with all that hangs on it."""

import argparse
import resource

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--batch-size", type=int, default=512)
parser.add_argument("--detach-losses", action="store_true")
parser.add_argument("--log-every", type=int, default=5)
args = parser.parse_args()

model = torch.nn.Sequential(
    torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1)
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
history = []
for step in range(args.steps):
    x = torch.randn(args.batch_size, 512)
    loss = model(x).pow(2).mean() + 0.01 * torch.log(model(x).abs() + 1).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    history.append(loss.detach() if args.detach_losses else loss)
    if step % args.log_every == 0:
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"step {step} loss {loss.item():.4f} host memory {rss:.0f} MB", flush=True)
print(f"mean loss {torch.stack(history).mean().item():.4f}", flush=True)
