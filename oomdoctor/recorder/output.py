"""The job's output: left alone, read back from its file, or passed on by a process of its own that keeps a copy.

That process lives until the last writer closes the output, so what outlives the job can still print, and a recorder
that is killed takes no output with it.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import signal
import stat
import struct
import termios
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct

HEAD: Final = 256 * 1024  # kept of an output: its versions and settings,
TAIL: Final = 1024 * 1024  # and its last words
BLOCK: Final = 65536
PATIENCE_S: Final = 2.0  # for a reader that is slower than the job, which still gets everything
STREAMS: Final = (1, 2)
_COUNT: Final = struct.Struct("<Q")
_CUT: Final = b"\n[...]\n"
# What gone away looks like from the side that writes
_NOBODY_READS: Final = select.POLLERR | select.POLLHUP | select.POLLNVAL


class Written(Struct):
    """A file that the job writes itself, read back afterwards."""

    streams: tuple[int, ...]
    begin: int

    def text(self) -> bytes:
        """What was written to it since the job began."""
        try:
            with open(f"/proc/self/fd/{self.streams[0]}", "rb") as file:  # noqa: PTH123  (whatever name it has)
                size = os.fstat(file.fileno()).st_size
                begin = self.begin if self.begin <= size else 0  # cut meanwhile
                return _ends(file.fileno(), begin, size)
        except OSError:
            return b""


class Copy:
    """The first and the last bytes of an output, in memory that two processes share."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT.size + HEAD + TAIL)
        self._count = 0

    def add(self, block: bytes) -> None:
        head = block[: max(0, HEAD - self._count)]
        if head:
            at = _COUNT.size + self._count
            self._memory[at : at + len(head)] = head
        rest = block[len(head) :]
        at = (self._count + len(head) - HEAD) % TAIL if rest else 0
        first = rest[: TAIL - at]
        self._put(at, first)
        self._put(0, rest[len(first) :])
        self._count += len(block)
        self._memory[: _COUNT.size] = _COUNT.pack(self._count)

    def text(self) -> bytes:
        (count,) = _COUNT.unpack(self._memory[: _COUNT.size])
        head = self._memory[_COUNT.size : _COUNT.size + min(count, HEAD)]
        rest = count - len(head)
        if rest <= 0:
            return head
        ring = self._memory[_COUNT.size + HEAD :]
        if rest <= TAIL:
            return head + ring[:rest]
        at = rest % TAIL
        return head + _CUT + ring[at:] + ring[:at]

    def _put(self, at: int, block: bytes) -> None:
        if block:
            begin = _COUNT.size + HEAD + at
            self._memory[begin : begin + len(block)] = block


class Pump:
    """Passes on what the job writes to a pipe or a terminal."""

    def __init__(self, streams: tuple[int, ...]) -> None:
        self.streams = streams
        self.is_terminal = os.isatty(streams[0])
        self.copy = Copy()
        self._source, self.sink = _terminal(streams[0]) if self.is_terminal else os.pipe()
        self._asked, self._ask = os.pipe()
        self._told, self._tell = os.pipe()

    def start(self) -> None:
        """Before the job, and before any thread. Ctrl-C is for the job: its last words are passed on."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        if os.fork() == 0:
            try:
                self._run()
            finally:
                os._exit(0)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._close(self._asked, self._tell)
        if not self.is_terminal:
            self._close(self._source)

    def begun(self) -> None:
        """The job has its end of it; who else holds that keeps it open."""
        self._close(self.sink)

    def resize(self) -> None:
        """The terminal has another size now."""
        if self.is_terminal:
            with suppress(OSError):
                fcntl.ioctl(self._source, termios.TIOCSWINSZ, _window(self.streams[0]))

    def settle(self) -> None:
        """Wait until what the job wrote has arrived. What comes later arrives without us."""
        with suppress(OSError):
            os.write(self._ask, b"?")
            select.select([self._told], [], [], PATIENCE_S)

    def text(self) -> bytes:
        return self.copy.text()

    def _run(self) -> None:
        """In the process of its own: until nobody writes any more, or nobody reads."""
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        _leave({self._source, self._asked, self._tell, self.streams[0]})
        poll = select.poll()
        poll.register(self._source, select.POLLIN)
        poll.register(self._asked, select.POLLIN)
        poll.register(self.streams[0], 0)
        while True:
            ready = dict(poll.poll())
            if ready.get(self.streams[0], 0) & _NOBODY_READS:
                return
            if self._source in ready and not self._pass_on():
                return
            if self._asked in ready and self._source not in ready:
                with suppress(OSError):
                    os.write(self._tell, b"!")
                poll.unregister(self._asked)

    def _pass_on(self) -> bool:
        """Whether there may be more. A terminal whose writers are gone gives an error instead of an end."""
        try:
            block = os.read(self._source, BLOCK)
        except OSError:
            return False
        self.copy.add(block)
        rest = memoryview(block)
        try:
            while rest:
                rest = rest[_write(self.streams[0], rest) :]
        except OSError:
            return False
        return bool(block)

    @staticmethod
    def _close(*numbers: int) -> None:
        for number in numbers:
            with suppress(OSError):
                os.close(number)


Kept = Pump | Written


def kept() -> list[Kept]:
    """How each output of ours is kept; one that both streams share, once. What is nobody's to read is left alone."""
    groups: dict[tuple[int, int], list[int]] = {}
    for stream in STREAMS:
        with suppress(OSError):
            told = os.fstat(stream)
            groups.setdefault((told.st_dev, told.st_ino), []).append(stream)
    return [one for streams in groups.values() if (one := _kept(tuple(streams))) is not None]


def _kept(streams: tuple[int, ...]) -> Kept | None:
    mode = os.fstat(streams[0]).st_mode
    if stat.S_ISREG(mode):
        return Written(streams, os.fstat(streams[0]).st_size if _appends(streams[0]) else os.lseek(streams[0], 0, 1))
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(streams[0]):
        return Pump(streams)
    return None  # /dev/null


def descriptors(outputs: Sequence[Kept]) -> Iterator[tuple[int, int]]:
    """Which of its descriptors the job gets from us, and which of ours that is."""
    for output in outputs:
        if isinstance(output, Pump):
            for stream in output.streams:
                yield output.sink, stream


def _appends(stream: int) -> bool:
    return bool(fcntl.fcntl(stream, fcntl.F_GETFL) & os.O_APPEND)


def _terminal(like: int) -> tuple[int, int]:
    """A terminal like this one, of which only output is used: what is typed, Ctrl-C and Ctrl-Z stay with the real one.

    It does not turn line feeds into what a screen needs: the real one does.
    """
    source, sink = os.openpty()
    fcntl.ioctl(sink, termios.TIOCSWINSZ, _window(like))
    attributes = termios.tcgetattr(like)
    attributes[1] &= ~termios.OPOST
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(sink, termios.TCSANOW, attributes)
    return source, sink


def _window(stream: int) -> bytes:
    try:
        return fcntl.ioctl(stream, termios.TIOCGWINSZ, bytes(8))
    except OSError:
        return bytes(8)


def _write(stream: int, block: memoryview) -> int:
    try:
        return os.write(stream, block)
    except BlockingIOError:  # whoever started us left it so
        select.select([], [stream], [])
        return 0


def _leave(needed: set[int]) -> None:
    """Keep nothing else in use, neither a lock on a file nor the other end of another output."""
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208
        if number not in needed:
            with suppress(OSError):
                os.close(number)
    with suppress(OSError):
        os.chdir("/")


def _ends(file: int, begin: int, end: int) -> bytes:
    if end - begin <= HEAD + TAIL:
        return os.pread(file, end - begin, begin)
    return os.pread(file, HEAD, begin) + _CUT + os.pread(file, TAIL, end - TAIL)
