"""A job on a system without Linux' /proc and signals: started and waited for, nothing recorded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from oomdoctor.recorder.outcome import Outcome


def run(command: Sequence[str]) -> Outcome:
    """With all that it inherits from us; an OSError where it cannot be started. Ctrl-C is the job's alone."""
    with subprocess.Popen(command) as job:  # noqa: S603  (the user's own command)
        before = signal.signal(signal.SIGINT, lambda *_: None)
        status = job.wait()
        signal.signal(signal.SIGINT, before)
    return Outcome(status=status) if status >= 0 else Outcome(signal=-status)


def end_as(outcome: Outcome) -> None:
    """End as the job did."""
    if outcome.signal is not None and hasattr(os, "kill"):
        signal.signal(outcome.signal, signal.SIG_DFL)
        os.kill(os.getpid(), outcome.signal)
    sys.exit(outcome.status if outcome.status is not None else 1)
