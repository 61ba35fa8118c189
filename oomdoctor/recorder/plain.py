"""A job on a system without Linux' /proc and signals: started and waited for, nothing recorded."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence

from oomdoctor.recorder.ended import Ended


def run(command: Sequence[str]) -> Ended:
    """With all that it inherits from us; an OSError where it cannot be started. Ctrl-C is the job's alone."""
    with subprocess.Popen(command) as job:  # noqa: S603  (the user's own command)
        before = signal.signal(signal.SIGINT, lambda *_: None)
        status = job.wait()
        signal.signal(signal.SIGINT, before)
    return Ended(status=status) if status >= 0 else Ended(signal=-status)
