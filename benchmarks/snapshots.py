"""How long a memory snapshot of PyTorch takes, beside the standard library, which also runs what a pickle names.

    python -m benchmarks.snapshots [MEGABYTES] [--frames 30] [--rounds 3]

The snapshot is made here, of steps that take memory and give it back: few stacks, many lists of them, each frame once.
"""

from __future__ import annotations

import argparse
import pickle
import random
import sys
import tempfile
from collections.abc import Iterator
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.measure import Command, in_turns, typical
from oomdoctor.units import GIB, MIB

STACKS, FRAMES, SIZES = 4000, 3000, 1500  # different ones in a program
STEP = 3000  # allocations
OURS, THEIRS = "oomdoctor", "pickle.load"

Frames = list[dict[str, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.snapshots")
    parser.add_argument("megabytes", type=int, nargs="?", default=200)
    parser.add_argument("--frames", type=int, default=30, help="of a stack; with those of C++ about 90")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oomdoctor-benchmark-") as folder:
        path = Path(folder) / "snapshot.pickle"
        # In a process of its own: children start with the highest resident mark of the one that forks them.
        maker = get_context("spawn").Process(target=write, args=(path, options.megabytes * 10**6, options.frames))
        maker.start()
        maker.join()
        commands = {
            OURS: Command([sys.executable, "-m", "oomdoctor", "diagnose", str(path)], ends=(1,)),
            THEIRS: Command([sys.executable, "-c", f"import pickle; pickle.load(open({str(path)!r}, 'rb'))"]),
        }
        size = path.stat().st_size / 10**6
        for what, runs in in_turns(commands, options.rounds).items():
            processor, most = typical(runs, lambda it: it.processor), max(it.megabytes for it in runs)
            print(f"{size:.0f} MB, {what}: {processor:.2f} s of processor time, {most:.0f} MB resident")


def write(path: Path, size: int, depth: int) -> None:
    """A snapshot of about so many bytes."""
    r = random.Random(1)
    each = 75 + 2 / 3 * 5 * depth  # bytes of an entry; two of three have a list of their own
    frames = [{"name": f"forward_{n % 97}", "filename": f"/job/model_{n % 200}.py", "line": n} for n in range(FRAMES)]
    stacks = [[*r.choices(frames, k=depth - 4), *frames[:4]] for _ in range(STACKS)]
    trace = list(islice(_steps(r, stacks), int(size / each)))
    trace.append({"action": "oom", "device_free": MIB, "size": GIB, "stream": 0, "time_us": 0, "frames": stacks[0]})
    block = {"address": 1, "size": GIB, "requested_size": GIB, "state": "active_allocated", "frames": stacks[1]}
    segment = {
        "device": 0, "address": 1, "total_size": GIB, "stream": 0, "segment_type": "large",
        "segment_pool_id": (0, 0), "is_expandable": False, "frames": [], "blocks": [block],
    }  # fmt: skip
    with path.open("wb") as file:
        pickle.dump({"segments": [segment], "device_traces": [trace]}, file, protocol=4)


def _steps(r: random.Random, stacks: list[Frames]) -> Iterator[dict[str, Any]]:
    """What a job does again and again."""
    sizes = [512 * int(2 ** r.uniform(0, 18)) for _ in range(SIZES)]
    times = iter(range(1_763_000_000_000_000, 2**62, 17))

    def entry(action: str, address: int, size: int, stack: Frames) -> dict[str, Any]:
        # A text and a pair of its own: of a constant pickle writes a reference, and PyTorch does not
        return {
            "action": action, "addr": address, "size": size, "stream": 0, "time_us": next(times), "frames": stack,
            "compile_context": "".join(("N", "/A")), "user_metadata": "", "pool_id": (0, len(action) * 0),
        }  # fmt: skip

    while True:
        taken = [(0x7F0000000000 + n * MIB, r.choice(sizes)) for n in range(STEP)]
        for address, size in taken:
            yield entry("alloc", address, size, [*r.choice(stacks)])
        for address, size in reversed(taken):
            freed = [*r.choice(stacks[:300])]
            yield entry("free_requested", address, size, freed)
            yield entry("free_completed", address, size, freed)


if __name__ == "__main__":
    main()
