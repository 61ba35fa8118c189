"""Trains a recommender of DLRM's shape on clicks."""

import argparse
import math
import time
from pathlib import Path

import torch
from torch import nn

CRITEO = (
    "1460-583-10131227-2202608-305-24-12517-633-3-93145-5683-8351593-3194-27-14992-5461306-10-5652-2173-4-7046547"
    "-18-15-286181-105-142572"
)
parser = argparse.ArgumentParser()
parser.add_argument("--arch-sparse-feature-size", type=int, default=16)
parser.add_argument("--arch-embedding-size", default=CRITEO)
parser.add_argument("--max-ind-range", type=int, default=-1, help="rows of a table at most; indices are hashed")
parser.add_argument("--table-dtype", default="float32", choices=["float32", "float16", "bfloat16"])
parser.add_argument("--tables-on-disk", default="", help="a folder to map the tables from")
parser.add_argument("--mini-batch-size", type=int, default=512)
parser.add_argument("--num-batches", type=int, default=30)
parser.add_argument("--learning-rate", type=float, default=0.1)
parser.add_argument("--print-freq", type=int, default=10)
args = parser.parse_args()

dtype = getattr(torch, args.table_dtype)
wide = args.arch_sparse_feature_size
rows = [int(it) for it in args.arch_embedding_size.split("-")]
if args.max_ind_range > 0:
    rows = [min(it, args.max_ind_range) for it in rows]


def table(number, count):
    scale = math.sqrt(1 / count)
    if args.tables_on_disk:
        path = Path(args.tables_on_disk) / f"table-{number}.bin"
        weight = torch.from_file(str(path), shared=True, size=count * wide, dtype=dtype).view(count, wide)
    else:
        weight = torch.empty(count, wide, dtype=dtype)
    weight.uniform_(-scale, scale)
    return nn.EmbeddingBag(count, wide, mode="sum", sparse=True, _weight=weight)


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList()
        for number, count in enumerate(rows):
            print(f"create emb_l.{number}: {count} x {wide}", flush=True)
            self.tables.append(table(number, count))
        self.bottom = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, wide), nn.ReLU())
        self.top = nn.Sequential(nn.Linear(wide * (len(rows) + 1), 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, dense, indices):
        looked = [it(index.unsqueeze(1)).float() for it, index in zip(self.tables, indices, strict=True)]
        return self.top(torch.cat([self.bottom(dense), *looked], 1)).squeeze(1)


print(f"model arch: mlp 13-64-{wide} interacts {len(rows)} sparse features, dtype {args.table_dtype}", flush=True)
model = Recommender()
optimizer = torch.optim.SGD(model.parameters(), lr=args.learning_rate)
print("time/loss/accuracy (if enabled):", flush=True)
began = time.perf_counter()
for step in range(args.num_batches):
    dense = torch.rand(args.mini_batch_size, 13)
    indices = [torch.randint(count, (args.mini_batch_size,)) for count in rows]
    clicks = (torch.rand(args.mini_batch_size) < 0.25).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(dense, indices), clicks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if (step + 1) % args.print_freq == 0:
        ms = (time.perf_counter() - began) / (step + 1) * 1000
        print(f"Finished training it {step + 1}/{args.num_batches} of epoch 0, {ms:.2f} ms/it, loss {loss.item():.6f}")
