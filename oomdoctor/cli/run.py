"""`oomdoctor run`."""

from __future__ import annotations

import re
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from oomdoctor.cli import out
from oomdoctor.cli.quick import Lang
from oomdoctor.cli.reports import rendered
from oomdoctor.language import say
from oomdoctor.recorder import proc
from oomdoctor.recorder.outcome import Outcome

if TYPE_CHECKING:
    from oomdoctor.recorder.flight import Flight
    from oomdoctor.recorder.output import Kept, Pump
    from oomdoctor.report.contract import Report
    from oomdoctor.sources import Source

NOT_FOUND: Final = 127
NOT_A_PROGRAM: Final = 126
SHORTEST_S: Final = 0.1
LONGEST_S: Final = 3600.0
_UNITS: Final = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0}
_DURATION: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)(ms|s|m|min|)")
RECORD_NAME: Final = "flight-record.jsonl"


def _seconds(words: str) -> float:
    match = _DURATION.fullmatch(words.strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not SHORTEST_S <= found <= LONGEST_S:
        raise typer.BadParameter(say("{value} is no time between 0.1s and 60m", value=repr(words)))
    return found


def run(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND", show_default=False, help="The job, as you would start it without oomdoctor."),
    ],
    record: Annotated[
        str | None,
        typer.Option(
            "--record", metavar="FILE", show_default=False, help="Keep the flight record: `diagnose` reads this file."
        ),
    ] = None,
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Time between two samples.")] = "2s",
    capture: Annotated[
        bool,
        typer.Option(
            "--capture/--no-capture",
            help="Keep the first and last lines of the output for the diagnosis, or leave the output alone.",
        ),
    ] = True,
    _lang: Lang = None,
) -> None:
    """Start a job and record its memory: proves why it died.

    \b
    Examples:
      oomdoctor run -- python train.py
      oomdoctor run --record flight.jsonl -- torchrun train.py > train.log 2>&1
      oomdoctor diagnose train.log flight.jsonl

    Input, output, signals and the exit status are the job's own. When the job dies of memory, or nobody can tell, the
    diagnosis is printed to standard error; when it fails for another reason, one line says why it is not memory. After
    a success nothing is printed.

    Every two seconds it records what the cgroup, the machine, /dev/shm, the GPUs and the job's largest processes use,
    and how many processes the kernel has OOM-killed. Without Linux' /proc (macOS, Windows) nothing is recorded.

    Exits as the job does; with 126 or 127 if the job cannot be started.
    """
    seconds = _seconds(every)
    out.check_folder(record)
    if not proc.is_there() or not hasattr(signal, "sigtimedwait"):
        _without_a_recorder(command)
    from oomdoctor.recorder import job, output  # noqa: PLC0415  (Linux' own modules)
    from oomdoctor.recorder.flight import Flight  # noqa: PLC0415

    try:
        flight = Flight(Path(record) if record else None, seconds, command)
    except OSError as error:
        raise out.CannotWriteError(f"{record}: {error.strerror}") from error
    outputs = output.kept() if capture else []
    pumps = [one for one in outputs if isinstance(one, output.Pump)]
    for pump in pumps:
        pump.start()
    try:
        running = job.Job(command, list(output.descriptors(outputs)))
    except OSError as error:
        _cannot_start(command, error)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # nobody may read what we say, and we end as the job did
    for pump in pumps:
        pump.begun()
    flight.start(running.pid)
    running.wait(flight.tick, partial(_resize, pumps), flight.pass_on)
    outcome = running.peek()
    data = flight.end(outcome)
    running.reap()
    for pump in pumps:
        pump.settle()
    with suppress(KeyboardInterrupt):
        running.unblock()
        _conclude(outcome, flight, data, outputs)
    job.end_as(outcome)


def _resize(pumps: Sequence[Pump]) -> None:
    for pump in pumps:
        pump.resize()


def _cannot_start(command: Sequence[str], error: OSError) -> None:
    out.tell(f"{command[0]}: {error.strerror}")
    sys.exit(NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_A_PROGRAM)


def _without_a_recorder(command: Sequence[str]) -> None:
    from oomdoctor.recorder import plain  # noqa: PLC0415

    out.tell(say("this system has no /proc of Linux' kind: the job's memory is not recorded"))
    try:
        outcome = plain.run(command)
    except OSError as error:
        _cannot_start(command, error)
    else:
        plain.end_as(outcome)


def _conclude(outcome: Outcome, flight: Flight, data: bytes, outputs: Sequence[Kept]) -> None:
    """Say what there is to say; an error in it must not change how we end."""
    if flight.why_not is not None:
        out.tell(say("the recorder failed ({error}); the job was not affected", error=type(flight.why_not).__name__))
    if outcome.is_success and not flight.saw_a_kill:
        return
    try:
        report = _report(data, outputs)
        words = _told(report)
    except Exception as error:  # noqa: BLE001  (also a MemoryError: the limit that the job hit is ours as well)
        out.tell(say("the diagnosis failed ({error}); the job was not affected", error=type(error).__name__))
        return
    with suppress(OSError):
        out.write_error(words)


def _report(data: bytes, outputs: Sequence[Kept]) -> Report:
    from oomdoctor import street  # noqa: PLC0415  (loaded when the job is gone)
    from oomdoctor.sources.source import InMemory  # noqa: PLC0415

    logs: list[Source] = [InMemory(_name(kept.streams), None, data=kept.text()) for kept in outputs]
    return street.report_on([*logs, InMemory(RECORD_NAME, None, data=data)], ())


def _name(streams: Sequence[int]) -> str:
    return "<output>" if len(streams) > 1 else "<stdout>" if streams[0] == 1 else "<stderr>"


def _told(report: Report) -> str:
    """The diagnosis, or one line that says why it is not memory."""
    if report.incidents:
        look = out.style("auto", to_file=True)
        return rendered(report, "text", look, redacted=False, verbose=False)
    why = next((each.why for each in reversed(report.lookalikes) if each.file == RECORD_NAME), None)
    return out.one_line("oomdoctor: " + (why or say("no memory failure found"))) + "\n"
