"""What kind of bytes a log is made of: text in one of its encodings, or no text at all."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.sources.trouble import PickleError, UnreadableError

SAMPLE = 64 * 1024
LONGEST_MAGIC = 512  # bytes: a tar archive's is its 258th to 262nd

PICKLE = mark("a pickle")
BINARIES: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (late(magic, re.DOTALL), what)
    for magic, what in (
        (rb"PK\x03\x04", mark("a zip archive without logs or in a pipe, or a PyTorch checkpoint")),
        (rb".{257}ustar", mark("a tar archive without logs or in a pipe: logs in it are read from a file")),
        (rb"7z\xbc\xaf\x27\x1c|Rar!\x1a\x07", mark("an archive: unpack it and give the folder")),
        (rb"\x04\x22\x4d\x18|\x1f\x9d", mark("compressed in a way that is not known here: unpack it first")),
        (rb"\x7fELF", mark("a program or a core dump")),
        (rb"\x80[\x02-\x05]", PICKLE),
        (rb".{7}\x00\{\"", mark("a safetensors file")),
        (rb"GGUF", mark("a model")),
        (rb"\x93NUMPY|\x89HDF|PAR1|ARROW1|Obj\x01|SQLite format 3\x00", mark("a data file")),
        (rb"\x89PNG|\xff\xd8\xff|GIF8|%PDF-|RIFF.{4}WEBP", mark("an image or a PDF")),
        (rb"LPKSHHRH", mark("a systemd journal: `journalctl --file FILE` prints it as text")),
    )
)

# Control characters that no log holds: all but \a \b \t \n \v \f \r and ESC. NUL has rules of its own.
_CONTROLS = bytes({*range(1, 32), 127} - {*range(7, 14), 27})
_MOST_CONTROLS = 0.05  # one byte in ten of random data is one of them

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def binary(head: bytes) -> str | None:
    """What the file is, if it is no text; `head` are its first bytes."""
    beginning = head[:LONGEST_MAGIC]
    for magic, what in BINARIES:
        if magic.match(beginning):
            return what
    sample = head[:SAMPLE].replace(b"\0", b"")
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    return mark("binary data") if controls > _MOST_CONTROLS * len(sample) else None


def encoding(head: bytes) -> tuple[str, int]:
    """The encoding of a text and the length of its byte order mark.

    "utf-8" stands for every superset of ASCII: the bytes pass as they are.
    """
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name, len(bom)
    sample = head[:SAMPLE]
    even, odd = sample[0::2], sample[1::2]
    # In UTF-16 every ASCII character has its NUL on the same side; blocks of NULs have them on both.
    if odd.count(0) > 0.3 * len(odd) and even.count(0) < 0.05 * len(even):
        return "utf-16-le", 0
    if even.count(0) > 0.3 * len(even) and odd.count(0) < 0.05 * len(odd):
        return "utf-16-be", 0
    return "utf-8", 0


def utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """The blocks of a text as UTF-8 or another superset of ASCII."""
    text = Text()
    for block in blocks:
        yield text.utf8(block)
    yield text.rest()


class Text:
    """A text whose first block says how it is written."""

    def __init__(self) -> None:
        self._begun = False
        self._decoder: codecs.IncrementalDecoder | None = None  # None where the bytes pass as they are

    def utf8(self, block: bytes) -> bytes:
        """The next block, as UTF-8 or another superset of ASCII."""
        if not self._begun:
            block = self._begin(block)
        return block if self._decoder is None else self._decoder.decode(block).encode("utf-8", "replace")

    def rest(self) -> bytes:
        """What a cut character at the end leaves."""
        return b"" if self._decoder is None else self._decoder.decode(b"", final=True).encode("utf-8", "replace")

    def _begin(self, head: bytes) -> bytes:
        what = binary(head)
        if what:
            kind = PickleError if what == PICKLE else UnreadableError
            raise kind(say("no log but {what}", what=translated(what)))
        name, begin = encoding(head)
        if name != "utf-8":
            self._decoder = codecs.getincrementaldecoder(name)(errors="replace")
        self._begun = True
        return head[begin:]
