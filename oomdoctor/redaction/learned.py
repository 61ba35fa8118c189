"""A redactor that knows what the logs tell, of which a report or an excerpt quotes little."""

from __future__ import annotations

from collections.abc import Iterable

from oomdoctor.redaction.redactor import Redactor
from oomdoctor.sources import STDIN, gather
from oomdoctor.streams import decode

MOST = 8 * 1024 * 1024  # bytes of all logs together: of each its share, half from its beginning, half from its end
MOST_BETWEEN = 1024 * 1024  # bytes of a log that is watched, between two reports


def knowing(paths: Iterable[str], beside: Iterable[str] = ()) -> Redactor:
    """What these logs and the scripts and configurations beside them tell; a pipe is read once only, and not here."""
    redactor = Redactor()
    sources = gather([path for path in (*paths, *beside) if path != STDIN])[0]
    sources = [source for source in sources if source.path is not None and source.path.is_file()]
    for source in sources:
        redactor.learn_file(source.name)
        ends = _Ends(MOST // len(sources) // 2)
        for block in source.blocks():
            ends.take(block)
        ends.learned_by(redactor)
    return redactor


class Listener:
    """A redactor that knows what a log tells while it is written: what stands between two reports, or its ends."""

    def __init__(self, name: str) -> None:
        self._redactor = Redactor()
        self._redactor.learn_file(name)
        self._ends = _Ends(MOST_BETWEEN // 2)

    def hear(self, block: bytes) -> None:
        self._ends.take(block)

    def redactor(self) -> Redactor:
        self._ends.learned_by(self._redactor)
        self._ends = _Ends(MOST_BETWEEN // 2)
        return self._redactor


class _Ends:
    """The first and the last bytes of what comes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._head, self._tail = b"", b""

    def take(self, block: bytes) -> None:
        room = self._most - len(self._head)
        self._head += block[:room]
        self._tail = (self._tail + block[room:])[-self._most :]

    def learned_by(self, redactor: Redactor) -> None:
        for piece in (self._head, self._tail):
            redactor.learn(decode(piece))
