"""LMCache: its host buffer for KV blocks is full. It usually goes on without storing; a failure behind it tells."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Lookalike, Read, Role, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.families.sentences import Sentence, count_of, counted_in, reader, values
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page


class Transfer(Event, frozen=True, kw_only=True):
    """What it brought from its store to the engine."""

    family = "lmcache"
    kind = "transfer"

    role: Role = "context"
    pool: str = "host_ram"
    stage: str = "serving"

    loaded_bytes: Usage[int | None] = None
    tokens: Usage[int | None] = None


class BufferFull(Event, frozen=True, kw_only=True):
    """Its host buffer has no room for another block of KV cache, and something failed of it."""

    family = "lmcache"
    kind = "buffer-full"
    once_a_log = True

    pool: str = "host_ram"
    stage: str = "serving"
    strength: int = 2

    tried_bytes: Usage[int | None] = None
    shape: str | None = None  # as printed
    dtype: str | None = None


_SENTENCES = (
    Sentence("Bytes loaded:", Transfer, needs="loaded_bytes"),
    Sentence("Injected token number:", Transfer, needs="tokens"),
    Sentence("Failed to allocate memory for tensor(", BufferFull),
    Sentence("Failed to allocate memory block of size", BufferFull),
)


_megabytes = counted_in(10**6)  # a block of 2**24 bytes is "16.7772 MBytes"


_CLAUSES = {
    "loaded": values(loaded_bytes=_megabytes),
    "injected": values(tokens=count_of),
    "block": values(tried_bytes=count_of),
    "shape": values(shape=str),
    "dtype": values(dtype=str),
}

_FAILED = late(r"Traceback \(most recent|\bERROR\b|\b\w{1,60}Error\b")
_RAISED = late(r"Error: Failed to allocate memory")
_BEHIND = 12  # lines
_GOES_ON = mark("LMCache's host buffer is full: new blocks are not stored, and nothing fails")

_read_sentences = reader("lmcache", _SENTENCES, _CLAUSES)


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    if "Failed to allocate memory for the KV cache" in line.text:
        yield Lookalike(place_of(page, line), _GOES_ON)
        return
    for found in _read_sentences(page, index):
        fatal = isinstance(found, Transfer) or _RAISED.search(line.text[:400]) or _fails_behind(page, index)
        yield found if fatal else Lookalike(found.at, _GOES_ON)


def _fails_behind(page: Page, index: int) -> bool:
    below = page.lines[index + 1 : index + 1 + _BEHIND]
    return any(line.mark.level == "ERROR" or _FAILED.search(line.text[:400]) for line in below)


FAMILY = Family(
    name="lmcache",
    anchors=("because no memory is available",),
    triggers=("Failed to allocate memory for the KV cache", *(sentence.head for sentence in _SENTENCES)),
    read=read,
)
