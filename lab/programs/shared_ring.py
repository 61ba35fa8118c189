"""A ring of frames in shared memory between a camera and a detector."""

import argparse
from multiprocessing import shared_memory

import numpy as np

parser = argparse.ArgumentParser()
parser.add_argument("--slots", type=int, default=32)
parser.add_argument("--height", type=int, default=1080)
parser.add_argument("--width", type=int, default=1920)
args = parser.parse_args()

shape = (args.slots, args.height, args.width, 3)
block = shared_memory.SharedMemory(create=True, size=int(np.prod(shape)))
print(f"ring of {args.slots} frames in /dev/shm/{block.name}: {block.size / 1e6:.0f} MB", flush=True)
ring = np.ndarray(shape, dtype=np.uint8, buffer=block.buf)
for frame in range(2 * args.slots):
    ring[frame % args.slots] = frame % 256
    if frame % 8 == 0:
        print(f"step {frame}", flush=True)
del ring
block.close()
block.unlink()
