"""Start-up, throughput and memory, beside what else reads logs."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmarks.measure import Command, Run, in_turns, ratio, typical

HERE = Path(__file__).parent
PYTHON = sys.executable
RIPGREP = shutil.which("rg")

SMALL = 20_000  # bytes of the log that start-up is measured with
# Of slower programs a part is measured, and the rest is reckoned from it.
PARTS = {"line loop": 100 * 10**6, "drain3": 4 * 10**6}

FILE, PIPE, START, NOTHING = "oomdoctor, file", "oomdoctor, pipe", "oomdoctor, small log", "do nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    kind: str
    gigabytes: float
    what: str
    seconds: float  # the median of the rounds
    processor: float
    megabytes_per_second: float
    resident_megabytes: float
    reckoned_from_megabytes: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    rows: list[Row]
    ratios: dict[str, float]  # of processor time: on a machine with other work it is steadier than the clock's
    by_the_clock: dict[str, float]


def made(path: Path, size: int, *kind: str) -> Path:
    """In a process of its own: children start with the highest resident mark of the one that forks them."""
    subprocess.run([PYTHON, "-m", "benchmarks.logs", str(path), str(size), *kind], check=True, cwd=HERE.parent)
    return path


def oomdoctor(log: Path | str, stdin: Path | None = None) -> Command:
    """The one of this environment; all these logs hold a failure."""
    return Command([str(Path(PYTHON).parent / "oomdoctor"), "diagnose", str(log)], stdin, ends=(1,))


def literals(folder: Path) -> Path:
    """As many as oomdoctor looks for, since they are the same."""
    path = folder / "literals"
    program = "import sys; from oomdoctor.families import anchors; sys.stdout.buffer.write(b'\\n'.join(anchors()))"
    with path.open("wb") as file:
        subprocess.run([PYTHON, "-c", program], check=True, stdout=file)
        file.write(b"\n")
    return path


def missing() -> Iterator[str]:
    if RIPGREP is None:
        yield "rg is not installed: no figures beside ripgrep"
    if find_spec("drain3") is None:
        yield "drain3 is not installed: no figures beside it (pip install drain3)"


def throughput(folder: Path, kind: str, size: int, rounds: int) -> Measured:
    log, few = made(folder / "big.log", size, kind), made(folder / "small.log", SMALL, "sparse")
    parts = {what: _part(log, folder / f"{what}.log", size) for what, size in PARTS.items()}
    words = literals(folder)
    commands = {
        START: oomdoctor(few),
        FILE: oomdoctor(log),
        PIPE: oomdoctor("-", log),
        "wc -l": Command(["wc", "-l", str(log)]),
        "line loop": Command([PYTHON, str(HERE / "line_loop.py"), str(parts["line loop"]), str(words)]),
    }
    if RIPGREP:
        commands["rg -c -F"] = Command([RIPGREP, "-c", "-F", "-f", str(words), str(log)])
    if find_spec("drain3"):
        commands["drain3"] = Command([PYTHON, str(HERE / "templates.py"), str(parts["drain3"])])
    runs = in_turns(commands, rounds)
    read = {what: path.stat().st_size for what, path in parts.items()}
    whole = log.stat().st_size
    for path in (log, *parts.values()):
        path.unlink()
    told = [_row(kind, size, what, those, whole, read.get(what, whole)) for what, those in runs.items()]
    part = {what: length / whole for what, length in read.items()}
    return Measured(
        [row for row in told if row.what != START],
        dict(_ratios(f"{kind}, {size / 10**9:g} GB", runs, part, "processor")),
        dict(_ratios(f"{kind}, {size / 10**9:g} GB", runs, part, "seconds")),
    )


def _part(log: Path, to: Path, size: int) -> Path:
    """The log's first bytes, block by block."""
    with log.open("rb") as whole, to.open("wb") as part:
        while part.tell() < size and (block := whole.read(min(1_000_000, size - part.tell()))):
            part.write(block)
    return to


def start(folder: Path, rounds: int) -> Measured:
    """From a shell's prompt to the last word on a small log, beside a program of the same parts that does nothing."""
    few = made(folder / "small.log", SMALL, "sparse")
    commands = {
        START: oomdoctor(few),
        NOTHING: Command([PYTHON, str(HERE / "do_nothing.py"), str(few)]),
    }
    runs = in_turns(commands, rounds)
    name = "start-up / do nothing"
    return Measured(
        [_row("start-up", SMALL, what, those, SMALL, SMALL) for what, those in runs.items()],
        {name: ratio(runs[START], runs[NOTHING], lambda it: it.processor)},
        {name: ratio(runs[START], runs[NOTHING], lambda it: it.seconds)},
    )


def _row(kind: str, size: int, what: str, runs: list[Run], whole: int, read: int) -> Row:
    times = whole / read
    seconds = typical(runs, lambda it: it.seconds) * times
    return Row(
        kind=kind,
        gigabytes=size / 10**9,
        what=what,
        seconds=seconds,
        processor=typical(runs, lambda it: it.processor) * times,
        megabytes_per_second=whole / 10**6 / seconds,
        resident_megabytes=max(it.megabytes for it in runs),
        reckoned_from_megabytes=read / 10**6 if read < whole else None,
    )


def _ratios(
    log: str, runs: Mapping[str, list[Run]], parts: Mapping[str, float], figure: str
) -> Iterator[tuple[str, float]]:
    """What reading takes, without the start, beside what others take for the same log."""
    for way in (FILE, PIPE):
        for other in ("rg -c -F", "wc -l", "line loop", "drain3"):
            if other in runs:
                found = ratio(runs[way], runs[other], lambda it: getattr(it, figure), without=runs[START])
                yield f"{log}: {way.removeprefix('oomdoctor, ')} / {other}", found * parts.get(other, 1.0)
