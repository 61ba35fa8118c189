"""Follows vehicles through a traffic camera's video and keeps a picture of each for re-identification."""

import argparse
import itertools
import time
from collections import deque

import numpy as np
import psutil

parser = argparse.ArgumentParser()
parser.add_argument("--height", type=int, default=1080, help="lines of the decoded video")
parser.add_argument("--frames", type=int, default=480)
parser.add_argument("--gallery-size", type=int, default=30, help="pictures kept of a vehicle")
parser.add_argument("--copy-crops", action="store_true")
parser.add_argument("--log-every", type=int, default=16)
args = parser.parse_args()
width = args.height * 16 // 9
rng = np.random.default_rng(3)


class Track:
    ids = itertools.count(1)

    def __init__(self):
        self.id = next(self.ids)
        self.gallery = deque(maxlen=args.gallery_size)
        self.left = int(rng.integers(20, 90))  # frames until it leaves the picture

    def see(self, frame):
        y, x = rng.integers(0, args.height - 64), rng.integers(0, width - 64)
        crop = frame[y : y + 64, x : x + 64]
        self.gallery.append(crop.copy() if args.copy_crops else crop)
        self.left -= 1


def video():
    background = rng.integers(0, 255, (args.height, width, 3), dtype=np.uint8)
    for number in range(args.frames):
        frame = background.copy()
        frame[:: 1 + number % 7] //= 2
        yield number, frame


process = psutil.Process()
active, gone, begin = [], [], time.time()
print(f"camera-04.mp4: {width}x{args.height}, {args.frames} frames, 25 fps", flush=True)
for number, frame in video():
    if number % 6 == 0:
        active.append(Track())
    for track in active:
        track.see(frame)
    gone += [it for it in active if it.left <= 0]
    active = [it for it in active if it.left > 0]
    if (number + 1) % args.log_every == 0:
        rss = process.memory_info().rss / 2**20
        print(
            f"batch {(number + 1) // args.log_every}: frame {number + 1}/{args.frames}  active {len(active)}  "
            f"finished {len(gone)}  {(number + 1) / (time.time() - begin):.1f} fps  RSS {rss:.0f} MB",
            flush=True,
        )
vectors = np.stack([np.mean([c.mean(axis=(0, 1)) for c in it.gallery], axis=0) for it in gone])
print(f"{len(gone)} vehicles, gallery written: {vectors.shape}", flush=True)
