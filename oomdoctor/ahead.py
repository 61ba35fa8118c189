"""Large logs scanned on several cores: while one is read, processes scan the next ones.

Half of a scan counts lines and copies bytes with the interpreter's lock held, so that two threads measured no faster
than one. What travels back are the slices worth reading, which are few. How far a process gets ahead is bounded.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from oomdoctor.language import say
from oomdoctor.scan import Slice
from oomdoctor.sources import Source, Trouble

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

LARGE: Final = 32 * 1024**2  # bytes; below it a process costs more than it saves
MOST_PROCESSES: Final = 8
WAITING: Final = 4  # slices of one log that wait to be read; the largest have three megabytes
TOLD_EVERY: Final = 16 * 1024**2  # bytes between two reports of how far a process is
PATIENCE: Final = 0.2  # seconds between two calls of `tell`
_ENDING: Final = {signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}

Tell = Callable[[], None]
Work = Callable[[Source, Tell], Iterator[Slice]]  # it calls the second as it gets on


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def scanned(
    sources: Sequence[Source], work: Work, tell: Tell, processes: int | None = None
) -> Iterator[tuple[Source, Iterator[Slice]]]:
    """What `work` gives for each log, in their order; large ones are begun before their turn.

    `tell` is called now and then, when the sizes of the logs say how much is read.
    """
    most = min(MOST_PROCESSES, (cores() if processes is None else processes) if _can_fork() else 1)
    ahead = deque(source for source in sources if most > 1 and _is_large(source))
    if len(ahead) < 2:
        ahead.clear()
    running: dict[int, _Scan] = {}
    try:
        for source in sources:
            while ahead and len(running) < most:
                large = ahead.popleft()
                running[id(large)] = _Scan(large, work, [scan.connection for scan in running.values()])
            mine = running.get(id(source))
            yield source, work(source, tell) if mine is None else _taken(mine, running, tell)
            if mine is not None:
                mine.close()
                del running[id(source)]
    finally:
        for scan in running.values():
            scan.close()


def _taken(mine: _Scan, running: dict[int, _Scan], tell: Tell) -> Iterator[Slice]:
    """The slices of one scan; meanwhile the others are kept going."""
    from multiprocessing.connection import wait  # noqa: PLC0415  (few logs are large)

    while True:
        while mine.slices:
            yield mine.slices.popleft()
        if mine.done:
            return
        open_ones = {scan.connection: scan for scan in running.values() if scan.wants_more or scan is mine}
        for ready in wait(list(open_ones), PATIENCE):
            open_ones[ready].receive()  # type: ignore[index]
        tell()


class _Scan:
    """One log that another process scans."""

    def __init__(self, source: Source, work: Work, others: Sequence[Connection]) -> None:
        from multiprocessing import get_context  # noqa: PLC0415  (few logs are large)

        self._source = source
        self.slices: deque[Slice] = deque()
        self.done = False
        context = get_context("fork")
        self.connection, theirs = context.Pipe(duplex=False)
        ours = [*others, self.connection]
        self._process = context.Process(target=_run, args=(source, work, theirs, ours), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until it is known which of the two is asked to end
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    @property
    def wants_more(self) -> bool:
        return not self.done and len(self.slices) < WAITING

    def receive(self) -> None:
        """Take what the process tells next."""
        try:
            told: Any = self.connection.recv()
        except (EOFError, OSError):
            self.done = True
            self._source.troubles.append(
                Trouble(self._source.name, say("the process that scanned it has died: read only that far"))
            )
            return
        if isinstance(told, Slice):
            self.slices.append(told)
            return
        self._source.size, *rest = told
        if rest:
            troubles, notes = rest
            self._source.troubles[:] = [Trouble(file, why) for file, why in troubles]
            self._source.notes[:] = notes
            self.done = True

    def close(self) -> None:
        self.connection.close()
        self._process.terminate()
        self._process.join()
        self._process.close()


def _run(source: Source, work: Work, connection: Connection, ours: Sequence[Connection]) -> None:
    """What the other process does: the slices, how far it is, and at the end what was wrong with the log."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    for number in _ENDING - {signal.SIGINT}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    for one in ours:  # or the pipe would still have a reader when whoever started us is gone
        one.close()
    with suppress(BrokenPipeError):
        for piece in work(source, _Teller(source, connection)):
            connection.send(piece)
        troubles = [(trouble.file, trouble.why) for trouble in source.troubles]
        connection.send((source.size, troubles, source.notes))


class _Teller:
    """Says how far the scan is, not too often."""

    def __init__(self, source: Source, connection: Connection) -> None:
        self._source = source
        self._connection = connection
        self._told = 0

    def __call__(self) -> None:
        if self._source.size - self._told >= TOLD_EVERY:
            self._told = self._source.size
            self._connection.send((self._told,))


def _can_fork() -> bool:
    """Whether a copy of this process can go on by itself: not one of a program with threads, and not on macOS."""
    return sys.platform == "linux" and threading.active_count() == 1


def _is_large(source: Source) -> bool:
    """Whether it is a file of its own that is worth a process: the logs of an archive come one after the other."""
    if source.path is None or source.part is not None:
        return False
    try:
        known = source.path.stat()
    except OSError:
        return False
    return known.st_size >= LARGE
