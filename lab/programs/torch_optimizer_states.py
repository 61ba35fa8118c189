"""Fine-tunes a wide network: few activations, many parameters."""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--optim", default="adamw", choices=["adamw", "adafactor", "sgd"])
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--lora-rank", type=int, default=0)
parser.add_argument("--hidden", type=int, default=4096)
parser.add_argument("--layers", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--max-steps", type=int, default=3)
args = parser.parse_args()


class LoraLinear(nn.Module):
    def __init__(self, base, rank):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Linear(base.in_features, rank, bias=False)
        self.b = nn.Linear(rank, base.out_features, bias=False)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


torch.set_default_dtype(getattr(torch, args.dtype))
layers = [nn.Linear(args.hidden, args.hidden) for _ in range(args.layers)]
if args.lora_rank:
    layers = [LoraLinear(layer, args.lora_rank) for layer in layers]
model = nn.Sequential(*layers)
trained = [p for p in model.parameters() if p.requires_grad]
print(f"trainable params: {sum(p.numel() for p in trained):,}", flush=True)
optimizers = {"adamw": torch.optim.AdamW, "adafactor": torch.optim.Adafactor, "sgd": torch.optim.SGD}
optimizer = optimizers[args.optim](trained, lr=1e-5)
for step in range(args.max_steps):
    loss = model(torch.randn(args.batch_size, args.hidden)).pow(2).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    optimizer.step()
    optimizer.zero_grad()
print("done", flush=True)
