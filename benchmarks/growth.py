"""How time grows with a log's size, with the failures in it, and with the number of files."""

from __future__ import annotations

import shutil
from pathlib import Path

from benchmarks.measure import Fit, fit, in_turns, typical
from benchmarks.throughput import SMALL, START, made, oomdoctor

STEPS = (1, 2, 4, 8)
SIZE = 4 * 10**6  # bytes of the smallest dense log
FAILURES = (16 * 10**6, 250)  # bytes of the log, and failures in it at the first step
FILES = (16 * 10**6, 10)  # bytes of all together, and files at the first step


def growth(folder: Path, rounds: int) -> dict[str, Fit]:
    few = made(folder / "small.log", SMALL, "sparse")
    inputs: dict[str, dict[float, tuple[int, tuple[str, ...]]]] = {
        "a dense log's megabytes": {SIZE * step / 10**6: (SIZE * step, ("dense",)) for step in STEPS},
        "failures": {FAILURES[1] * step: (FAILURES[0], ("failures", str(FAILURES[1] * step))) for step in STEPS},
        "files": {FILES[1] * step: (FILES[0], ("files", str(FILES[1] * step))) for step in STEPS},
    }
    found = {}
    for what, sizes in inputs.items():
        paths = {number: made(folder / f"{number:g}", size, *kind) for number, (size, kind) in sizes.items()}
        commands = {str(number): oomdoctor(path) for number, path in paths.items()}
        runs = in_turns({START: oomdoctor(few), **commands}, rounds)
        taken = {number: typical(runs[str(number)], lambda it: it.processor) for number in paths}
        found[what] = fit(taken, typical(runs[START], lambda it: it.processor))
        for path in paths.values():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return found
