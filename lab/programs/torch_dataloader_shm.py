"""Workers hand batches of pictures to the trainer through /dev/shm."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--workers", type=int, default=4)
parser.add_argument("--batch-size", type=int, default=32)
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--prefetch-factor", type=int, default=2)
args = parser.parse_args()


class Pictures(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        return torch.rand(3, args.image_size, args.image_size), index % 10


loader = DataLoader(
    Pictures(),
    batch_size=args.batch_size,
    num_workers=args.workers,
    prefetch_factor=args.prefetch_factor if args.workers else None,
)
model = torch.nn.Conv2d(3, 4, 3, stride=4)
for step, (images, labels) in enumerate(loader):
    print(f"step {step} mean {model(images).mean().item():.4f}", flush=True)
