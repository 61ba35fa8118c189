"""A command at a terminal of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence


def at_a_terminal(command: Sequence[str], env: Mapping[str, str], columns: int | None = None) -> tuple[int, str]:
    """The exit code and all that a person sees who types nothing, on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    if columns is not None:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                block = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end is closed
                break
            if not block:
                break
            seen += block
    os.close(ours)
    return process.returncode, seen.decode().replace("\r\n", "\n")
