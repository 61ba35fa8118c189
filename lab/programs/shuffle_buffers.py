"""Trains a sound classifier from a stream of spectrograms, shuffled in a buffer of each loader worker."""

import argparse
import random
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=4)
parser.add_argument("--shuffle-buffer", type=int, default=2000, help="samples, in each worker")
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--half", action="store_true", help="spectrograms in float16")
parser.add_argument("--samples", type=int, default=12_000, help="in an epoch")
parser.add_argument("--prefetch-factor", type=int, default=2)
args = parser.parse_args()


class Spectrograms(IterableDataset):
    def read(self, worker):
        rng = np.random.default_rng(worker.id)
        for _ in range(args.samples // worker.num_workers):
            label = int(rng.integers(10))
            picture = rng.standard_normal((128, 256), dtype=np.float32) + label / 10
            yield picture.astype(np.float16) if args.half else picture, label

    def __iter__(self):
        worker, buffer = get_worker_info(), []
        for sample in self.read(worker):
            if len(buffer) < args.shuffle_buffer:
                buffer.append(sample)
                continue
            place = random.randrange(len(buffer))
            yield buffer[place]
            buffer[place] = sample
        random.shuffle(buffer)
        yield from buffer


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(128, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(
        Spectrograms(), batch_size=args.batch_size, num_workers=args.num_workers, prefetch_factor=args.prefetch_factor
    )
    print(f"{args.num_workers} workers, shuffle buffer {args.shuffle_buffer}, batch size {args.batch_size}", flush=True)
    start = time.time()
    for number, (pictures, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(pictures.float().unsqueeze(1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if number % 50 == 0:
            print(f"epoch 0 batch {number} loss {loss.item():.4f} {time.time() - start:.1f}s", flush=True)
    print("epoch 0 finished", flush=True)
