"""Fine-tunes a network of many parameters with AdamW on the card."""

import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--layers", type=int, default=88)
parser.add_argument("--optim", default="adamw", choices=["adamw", "adafactor", "sgd"])
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
parser.add_argument("--train-last-only", action="store_true")
parser.add_argument("--batch-size", type=int, default=8)
args = parser.parse_args()

torch.set_default_dtype(getattr(torch, args.dtype))
model = torch.nn.Sequential(*(torch.nn.Linear(8192, 8192, bias=False, device="cuda") for _ in range(args.layers)))
if args.train_last_only:
    model[:-1].requires_grad_(False)
trained = [p for p in model.parameters() if p.requires_grad]
print(f"trainable params: {sum(p.numel() for p in trained):,}", flush=True)
kinds = {"adamw": torch.optim.AdamW, "adafactor": torch.optim.Adafactor, "sgd": torch.optim.SGD}
optimizer = kinds[args.optim](trained, lr=1e-5)
for step in range(2):
    loss = model(torch.randn(args.batch_size, 8192, device="cuda")).pow(2).mean()
    loss.backward()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
    optimizer.step()
    optimizer.zero_grad()
