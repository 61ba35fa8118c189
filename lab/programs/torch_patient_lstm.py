"""Trains an LSTM on the records of intensive-care patients, which differ in length."""

import argparse
import resource

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--max_len", type=int, default=4000, help="minutes of a stay that are read")
parser.add_argument("--max_tokens", type=int, default=0, help="patients times minutes of a batch; 0: by batch_size")
parser.add_argument("--hidden_size", type=int, default=128)
parser.add_argument("--num_layers", type=int, default=1)
parser.add_argument("--grad_ckpt", type=int, default=0, help="minutes between checkpoints; 0: none")
parser.add_argument("--patients", type=int, default=128)
parser.add_argument("--lr", type=float, default=1e-3)
args = parser.parse_args()

torch.manual_seed(3)
FEATURES = 24


class Mortality(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(FEATURES, args.hidden_size, args.num_layers, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(args.hidden_size), nn.GELU(), nn.Linear(args.hidden_size, 1))

    def window(self, x, h, c):
        y, (h, c) = self.rnn(x, (h, c))
        return self.head(y).squeeze(-1), h, c

    def forward(self, x):
        h = c = x.new_zeros(args.num_layers, len(x), args.hidden_size)
        if not args.grad_ckpt:
            return self.window(x, h, c)[0]
        risks = []
        for part in x.split(args.grad_ckpt, 1):
            risk, h, c = checkpoint(self.window, part, h, c, use_reentrant=False)
            risks.append(risk)
        return torch.cat(risks, 1)


lengths = (torch.rand(args.patients).pow(2) * 3900 + 60).long().clamp(max=args.max_len)
lengths[-20:] = lengths[-20:].clamp(min=min(3300, args.max_len))
order = lengths.argsort()


def batches():
    batch = []
    for index in order.tolist():
        longest = int(lengths[index])
        full = (len(batch) + 1) * longest > args.max_tokens if args.max_tokens else len(batch) == args.batch_size
        if batch and full:
            yield batch
            batch = []
        batch.append(longest)
    yield batch


model = Mortality()
optimizer = torch.optim.Adam(model.parameters(), args.lr)
parameters = sum(it.numel() for it in model.parameters())
print(f"{args.patients} stays, longest {int(lengths.max())} min, model {parameters / 1e3:.1f}k parameters", flush=True)
for step, batch in enumerate(batches()):
    x = pad_sequence([torch.randn(it, FEATURES) for it in batch], batch_first=True)
    target = (torch.rand(len(batch), 1) < 0.2).float().expand(-1, x.shape[1])
    loss = nn.functional.binary_cross_entropy_with_logits(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shape = f"{x.shape[0]}x{x.shape[1]}x{x.shape[2]}"
    print(f"epoch 0 step {step} x {shape} loss {loss.item():.4f} max_rss {peak:.0f} MB", flush=True)
print("epoch 0 done", flush=True)
