"""The job itself: started as a shell would start it, with its signals, its stops and its end."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NoReturn

from oomdoctor.recorder.outcome import Outcome

# What somebody may send to us and means for the job.
_PASSED_ON: Final = (
    signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTSTP,
    signal.SIGCONT,
)  # fmt: skip
_HEARD: Final = frozenset((*_PASSED_ON, signal.SIGCHLD, signal.SIGWINCH))
_FROM_A_PROCESS: Final = 0  # si_code: the terminal's own signals are the kernel's, and reach the job as well
# What Python ignores and other programs do not
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


class Job:
    """In our process group, with all that it inherits from us."""

    def __init__(self, command: Sequence[str], descriptors: Sequence[tuple[int, int]]) -> None:
        """Raises an OSError where the program cannot be started."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._before = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
        try:
            self.pid = self._start(command, descriptors)
        except OSError:
            self.unblock()
            raise

    def _start(self, command: Sequence[str], descriptors: Sequence[tuple[int, int]]) -> int:
        try:
            return self._spawn(command, descriptors)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                raise
            return self._spawn(["/bin/sh", *command], descriptors)  # a script that names no interpreter

    def _spawn(self, command: Sequence[str], descriptors: Sequence[tuple[int, int]]) -> int:
        return os.posix_spawnp(
            command[0],
            list(command),
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in descriptors],
            setsigmask=self._before,
            setsigdef=_IGNORED_BY_PYTHON,
        )

    def wait(self, tick: Callable[[], float], resized: Callable[[], None], sent: Callable[[str], None]) -> None:
        """Until it has ended. `tick` is called when its last answer, a moment of the monotonic clock, has come."""
        due = tick()
        while True:
            told = signal.sigtimedwait(_HEARD, max(0.0, due - time.monotonic()))
            if told is None:
                due = tick()
            elif told.si_signo == signal.SIGCHLD:
                if self._has_ended():
                    return
            elif told.si_signo == signal.SIGWINCH:
                resized()
                self._send(signal.SIGWINCH)
            else:
                self._pass_on(told, sent)

    def reap(self) -> None:
        """Afterwards nothing of it is left to look at."""
        os.waitpid(self.pid, 0)

    def peek(self) -> Outcome:
        """How it ended, while it can still be looked at."""
        told = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        if told is None or told.si_code == os.CLD_EXITED:
            return Outcome(status=told.si_status if told is not None else None)
        return Outcome(signal=told.si_status)

    def unblock(self) -> None:
        """From here on signals are ours again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._before)

    def _has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _pass_on(self, told: signal.struct_siginfo, sent: Callable[[str], None]) -> None:
        if told.si_code <= _FROM_A_PROCESS:
            self._send(told.si_signo)
            if told.si_signo != signal.SIGCONT:
                sent(signal.Signals(told.si_signo).name)
        if told.si_signo == signal.SIGTSTP:
            self._stop()

    @staticmethod
    def _stop() -> None:
        """As the job does, until the shell lets both go on."""
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])

    def _send(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(self.pid, number)


def end_as(outcome: Outcome) -> NoReturn:
    """End as the job did, so that whoever waits for us sees no difference."""
    if outcome.signal is None:
        os._exit(outcome.status or 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))  # the job has left one
    with suppress(OSError, ValueError):
        signal.signal(outcome.signal, signal.SIG_DFL)
    with suppress(OSError, ValueError):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [outcome.signal])
    os.kill(os.getpid(), outcome.signal)
    time.sleep(1)  # for a signal that does not end us at once
    os._exit(128 + outcome.signal)
