"""How fast, next to what is as fast as it gets: `python -m benchmarks [--megabytes 1000] [--json]`.

Everything is measured side by side in one go, in turns, on logs made here; ratios matter, not seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

HERE = Path(__file__).parent
OOMDOCTOR = [str(Path(sys.executable).parent / "oomdoctor")]  # the one of this environment
NOTHING = [sys.executable, str(HERE / "do_nothing.py")]

HARD = 16 * 10**6  # bytes of the logs that hold something to read on every line

# Two dozen, as somebody would grep for them.
LITERALS = (
    """
out of memory|OutOfMemoryError|killed due to memory pressure|Memory on the node|Killed process|oom-kill
ObjectStoreFullError|object store is full|exit code 137|exitcode: -9|SIGKILL|cannot be scheduled right now
No available node types can fulfill|NODE_OUT_OF_MEMORY|RayOutOfMemoryError|OutOfDiskError
CUBLAS_STATUS_ALLOC_FAILED|NCCL error|No available memory for the cache blocks|KV cache is needed
Free memory on device|Error in memory profiling|EngineDeadError|Bus error
""".strip()
    .replace("\n", "|")
    .split("|")
)


@dataclass(frozen=True, slots=True)
class Row:
    what: str
    seconds: float  # the best of several
    megabytes: float  # highest resident memory


def run(command: list[str], stdin: Path | None = None) -> tuple[float, float]:
    """Seconds and resident megabytes of one run."""
    with tempfile.TemporaryFile() as nowhere:
        feed = subprocess.Popen(["cat", str(stdin)], stdout=subprocess.PIPE) if stdin else None
        start = time.perf_counter()
        child = subprocess.Popen(
            command, stdin=feed.stdout if feed else subprocess.DEVNULL, stdout=nowhere, stderr=nowhere
        )
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        if feed:
            feed.communicate()
    if child.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    return seconds, usage.ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)


def side_by_side(commands: dict[str, tuple[list[str], Path | None]], rounds: int) -> dict[str, Row]:
    """The best of several rounds; in each round every command has its turn, so that a busy machine hits all alike."""
    best: dict[str, Row] = {}
    for _ in range(rounds):
        for what, (command, stdin) in commands.items():
            seconds, megabytes = run(command, stdin)
            known = best.get(what)
            if known is None or seconds < known.seconds:
                best[what] = Row(what, seconds, max(megabytes, known.megabytes if known else 0.0))
    return best


def measured(folder: Path, size: int, rounds: int) -> tuple[dict[str, Row], dict[str, float]]:
    big, small, literals = folder / "big.log", folder / "small.log", folder / "literals"
    metrics, dense = folder / "metrics.log", folder / "dense.log"
    for log, length, kind in (
        (big, size, "healthy"), (small, 20_000, "healthy"), (metrics, HARD, "metrics"), (dense, HARD, "dense"),
    ):  # fmt: skip
        # In a process of its own: children start with the highest resident mark of the one that forks them.
        subprocess.run([sys.executable, "-m", "benchmarks.logs", str(log), str(length), kind], check=True)
    literals.write_text("\n".join(LITERALS) + "\n", encoding="utf-8")
    commands: dict[str, tuple[list[str], Path | None]] = {
        "wc -l": (["wc", "-l", str(big)], None),
        "oomdoctor, big file": ([*OOMDOCTOR, "diagnose", str(big)], None),
        "oomdoctor, big pipe": ([*OOMDOCTOR, "diagnose", "-"], big),
        "oomdoctor, small file": ([*OOMDOCTOR, "diagnose", str(small)], None),
        "oomdoctor, metrics": ([*OOMDOCTOR, "diagnose", str(metrics)], None),
        "oomdoctor, dense": ([*OOMDOCTOR, "diagnose", str(dense)], None),
        "do nothing": ([*NOTHING, str(small)], None),
    }
    ripgrep = shutil.which("rg")
    if ripgrep:
        commands = {"rg -c -F": ([ripgrep, "-c", "-F", "-f", str(literals), str(big)], None), **commands}
    rows = side_by_side(commands, rounds)
    start = rows["do nothing"].seconds
    ratios = {"start to last word on a small log / do nothing": rows["oomdoctor, small file"].seconds / start}
    for what in ("big file", "big pipe"):
        reading = rows[f"oomdoctor, {what}"].seconds - rows["oomdoctor, small file"].seconds
        if ripgrep:
            ratios[f"{what}, without start-up / rg -c -F"] = reading / rows["rg -c -F"].seconds
        ratios[f"{what}, without start-up / wc -l"] = reading / rows["wc -l"].seconds
    for what in ("metrics", "dense"):
        reading = rows[f"oomdoctor, {what}"].seconds - rows["oomdoctor, small file"].seconds
        ratios[f"{what}, MB per second without start-up"] = HARD / 10**6 / reading
    return rows, ratios


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=1000, help="of the big log (default: 1000)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="oomdoctor-benchmark-") as folder:
        rows, ratios = measured(Path(folder), options.megabytes * 10**6, options.rounds)
    if options.json:
        print(
            json.dumps({"megabytes": options.megabytes, "rows": [asdict(r) for r in rows.values()], "ratios": ratios})
        )
        return
    print(f"A log of {options.megabytes} MB with one kill at its end, best of {options.rounds}:\n")
    for row in rows.values():
        print(f"{row.what:<24}{row.seconds:>8.3f} s{row.megabytes:>8.0f} MB resident")
    print()
    for what, ratio in ratios.items():
        print(f"{what:<52}{ratio:>7.2f}")


if __name__ == "__main__":
    main()
