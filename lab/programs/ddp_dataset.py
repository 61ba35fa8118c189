"""Trains a classifier of spectrograms data-parallel; each rank reads the features first."""

import argparse
import os
import sys

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

FEATURES, ROWS, COLUMNS = "features.npy", 40_000, 4096
if "--prepare" in sys.argv:
    file = np.lib.format.open_memmap(FEATURES, "w+", np.float32, (ROWS, COLUMNS))
    for start in range(0, ROWS, 4000):
        file[start : start + 4000] = np.random.default_rng(start).random((4000, COLUMNS), dtype=np.float32)
    sys.exit()
parser = argparse.ArgumentParser()
parser.add_argument("--features", default=FEATURES)
parser.add_argument("--mmap-mode", default="", choices=["", "r"], help="r leaves the features on disk")
parser.add_argument("--dtype", default="float32", choices=["float32", "float16"])
parser.add_argument("--batch-size", type=int, default=256)
args = parser.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
print(f"[rank{rank}] pid {os.getpid()} of {world}: loading dataset {args.features}", flush=True)
features = np.load(args.features, mmap_mode="r" if args.mmap_mode or args.dtype != "float32" else None)
if not args.mmap_mode and args.dtype != "float32":
    features = features.astype(args.dtype)
print(f"[rank{rank}] dataset: {features.shape} {features.dtype}, {features.nbytes / 1e9:.2f} GB", flush=True)
if not args.mmap_mode:
    data = TensorDataset(torch.from_numpy(features), torch.arange(len(features)) % 10)
else:

    class OnDisk(torch.utils.data.Dataset):
        def __len__(self):
            return len(features)

        def __getitem__(self, index):
            return torch.from_numpy(features[index].copy()), index % 10

    data = OnDisk()
dist.barrier()
loader = DataLoader(data, batch_size=args.batch_size, sampler=DistributedSampler(data))
model = DistributedDataParallel(torch.nn.Linear(COLUMNS, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step, (x, y) in enumerate(loader):
    loss = torch.nn.functional.cross_entropy(model(x.float()), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step == 10:
        break
dist.destroy_process_group()
