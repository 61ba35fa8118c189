"""Mutated fixtures by the hundred thousand, and what must hold of each.

    python -m fuzz.mutate --count 1000000 --seed 8 [--from 0] [--keep found/] [--all]

Each input follows from the seed and its number alone: a run that was stopped goes on with --from. Of every input
the diagnosis is made and every string of its report checked; of every eighth the JSON document, the text and the
Markdown are rendered; of every 64th the JSON is held against the schema and the log's numbers, the text drawn in colour
at two widths, and a second reading has to say the same. --all checks everything of each.
What fails is written to --keep, and the run goes on; it ends with 1 if anything failed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from fuzz.checks import ALL, HangsError, Rigour, check
from fuzz.mutations import input_of

TELL_EVERY = 10_000
SLOWEST = 5


def rigour_of(number: int) -> Rigour:
    often, seldom = number % 8 == 0, number % 64 == 0
    return Rigour(forms=often, wide=seldom, schema=seldom, figures=seldom, again=seldom)


def failure(log: Path, data: bytes, rigour: Rigour) -> tuple[str, float]:
    """What is wrong, by the place in the code; "" where all holds. And the seconds it took."""
    log.write_bytes(data)
    try:
        return "", check(log, len(data), rigour)
    except (Exception, HangsError) as error:  # noqa: BLE001  (whatever it is)
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__} at {Path(where.filename).name}:{where.lineno}: {str(error)[:300]}", 0.0


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--count", type=int, default=10_000)
    arguments.add_argument("--seed", type=int, default=8)
    arguments.add_argument("--from", type=int, default=0, dest="first", help="the number of the first input")
    arguments.add_argument("--keep", type=Path, default=Path("fuzz-found"))
    arguments.add_argument("--all", action="store_true", help="check everything of every input")
    given = arguments.parse_args()
    started, at_first = time.monotonic(), os.times()
    found: Counter[str] = Counter()
    slowest: list[tuple[float, int, int]] = []
    size = 0
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as folder:
        log = Path(folder) / "job.log"
        for number in range(given.first, given.first + given.count):
            data = input_of(given.seed, number)
            size += len(data)
            wrong, took = failure(log, data, ALL if given.all else rigour_of(number))
            slowest = sorted([*slowest, (took, len(data), number)], reverse=True)[:SLOWEST]
            if wrong:
                keep(given.keep, data, number, wrong, new=wrong not in found)
                found[wrong] += 1
            if (number + 1) % TELL_EVERY == 0:
                tell(number + 1 - given.first, size, started, at_first, found, slowest)
    tell(given.count, size, started, at_first, found, slowest)
    return 1 if found else 0


def keep(folder: Path, data: bytes, number: int, wrong: str, *, new: bool) -> None:
    if not new:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{hashlib.sha256(data).hexdigest()[:12]}.log"
    path.write_bytes(data)
    print(f"input {number}: {wrong}\n  kept as {path}", flush=True)


def tell(
    count: int,
    size: int,
    started: float,
    at_first: os.times_result,
    found: Counter[str],
    slowest: list[tuple[float, int, int]],
) -> None:
    now = os.times()
    cpu = now.user + now.system - at_first.user - at_first.system
    slow = ", ".join(f"{took:.2f} s for {length} bytes (input {number})" for took, length, number in slowest[:3])
    print(
        f"{count:,} inputs, {size / 1e6:.1f} MB, {time.monotonic() - started:.0f} s ({cpu:.0f} s of the processor), "
        f"{sum(found.values())} failed in {len(found)} ways; slowest {slow}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
