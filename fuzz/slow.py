"""The inputs that take the most time per byte: what repeats, and what a search among its mutations finds beyond.

    python -m fuzz.slow [--size 40000] [--rounds 0] [--seed 8] [--top 30] [--of ray_kill]

Every fixture, and every line of the fixtures that differs by more than its figures, is repeated until it fills the
size. Each round then changes one of the dearest and keeps the result where it costs more. The dearest are measured
again with a megabyte of each: what costs a little once is much in a small log.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import oomdoctor
from fuzz.mutations import FIXTURES, changed

KEPT = 30
MEGABYTE = 1_000_000


def repeated(piece: bytes, size: int) -> bytes:
    piece = piece if piece.endswith(b"\n") else piece + b"\n"
    return piece * (size // len(piece) + 1)


def pieces(of: str) -> Iterator[tuple[str, bytes]]:
    shapes: set[bytes] = set()
    for path in sorted(FIXTURES.glob(f"{of}/*.log")):
        whole = path.read_bytes()
        yield f"{path.parent.name}/{path.stem}", whole
        for number, line in enumerate(whole.split(b"\n"), 1):
            shape = re.sub(rb"\d+", b"0", line)
            if line.strip() and shape not in shapes:
                shapes.add(shape)
                yield f"{path.parent.name}/{path.stem}:{number}", line


def price(data: bytes, log: Path) -> float:
    """Seconds of the processor per megabyte."""
    log.write_bytes(data)
    started = time.process_time()
    oomdoctor.diagnose(log)
    return (time.process_time() - started) / len(data) * 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--size", type=int, default=40_000)
    arguments.add_argument("--rounds", type=int, default=0)
    arguments.add_argument("--seed", type=int, default=8)
    arguments.add_argument("--top", type=int, default=KEPT)
    arguments.add_argument("--of", default="*", help="only this folder of fixtures")
    arguments.add_argument("--keep", type=Path, help="a folder for the dearest")
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "job.log"
        price(b"CUDA out of memory\n", log)  # what is built once
        found = [(price(repeated(piece, given.size), log), name, piece) for name, piece in pieces(given.of)]
        found = sorted(found, reverse=True)[:KEPT]
        dice = Random(given.seed)
        for _ in range(given.rounds):
            _, name, piece = dice.choice(found)
            other = changed(dice, piece)[:2000] or piece
            found = sorted([*found, (price(repeated(other, given.size), log), name, other)], reverse=True)[:KEPT]
        dearest = [
            (price(repeated(piece, MEGABYTE), log), cost, name, piece) for cost, name, piece in found[: given.top]
        ]
    for number, (again, cost, name, piece) in enumerate(sorted(dearest, reverse=True)):
        print(f"{cost:8.2f} s/MB, {again:5.2f} of one MB  {name}: {piece[:150]!r}")
        if given.keep:
            given.keep.mkdir(parents=True, exist_ok=True)
            (given.keep / f"{number}.log").write_bytes(repeated(piece, given.size))


if __name__ == "__main__":
    main()
