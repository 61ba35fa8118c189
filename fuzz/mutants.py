"""Mutations of decisions and arithmetic, each with the tests that must notice it.

    python -m fuzz.mutants [--match incident/] [--jobs 2]

Each row of mutants.txt changes one place in a copy of the package, against which its tests are run. A mutant that
survives is a decision that no test guards: sharpen the test. A row whose text does not stand in its file once says
nothing any more. Either ends with 1.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

TOP: Final = Path(__file__).parent.parent
COPIED: Final = ("oomdoctor", "grammars", "tests", "fixtures", "fuzz", "benchmarks", "pyproject.toml", "README.md")
PATIENCE_S: Final = 300
FAILED: Final = 1  # how pytest ends where a test fails; any other end says nothing of the mutant


class Mutant(NamedTuple):
    file: str  # of the package
    old: str  # stands in it once
    new: str
    by: str  # the tests that notice: files, or single tests of them

    def __str__(self) -> str:
        return f"{self.file}: {self.old!r} -> {self.new!r}"


def table(text: str) -> Iterator[Mutant]:
    """The rows of the table; its head says how they are written."""
    file = by = old = ""
    for line in text.splitlines():
        if line.startswith("["):
            file, _, by = line[1:].partition("] ")
        elif line.startswith("- "):
            old = line[2:]
        elif line.startswith("+"):
            yield Mutant(file, old, line[2:], by)


MUTANTS: Final = tuple(table(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))


def broken(mutant: Mutant, package: Path) -> str:
    """Why the row does not apply; "" where it does."""
    file = package / mutant.file
    if not file.is_file():
        return "no such file"
    times = file.read_text(encoding="utf-8").count(mutant.old)
    return "" if times == 1 else f"its text stands there {times} times"


class Tree:
    """A copy of what the tests need, in which one mutant at a time lives."""

    _moment = count(int(time.time()) + 10, 10)  # Python compares seconds to see that a file is another one

    def __init__(self, folder: Path) -> None:
        self._top = folder
        self._passed: set[str] = set()  # which tests pass without any mutation
        for name in COPIED:
            if (TOP / name).is_dir():
                shutil.copytree(TOP / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(TOP / name, folder / name)

    def outcome(self, mutant: Mutant) -> str:
        """What is wrong with the mutant: that it lives, or why nobody knows; "" where a test notices it."""
        if why := broken(mutant, self._top / "oomdoctor") or self._unsound(mutant.by):
            return why
        with self._changed(mutant):
            ended, last = self.tested(mutant.by)
        if ended == FAILED:
            return ""
        return f"it survives {mutant.by}" if ended == 0 else f"pytest ended with {ended}: {last}"

    def _unsound(self, by: str) -> str:
        """Why a failure of these tests would say nothing of a mutant."""
        if by in self._passed:
            return ""
        ended, last = self.tested(by)
        if ended:
            return f"its tests fail without any mutation: {last}"
        self._passed.add(by)
        return ""

    def tested(self, by: str) -> tuple[int, str]:
        """How pytest ended, and the last that it said."""
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-n0", "-pno:cacheprovider", *by.split()],
            check=False,
            capture_output=True,
            text=True,
            cwd=self._top,
            env={**os.environ, "PYTHONPATH": str(self._top)},
            timeout=PATIENCE_S,
        )
        return done.returncode, (done.stdout.strip() or done.stderr.strip()).rpartition("\n")[2]

    @contextmanager
    def _changed(self, mutant: Mutant) -> Iterator[None]:
        file = self._top / "oomdoctor" / mutant.file
        before = file.read_text(encoding="utf-8")
        self._write(file, before.replace(mutant.old, mutant.new))
        try:
            yield
        finally:
            self._write(file, before)

    def _write(self, file: Path, text: str) -> None:
        file.write_text(text, encoding="utf-8")
        moment = next(self._moment)
        os.utime(file, (moment, moment))


def problems(mutants: Sequence[Mutant], jobs: int) -> Iterable[tuple[Mutant, str]]:
    """The mutants that no test notices, and those of which nobody knows."""
    free: SimpleQueue[Tree] = SimpleQueue()

    def outcome(mutant: Mutant) -> str:
        tree = free.get()
        try:
            return tree.outcome(mutant)
        finally:
            free.put(tree)

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            free.put(Tree(Path(folder) / str(number)))
        yield from ((one, why) for one, why in zip(mutants, pool.map(outcome, mutants), strict=True) if why)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--match", default="", help="only rows whose file or text holds this")
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = arguments.parse_args()
    chosen = [mutant for mutant in MUTANTS if given.match in str(mutant)]
    found = 0
    for mutant, why in problems(chosen, given.jobs):
        found += 1
        print(f"{mutant}\n  {why}", flush=True)
    print(f"{len(chosen)} mutants, {found} of them not noticed")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
