"""Many or large logs in parcels, which are read on several cores and joined in their order.

Half of a scan counts lines and copies bytes with the interpreter's lock held, so that two threads measured no faster
than one: it takes processes. What travels back is what was read, not the log. How the logs are divided depends on
them alone, so that the same logs give the same report on every machine.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from oomdoctor.reading import Reading, Tell
from oomdoctor.sources import Source

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

FULL: Final = 32 * 1024**2  # bytes of one parcel; below it a process costs more than it saves
MOST_LOGS: Final = 500  # of one parcel: small logs take a millisecond each
MOST_PROCESSES: Final = 8
STEP: Final = 16 * 1024**2  # bytes between two reports of how far a process is
PATIENCE: Final = 0.2  # seconds between two calls of `tell`
_ENDING: Final = {signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])}

Parcel = list[Source]


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def read(sources: Sequence[Source], tell: Tell = lambda: None, processes: int | None = None) -> Reading:
    """What all these logs say; `tell` is called now and then, when their sizes say how much is read."""
    parcels = list(divide(sources))
    most = min(MOST_PROCESSES, cores() if processes is None else processes, len(parcels))
    readings = _by_others(parcels, tell, most) if most > 1 and _can_fork(sources) else _one_by_one(parcels, tell)
    whole = next(readings, None) or Reading()
    for reading in readings:
        whole.join(reading)
    return whole


def divide(sources: Sequence[Source]) -> Iterator[Parcel]:
    """The logs in their order, in parcels of about one size; a large log is a parcel of its own."""
    parcel: Parcel = []
    size = 0
    for source in sources:
        own = _size(source)
        if parcel and (size + own > FULL or len(parcel) == MOST_LOGS):
            yield parcel
            parcel, size = [], 0
        parcel.append(source)
        size += own
    if parcel:
        yield parcel


def _size(source: Source) -> int:
    try:
        return source.path.stat().st_size if source.path is not None else 0
    except OSError:
        return 0


def _read(parcel: Parcel, tell: Tell) -> Reading:
    reading = Reading()
    for source in parcel:
        reading.add(source, tell)
    return reading


def _one_by_one(parcels: Iterable[Parcel], tell: Tell) -> Iterator[Reading]:
    return (_read(parcel, tell) for parcel in parcels)


def _by_others(parcels: Sequence[Parcel], tell: Tell, most: int) -> Iterator[Reading]:
    """The readings in the order of the parcels, of which so many processes read one each."""
    from multiprocessing.connection import wait  # noqa: PLC0415  (few logs are large)

    waiting = deque(parcels)
    running: deque[_Reader] = deque()
    try:
        while waiting or running:
            while waiting and sum(not reader.done for reader in running) < most:
                running.append(_Reader(waiting.popleft(), [one.connection for one in running if not one.done]))
            if running[0].done:
                reader = running.popleft()
                yield _read(reader.parcel, tell) if reader.result is None else reader.result
                continue
            open_ones = {reader.connection: reader for reader in running if not reader.done}
            for ready in wait(list(open_ones), PATIENCE):
                open_ones[ready].receive()  # type: ignore[index]
            tell()
    finally:
        for reader in running:
            reader.close()


class _Reader:
    """One parcel that another process reads."""

    def __init__(self, parcel: Parcel, others: Sequence[Connection]) -> None:
        from multiprocessing import get_context  # noqa: PLC0415

        self.parcel = parcel
        self.result: Reading | None = None  # also once it is done, where it died
        self.done = False
        context = get_context("fork")
        self.connection, theirs = context.Pipe(duplex=False)
        ours = [*others, self.connection]
        self._process = context.Process(target=_run, args=(parcel, theirs, ours, os.getpid()), daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)  # until it is known which of the two is asked to end
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def receive(self) -> None:
        """Take what the process tells next: how far each log is, and at the end what it read."""
        try:
            told: Any = self.connection.recv()
        except (EOFError, OSError):
            self.close()
            return
        if isinstance(told, tuple):
            at, self.parcel[at].size = told
            return
        self.result, states = told
        for source, (size, troubles, notes) in zip(self.parcel, states, strict=True):
            source.size, source.troubles[:], source.notes[:] = size, troubles, notes
        self.close()

    def close(self) -> None:
        if self.done:
            return
        self.done = True
        self.connection.close()
        self._process.terminate()
        self._process.join()
        self._process.close()


def _run(parcel: Parcel, connection: Connection, ours: Sequence[Connection], parent: int) -> None:
    """What the other process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started us ends us
    for number in _ENDING - {signal.SIGINT}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    for one in ours:  # or the pipe would still have a reader when whoever started us is gone
        one.close()
    with suppress(Exception):  # who started us reads the parcel again, and meets it too
        reading = _read(parcel, _Teller(parcel, connection, parent))
        connection.send([reading, [(source.size, source.troubles, source.notes) for source in parcel]])


class _Teller:
    """Says how far the reading is, not too often, and ends it where nobody waits for it any more."""

    def __init__(self, parcel: Parcel, connection: Connection, parent: int) -> None:
        self._parcel = parcel
        self._connection = connection
        self._parent = parent
        self._at = 0
        self._told = 0

    def __call__(self) -> None:
        if os.getppid() != self._parent:
            os._exit(1)
        while self._at + 1 < len(self._parcel) and self._parcel[self._at + 1].size:
            self._connection.send((self._at, self._parcel[self._at].size))
            self._at += 1
            self._told = 0
        if self._parcel[self._at].size - self._told >= STEP:
            self._told = self._parcel[self._at].size
            self._connection.send((self._at, self._told))


def _can_fork(sources: Iterable[Source]) -> bool:
    """Whether a copy of this process can go on by itself: not one of a program with threads, and not on macOS.

    The logs of an archive come one after the other out of one open file.
    """
    alone = sys.platform == "linux" and threading.active_count() == 1
    return alone and all(source.part is None for source in sources)
