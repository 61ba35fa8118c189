"""A data set that is a list of Python objects, read by the workers of a DataLoader."""

import argparse
import random

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=8)
parser.add_argument("--batch-size", type=int, default=256)
parser.add_argument("--samples", type=int, default=60_000)
parser.add_argument("--epochs", type=int, default=6)
parser.add_argument("--packed", action="store_true", help="one array instead of a list of lists")
args = parser.parse_args()


class Tokens(Dataset):
    def __init__(self):
        rows = [[random.randrange(1 << 20) for _ in range(64)] for _ in range(args.samples)]
        self.rows = np.array(rows, dtype=np.int32) if args.packed else rows

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return torch.tensor(self.rows[index])


dataset = Tokens()
print(f"{len(dataset)} samples in memory", flush=True)
loader = DataLoader(
    dataset,
    batch_size=args.batch_size,
    num_workers=args.num_workers,
    persistent_workers=args.num_workers > 0,
    shuffle=True,
)
for epoch in range(args.epochs):
    tokens = sum(batch.numel() for batch in loader)
    print(f"epoch {epoch} of {args.epochs}: {tokens} tokens", flush=True)
