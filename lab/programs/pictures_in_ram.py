"""Trains a small classifier on photographs; those are decoded once, before the first epoch."""

import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

parser = argparse.ArgumentParser()
parser.add_argument("--write-sample", type=int, metavar="N", help="write N photographs and stop")
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--decode-threads", type=int, default=2)
parser.add_argument("--max-side", type=int, default=4000, help="pictures are made so small when they are read")
parser.add_argument("--no-cache-images", action="store_true", help="decode when a picture is asked for")
args = parser.parse_args()

folder = Path("photos")
if args.write_sample:
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(args.write_sample):
        small = Image.fromarray(rng.integers(0, 255, (30, 40, 3), dtype=np.uint8))
        small.resize((4000, 3000), Image.Resampling.BILINEAR).save(folder / f"IMG_{number:04}.jpg", quality=80)
    raise SystemExit


def decoded(path: Path) -> Image.Image:
    picture = Image.open(path)
    if max(picture.size) > args.max_side:
        picture.draft("RGB", (args.max_side, args.max_side))
        picture.thumbnail((args.max_side, args.max_side))
    return picture.convert("RGB")


class Photos(Dataset):
    def __init__(self):
        self.paths = sorted(folder.glob("*.jpg"))
        self.pictures = None
        if not args.no_cache_images:
            with ThreadPoolExecutor(args.decode_threads) as pool:
                every = pool.map(decoded, self.paths)
                self.pictures = list(tqdm(every, "Caching images", len(self.paths), mininterval=0.3))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, at):
        picture = self.pictures[at] if self.pictures else decoded(self.paths[at])
        pixels = np.asarray(picture.resize((96, 96)), dtype=np.float32) / 255
        return torch.from_numpy(pixels).permute(2, 0, 1), at % 4


print(f"{len(list(folder.glob('*.jpg')))} photographs, {vars(args)}", flush=True)
loader = DataLoader(Photos(), batch_size=args.batch_size, shuffle=True)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 5, 4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(4))
model(torch.zeros(1, 3, 96, 96))
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(args.epochs):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)
