"""Runs programs that die of memory, does what oomdoctor says of their logs, and counts what that ends.

    python -m lab [--only NAME ...] [--json] [--logs FOLDER]    crash, diagnosis, the first three remedies
    python -m lab --knobs [--only NAME ...]                     which of a program's knobs end its crash, unread
    python -m lab --list

Needs root on Linux, and `pip install -e '.[lab]'`; a program whose packages are not there is left out.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from lab import cell
from lab.cell import Run
from lab.program import Program, changed, programs, scaled
from lab.trial import Figures, Runner, Trial, figures, outcome_of, trial

CARD = 80  # GiB


def main() -> None:
    options = arguments()
    those = chosen(options.only)
    if options.list:
        for program in those:
            print(f"{program.name:28} {', '.join(program.causes):45} {program.about}")
        return
    if not alone():
        sys.exit("the lab needs root on Linux and `unshare`: each run gets namespaces and a memory cgroup of its own")
    if options.knobs:
        for program in those:
            turn_knobs(program, options.logs)
        return
    trials = []
    for program in those:
        trials.append(tried(program, options.logs))
        print(row(trials[-1]), file=sys.stderr, flush=True)
    counted = figures(trials)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode({"figures": counted, "programs": trials}), indent=1).decode())
    else:
        print(table(trials, counted))


def chosen(names: list[str] | None) -> list[Program]:
    """All, or those named, in the order in which they are named."""
    every = {it.name: it for it in programs()}
    unknown = set(names or ()) - every.keys()
    if unknown:
        sys.exit(f"no program of the lab: {', '.join(sorted(unknown))}")
    return [every[name] for name in names or every]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lab", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", metavar="NAME")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--knobs", action="store_true", help="turn each knob alone, without a diagnosis")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--logs", type=Path, metavar="FOLDER", help="where to keep the logs")
    return parser.parse_args()


def alone() -> bool:
    return sys.platform == "linux" and os.geteuid() == 0 and shutil.which("unshare") is not None


def card() -> float | None:
    """GiB of the first GPU."""
    if shutil.which("nvidia-smi") is None:
        return None
    words = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    answer = subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()
    return int(answer[0]) / 1024 if answer else None


def why_not(program: Program) -> str:
    if program.cuda and card() is None:
        return "no GPU here"
    missing = program.missing()
    return f"not installed: {', '.join(missing)}" if missing else ""


def on_this_card(program: Program) -> Program:
    gib = card() if program.scale else None
    if gib is None:
        return program
    flags = {
        flag: scaled(value, gib / CARD) if flag in program.scale else value for flag, value in program.flags.items()
    }
    return msgspec.structs.replace(program, flags=flags)


@contextmanager
def workplace(program: Program, logs: Path | None) -> Iterator[Runner]:
    """A folder for the program's files, and one for its logs."""
    with tempfile.TemporaryDirectory(prefix="lab-") as scratch, tempfile.TemporaryDirectory(prefix="lab-") as nowhere:
        cell.prepare(program, Path(scratch))

        def run(one: Program, name: str) -> Run:
            return cell.run(one, Path(scratch), (logs or Path(nowhere)) / program.name / name)

        yield run


def report(folder: Path) -> dict[str, Any]:
    words = [sys.executable, "-m", "oomdoctor", "diagnose", *map(str, sorted(folder.glob("*.log"))), "--format", "json"]
    answer = subprocess.run([*words, "--exit-zero"], capture_output=True, text=True, check=True)
    (folder / "report.json").write_text(answer.stdout)
    decoded: dict[str, Any] = msgspec.json.decode(answer.stdout)
    return decoded


def tried(program: Program, logs: Path | None) -> Trial:
    why = why_not(program)
    if why:
        return Trial(name=program.name, skipped=why)
    with workplace(program, logs) as run:
        return trial(on_this_card(program), run, report)


def turn_knobs(program: Program, logs: Path | None) -> None:
    """Prints what each knob does alone, at the mapping's own value."""
    why = why_not(program)
    if why:
        print(f"{program.name}: {why}")
        return
    program = on_this_card(program)
    with workplace(program, logs) as run:
        crash = run(program, "crash")
        print(f"{program.name}: {described(crash)}", flush=True)
        for knob in program.knobs:
            again = run(changed(program, knob), knob)
            outcome = outcome_of(crash, again)
            print(f"    {knob:26} {outcome:6} {described(again)}", flush=True)


def described(run: Run) -> str:
    status = "out of time" if run.status is None else f"status {run.status}"
    peak = f", peak {run.peak / 2**20:.0f} MiB" if run.peak else ""
    return f"{status}, {run.seconds} s{peak}, {run.kills} kills, {run.progress} steps"


def row(one: Trial) -> str:
    if one.skipped:
        return f"{one.name:26} left out: {one.skipped}"
    cause = f"{'' if one.cause_right else 'NOT '}{one.cause}"
    tries = "; ".join(f"{it.knob} {it.outcome}{' (buys)' if it.buys else ''}" for it in one.tries)
    return f"{one.name:26} {cause:32} {tries}; together {one.together or 'nothing'}"


def table(trials: list[Trial], counted: Figures) -> str:
    number = max(1, counted.programs)
    shares = (
        ("cause right", counted.cause_right),
        ("first remedy ends the crash", counted.first_ends),
        ("one of the first three does, nothing bought", counted.one_ends),
        ("these together do", counted.together_ends),
        ("something made worse", counted.worse),
    )
    lines = [f"{words}: {count} of {counted.programs} ({count / number:.0%})" for words, count in shares]
    return "\n".join([*map(row, trials), "", *lines])


if __name__ == "__main__":
    main()
