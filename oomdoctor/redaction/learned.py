"""A redactor that knows what the logs tell, of which a report or an excerpt quotes little."""

from __future__ import annotations

from collections.abc import Iterable

from oomdoctor.redaction.redactor import Redactor
from oomdoctor.sources import STDIN, Source, gather
from oomdoctor.streams import decode

MOST = 8 * 1024 * 1024  # bytes of all logs together: of each its share, half from its beginning, half from its end


def knowing(paths: Iterable[str], beside: Iterable[str] = ()) -> Redactor:
    """What these logs and the scripts and configurations beside them tell; a pipe is read once only, and not here."""
    redactor = Redactor()
    sources = gather([path for path in (*paths, *beside) if path != STDIN])[0]
    sources = [source for source in sources if source.path is not None and source.path.is_file()]
    for source in sources:
        redactor.learn_file(source.name)
        for piece in _ends(source, MOST // len(sources) // 2):
            redactor.learn(decode(piece))
    return redactor


def _ends(source: Source, most: int) -> Iterable[bytes]:
    head, tail = b"", b""
    for block in source.blocks():
        room = most - len(head)
        head += block[:room]
        tail = (tail + block[room:])[-most:]
    return head, tail
