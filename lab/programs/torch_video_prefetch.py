"""Trains a small 3D network on clips of videos that DataLoader workers cut."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--num-workers", type=int, default=4)
parser.add_argument("--prefetch-factor", type=int, default=8)
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--num-frames", type=int, default=32)
parser.add_argument("--crop-size", type=int, default=128)
parser.add_argument("--uint8", action="store_true", help="normalise in the main process")
parser.add_argument("--clips", type=int, default=320)
args = parser.parse_args()


class Clips(Dataset):
    def __len__(self):
        return args.clips

    def __getitem__(self, index):
        frames = torch.randint(0, 256, (3, args.num_frames, args.crop_size, args.crop_size), dtype=torch.uint8)
        return (frames if args.uint8 else frames.float().div_(255)), index % 10


if __name__ == "__main__":
    torch.set_num_threads(1)
    loader = DataLoader(
        Clips(),
        batch_size=args.batch_size,
        num_workers=args.num_workers,
        prefetch_factor=args.prefetch_factor if args.num_workers else None,
        shuffle=True,
    )
    model = nn.Sequential(
        nn.Conv3d(3, 4, 7, stride=8), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    print(f"{len(loader.dataset)} clips, {len(loader)} batches per epoch, config {vars(args)}", flush=True)
    began = time.perf_counter()
    for step, (loaded, labels) in enumerate(loader):
        clips = loaded.float() / 255 if args.uint8 else loaded
        loss = nn.functional.cross_entropy(model(clips), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(0.6)  # what a larger network takes
        speed = (step + 1) * args.batch_size / (time.perf_counter() - began)
        print(f"Epoch: [0] step {step}/{len(loader)} loss {loss.item():.4f} clips/s {speed:.1f}", flush=True)
    print("Epoch: [0] finished", flush=True)
