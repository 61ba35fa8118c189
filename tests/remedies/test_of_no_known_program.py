"""Of a program that nobody knows, in whatever language, only what its log shows is advised."""

from __future__ import annotations

from pathlib import Path

import pytest
from remedy_logs import advise
from reports import body

KILLED = "run.sh: line 3:    71 Killed                  {command}\nexit code: 137\n"
GROWS = "".join(f"pass {n}: rss {n}20 MiB\n" for n in range(1, 10))
KNOBS = ("clear-references", "restart-periodically", "pin-version", "shorter-sequences")
LEAK = "host-memory-leak"


def advised(log: str) -> list[str]:
    return list(advise(log, *KNOBS, cause=LEAK)[0])


@pytest.mark.parametrize(
    "command", ["./tally --input a.csv", "/opt/bin/tally --input a.csv", "python -u tally.py --fast"]
)
def test_no_framework_no_checkpoint_and_no_sequence(command: str) -> None:
    assert advised(f"+ {command}\n{GROWS}{KILLED.format(command=command)}") == ["clear-references"]


@pytest.mark.parametrize(
    ("line", "knob"),
    [
        ("checkpoint 3 written", "restart-periodically"),
        ("listening on :8080", "restart-periodically"),
        ("resumed at row 4000", "restart-periodically"),
        ("epoch 3 loss 2.1", "restart-periodically"),
        ("epoch 3 loss 2.1", "pin-version"),
        ("torch 2.4.0", "pin-version"),
        ("epoch 3 loss 2.1", "shorter-sequences"),
        ("vocab of 32000", "shorter-sequences"),
    ],
)
def test_what_the_log_shows_is_advised(line: str, knob: str) -> None:
    assert knob in advised(f"{GROWS}{line}\n{KILLED.format(command='./tally')}")


@pytest.mark.parametrize(
    ("options", "second"),
    [
        ("--partitions 1", "--partitions 8"),
        ("--partitions 4", "--partitions 8"),
        ("--rows-per-batch 0", "--rows-per-batch 64"),
        ("--chunk-rows 5000", "--chunk-rows 2500"),
        ("--concurrency 8 --partitions 4", "--partitions 8"),
        ("--concurrency 8", "--concurrency 4"),
        ("--threads 8", None),
        ("--seed 8", None),
        ("--max-partitions 8", None),
    ],
)
@pytest.mark.parametrize("program", ["./tally", "python -u tally.py"])
def test_its_own_options_come_behind_what_grows(tmp_path: Path, program: str, options: str, second: str | None) -> None:
    command = f"{program} {options}"
    remedies = body(tmp_path, f"+ {command}\n{GROWS}{KILLED.format(command=command)}")["diagnoses"][0]["remedies"]
    assert remedies[0]["knob"] == "clear-references"
    assert next((one["snippet"] for one in remedies[1:2] if one["suggested"] is not None), None) == second


def test_options_of_a_job_that_learns_are_no_cure_of_a_leak(tmp_path: Path) -> None:
    command = "python -u fit.py --chunk-rows 5000"
    log = f"+ {command}\nepoch 1 loss 2.1\n{GROWS}{KILLED.format(command=command)}"
    remedies = body(tmp_path, log)["diagnoses"][0]["remedies"]
    assert "smaller-partitions" not in [one["knob"] for one in remedies]


def test_what_fills_a_machine_by_the_clock_is_started_anew() -> None:
    """No figure of the job's own: nothing counts work that a restart would lose."""
    log = f"[1.0] app invoked oom-killer: gfp_mask=0x0, order=0\n{KILLED.format(command='./tally')}"
    chosen, _ = advise(log, "restart-periodically", cause=LEAK)
    assert "heckpoint" not in chosen["restart-periodically"].action
