"""How fast, how large, and how it grows, next to what else reads logs: `python -m benchmarks`.

Everything is measured side by side in one go, in turns, on logs made here and deleted again; the medians of the rounds'
ratios matter, not seconds. Others: `python -m benchmarks.baseline`, `.catalogue`, `.mutated` and `.models` (how often
it is right), `.answers` (what a change changes), `.upstream` (what a program can print that is not read) and
`.snapshots` (how long PyTorch's take).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from benchmarks import budgets
from benchmarks.growth import growth
from benchmarks.logs import KINDS
from benchmarks.measure import Fit
from benchmarks.throughput import FILE, PIPE, Measured, Row, missing, start, throughput

SIZES = {"sparse": "1", "metrics": "0.1", "dense": "0.1"}  # gigabytes; one of sparse is read in no time
STARTS = 5  # times the rounds: a start is short


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="oomdoctor-benchmark-", dir=options.folder) as folder:
        place = Path(folder)
        measured = [start(place, STARTS * options.rounds)]
        measured += [
            throughput(place, kind, int(float(size) * 10**9), options.rounds)
            for kind in options.kinds
            for size in (options.sizes or SIZES[kind]).split(",")
        ]
        grown = growth(place, options.rounds) if options.growth else {}
    rows = [row for one in measured for row in one.rows]
    figures = figures_of(measured, rows, grown)
    if options.json:
        Path(options.json).write_text(json.dumps(told(measured, rows, grown, figures), indent=1), encoding="utf-8")
    print(table(rows, measured, grown))
    sys.stdout.writelines(f"{line}\n" for line in missing())
    if options.update_budgets:
        budgets.update(figures)
    if options.check and (broken := list(budgets.exceeded(figures))):
        sys.exit("\n".join(broken))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--sizes", metavar="GB,...", help="of the logs (default: 1 of sparse ones, 0.1 of others; the disk holds two)"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-growth", dest="growth", action="store_false", help="with size, failures and files")
    parser.add_argument("--folder", help="for the logs (default: the system's temporary one)")
    parser.add_argument("--json", metavar="FILE", help="write all figures")
    parser.add_argument("--check", action="store_true", help="fail on what is 20 %% above its budget (budgets.toml)")
    parser.add_argument("--update-budgets", action="store_true", help="make what is measured now the budgets")
    return parser.parse_args()


def figures_of(measured: Iterable[Measured], rows: Iterable[Row], grown: dict[str, Fit]) -> dict[str, float]:
    """What has a budget: ratios, resident memory, and how time grows."""
    found = {name: value for one in measured for name, value in one.ratios.items()}
    ours = [row for row in rows if row.what in (FILE, PIPE)]
    found |= {f"{row.kind}, {row.gigabytes:g} GB: resident MB, {row.what}": row.resident_megabytes for row in ours}
    # Less than a straight line is as good as one: much of a log costs the same whatever is in it.
    return found | {f"growth with {what}: exponent": max(line.exponent, 1.0) for what, line in grown.items()}


def told(
    measured: Iterable[Measured], rows: Iterable[Row], grown: dict[str, Fit], figures: dict[str, float]
) -> dict[str, object]:
    return {
        "machine": {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()},
        "rows": [asdict(row) for row in rows],
        "figures": figures,
        "ratios by the clock": {name: value for one in measured for name, value in one.by_the_clock.items()},
        "growth": {what: asdict(line) for what, line in grown.items()},
    }


def table(rows: Iterable[Row], measured: Iterable[Measured], grown: dict[str, Fit]) -> str:
    lines = [f"{'log':<18}{'what':<22}{'seconds':>9}{'processor':>11}{'MB/s':>9}{'resident MB':>13}"]
    for row in rows:
        log = row.kind if row.kind == "start-up" else f"{row.kind}, {row.gigabytes:g} GB"
        speed = "" if row.kind == "start-up" else f"{row.megabytes_per_second:.0f}"
        part = f"   reckoned from {row.reckoned_from_megabytes:g} MB" if row.reckoned_from_megabytes else ""
        lines.append(
            f"{log:<18}{row.what:<22}{row.seconds:>9.3f}{row.processor:>11.3f}{speed:>9}"
            f"{row.resident_megabytes:>13.0f}{part}"
        )
    lines += ["", f"{'medians of the ratios, without start-up':<52}{'processor':>11}{'clock':>9}"]
    for one in measured:
        lines += [f"{name:<52}{value:>11.2f}{one.by_the_clock[name]:>9.2f}" for name, value in one.ratios.items()]
    for what, line in grown.items():
        lines.append(
            f"growth with {what}: {line.start:.2f} s + {line.each * 1000:.2f} ms each "
            f"({line.explained:.1%} explained), exponent {line.exponent:.2f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
