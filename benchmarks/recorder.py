"""What `oomdoctor run` costs: `python -m benchmarks.recorder [--seconds 60] [--processes 40]`.

The same idle job alone, under the recorder with a sample every two seconds, and under one that takes none after the
start, in turns; and how much processor time a gigabyte of output takes on its way through. Shares are of one core.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median

from benchmarks.measure import Command, Run, in_turns

RUN = (sys.executable, "-m", "oomdoctor", "run")
BUDGET = 0.01  # of one core, with a sample every two seconds


def main() -> None:
    options = arguments()
    job = ("bash", "-c", f"for n in $(seq {options.processes}); do sleep {options.seconds} & done; wait")
    print(f"{options.processes} processes, {options.seconds} s, {options.rounds} rounds")
    share = idle(job, options.seconds, options.rounds)
    passing(options.megabytes, options.rounds)
    if options.check and share > BUDGET:
        sys.exit(f"the recorder takes {share:.2%} of a core, more than {BUDGET:.0%}")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.recorder", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seconds", type=int, default=60, help="that the job takes")
    parser.add_argument("--processes", type=int, default=40, help="of the job")
    parser.add_argument("--megabytes", type=int, default=200, help="of output")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="fail where it is over the budget")
    return parser.parse_args()


def idle(job: tuple[str, ...], seconds: int, rounds: int) -> float:
    """The share of a core that the samples take."""
    found = in_turns(
        {
            "alone": Command(job),
            "every 2s": Command((*RUN, "--every", "2s", "--", *job)),
            "every 60m": Command((*RUN, "--every", "60m", "--", *job)),
        },
        rounds,
    )
    for name, runs in found.items():
        print(f"  {name:<10} {processor(runs):7.3f} s of a core, {median(run.megabytes for run in runs):5.1f} MB")
    share = (processor(found["every 2s"]) - processor(found["every 60m"])) / seconds
    started = processor(found["every 60m"]) - processor(found["alone"])
    print(f"  samples: {share:.3%} of a core; start and end: {started:.2f} s of one")
    return share


def passing(megabytes: int, rounds: int) -> None:
    """Through a pipe."""
    job = ("head", "-c", f"{megabytes}M", "/dev/zero")
    whole = ("bash", "-c", '"$@" | cat > /dev/null', "job")
    found = in_turns({"alone": Command((*whole, *job)), "recorded": Command((*whole, *RUN, "--", *job))}, rounds)
    more = median(run.seconds for run in found["recorded"]) - median(run.seconds for run in found["alone"])
    print(f"  {megabytes} MB of output take {more:.2f} s more, start and end included")


def processor(runs: list[Run]) -> float:
    return median(run.processor for run in runs)


if __name__ == "__main__":
    main()
