"""Trains a small ResNet on pictures of flowers."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--resolution", type=int, default=224)
parser.add_argument("--width", type=int, default=32)
parser.add_argument("--grad-checkpointing", action="store_true")
parser.add_argument("--amp", action="store_true")
parser.add_argument("--steps", type=int, default=2)
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride) if stride > 1 or inside != outside else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, 2, 1)
        widths = [width, width, width, 2 * width, 2 * width, 4 * width, 4 * width]
        strides = [1, 1, 2, 1, 2, 1]
        self.blocks = nn.ModuleList(Block(a, b, s) for a, b, s in zip(widths, widths[1:], strides, strict=False))
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if args.grad_checkpointing else block(x)
        return self.head(x.mean((2, 3)))


torch.manual_seed(0)
model = ResNet(args.width, 102)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
print(f"parameters: {sum(p.numel() for p in model.parameters()) / 1e6:.2f} M, args: {vars(args)}", flush=True)
for step in range(args.steps):
    images = torch.rand(args.batch_size, 3, args.resolution, args.resolution)
    labels = torch.randint(0, 102, (args.batch_size,))
    with torch.autocast("cpu", torch.bfloat16, enabled=args.amp):
        loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item():.4f}", flush=True)
