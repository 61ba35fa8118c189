"""Running commands in turns, so that a busy machine hits all alike, and what one may conclude from it."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression, median

MAXRSS = 1024**2 if sys.platform == "darwin" else 1024  # in a megabyte of ru_maxrss


@dataclass(frozen=True, slots=True)
class Command:
    words: Sequence[str]
    stdin: Path | None = None  # through a pipe
    ends: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Run:
    seconds: float
    processor: float  # seconds, of all cores together, in the program and for it in the kernel
    megabytes: float  # highest resident memory of one process


def run(command: Command) -> Run:
    with tempfile.TemporaryFile() as nowhere:
        feed = subprocess.Popen(["cat", str(command.stdin)], stdout=subprocess.PIPE) if command.stdin else None
        start = time.perf_counter()
        child = subprocess.Popen(
            command.words, stdin=feed.stdout if feed else subprocess.DEVNULL, stdout=nowhere, stderr=nowhere
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if feed:
            feed.communicate()
    if child.returncode not in command.ends:
        raise SystemExit(f"{' '.join(command.words)} ended with {child.returncode}")
    return Run(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / MAXRSS)


def in_turns(commands: Mapping[str, Command], rounds: int) -> dict[str, list[Run]]:
    """Each command once in every round; the order turns, too."""
    found: dict[str, list[Run]] = {name: [] for name in commands}
    names = list(commands)
    for number in range(rounds):
        turned = names[number % len(names) :] + names[: number % len(names)]
        for name in turned:
            found[name].append(run(commands[name]))
    return found


Figure = Callable[[Run], float]


def typical(runs: Sequence[Run], figure: Figure) -> float:
    return median(map(figure, runs))


def ratio(one: Sequence[Run], other: Sequence[Run], figure: Figure, without: Sequence[Run] = ()) -> float:
    """The median of the rounds' ratios, `without` what the first takes for nothing (its start)."""
    less = [figure(it) for it in without] or [0.0] * len(one)
    return median((figure(a) - c) / figure(b) for a, b, c in zip(one, other, less, strict=True))


@dataclass(frozen=True, slots=True)
class Fit:
    start: float  # seconds
    each: float  # seconds for one more
    explained: float  # of the variance: 1 where all points lie on the line
    exponent: float  # 1 where twice as many take twice as long


def fit(points: Mapping[float, float], start: float) -> Fit:
    """A line through what so many of something took; `start` is what none of them takes."""
    x, y = list(points), list(points.values())
    line = linear_regression(x, y)
    mean = sum(y) / len(y)
    missed = sum((line.intercept + line.slope * a - b) ** 2 for a, b in points.items())
    spread = sum((b - mean) ** 2 for b in y)
    logs = [math.log(max(b - start, 1e-3)) for b in y]
    return Fit(
        line.intercept, line.slope, 1 - missed / spread if spread else 1.0,
        linear_regression([math.log(a) for a in x], logs).slope,
    )  # fmt: skip
