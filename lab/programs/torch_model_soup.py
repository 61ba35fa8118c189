"""Averages the weights of fine-tuned checkpoints."""

import argparse
from pathlib import Path

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--write-sample", type=int, metavar="N", help="write N checkpoints and stop")
parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="of the average")
parser.add_argument("--mmap", action="store_true", help="map the files instead of reading them")
parser.add_argument("--sequential", action="store_true", help="add one checkpoint after the other")
args = parser.parse_args()

folder = Path("checkpoints")
if args.write_sample:
    folder.mkdir(exist_ok=True)
    for number in range(args.write_sample):
        state = {f"layers.{layer}.weight": torch.randn(1024, 2560) for layer in range(12)}
        torch.save(state, folder / f"run-{number}.pt")
    raise SystemExit


def load(path: Path) -> dict[str, torch.Tensor]:
    print(f"Loading checkpoint {path} ({path.stat().st_size / 2**20:.0f} MiB)", flush=True)
    state = torch.load(path, map_location="cpu", weights_only=True, mmap=args.mmap)
    dtype = getattr(torch, args.dtype)
    return {name: value.to(dtype) for name, value in state.items()}


paths = sorted(folder.glob("*.pt"))
print(f"averaging {len(paths)} checkpoints", flush=True)
if args.sequential:
    soup = load(paths[0])
    for path in paths[1:]:
        for name, value in load(path).items():
            soup[name] += value
    soup = {name: value / len(paths) for name, value in soup.items()}
else:
    states = [load(path) for path in paths]
    soup = {name: sum(state[name] for state in states) / len(states) for name in states[0]}
torch.save(soup, "soup.pt")
print(f"saved soup.pt, {sum(it.numel() for it in soup.values()) / 1e6:.0f}M parameters", flush=True)
