"""One pass over the bytes for literal anchors; out come the slices worth reading, with their first line's number.

The log passes in chunks of one size, whatever blocks it comes in, so that the same bytes give the same slices. Only
the chunks that an open window still needs are held: memory stays flat in the size of the log.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from itertools import chain

import ahocorasick_rs
from msgspec import Struct

Hit = tuple[int, int, bytes]  # where it begins and ends, from the beginning of the log, and its anchor

KIB = 1024
BEFORE = 64 * KIB  # of a hit: config dumps stand further off, the head of the log has them
AFTER = 32 * KIB  # the longest message, a kill with its table of processes in one cluster's banner, needs a tenth
HEAD = 64 * KIB  # versions, arguments and config dumps
IN_LINE = 16 * KIB  # of a hit in a line longer than BEFORE: nobody reads lines of any length
TAIL = 64 * KIB  # exit codes and the last progress lines
SMALL = 256 * KIB  # a log up to this size is one slice
LARGEST = 2048 * KIB  # where hits are dense, a window is cut into slices of about this size
CHUNK = 1024 * KIB  # stays in the processor's cache; larger than SMALL

_REACH = max(BEFORE, TAIL) + KIB  # how far back a hit in the next chunk, or the tail, may ask

# An anchor that stands everywhere in a log tells little by each of its hits. After this many bytes around one
# anchor's hits, they are read at growing distances and with less around them, and all of them again at the end. Where
# many anchors do, they share the distances, and few bytes are soon plenty.
PLENTY = 2048 * KIB
PLENTY_OF_ALL = 4096 * KIB
FEW = 256 * KIB
LEAST = 8 * KIB  # bytes that a hit counts for, however near the one before it stands
NEAR = 4 * KIB
DISTANCE = 64 * KIB
HITS_PER_DISTANCE = 32
# Of an anchor that tells of a figure, the line and those right above it say all: less of more places is read, and no
# more at the end than in between.
NEAR_A_FIGURE = KIB
DISTANCE_OF_FIGURES = 16 * KIB
LATE = 256 * KIB

# Beyond 64 literals the automaton loses its SIMD search and takes four times as long: several small ones are faster.
LITERALS = 48


class Slice(Struct, frozen=True):
    """A stretch of whole lines (only a line longer than a window is cut).

    Where a window is too large for one slice, its slices overlap, so that no message is cut; each says which lines
    are its own. What begins at another line is read from the slice before or after.
    """

    first_line: int
    data: bytes
    own_from: int = 1
    own_to: int = sys.maxsize  # exclusive

    def owns(self, line: int) -> bool:
        return self.own_from <= line < self.own_to

    @property
    def last_line(self) -> int:
        """The number of the line that the slice ends in; of the last slice, the number of lines of the log."""
        return self.first_line + self.data.count(b"\n") - self.data.endswith(b"\n")


class _Window(Struct):
    """A stretch of the log to hand out, in offsets from its beginning; it may reach beyond what is read so far."""

    start: int
    end: int
    first: int  # the hits in it begin and end here: these lines are kept whole
    last: int
    own_from: int = 1


def slices(
    blocks: Iterable[bytes],
    anchors: tuple[bytes, ...],
    *,
    ends: bool = True,
    left_out: Counter[bytes] | None = None,
    figures: Collection[bytes] = (),
    sparing: bool = False,
) -> Iterator[Slice]:
    """The stretches around the hits and, if `ends`, the head and the tail of the log.

    The last slice is then the tail of the log. A small log is one slice. `left_out` counts the hits that were not
    read because their anchor stands everywhere in this log; `figures` are the anchors that tell of a figure: if
    `sparing`, they are read from the beginning as if they stood everywhere.
    """
    chunks = _chunks(blocks)
    first = next(chunks, b"")
    if ends and len(first) <= SMALL:
        if first:
            yield Slice(1, first)
        return
    held = _Held()
    around = _Around(Counter() if left_out is None else left_out, frozenset(figures), sparing=sparing)
    window = _Window(0, HEAD, 0, 0) if ends else None
    for chunk, hits, size in _with_size(_searched(chain([first], chunks), anchors)):
        held.add(chunk)
        for near in around.hits(hits, size - LATE):
            if ends and near.end > size - TAIL:
                near.start, near.end = min(near.start, size - TAIL), size  # the tail is read whole
            near.start = max(near.start, held.given)
            if window is None:
                window = near
            elif near.start <= window.end:
                window.start = min(window.start, near.start)  # less is read before some hits than before others
                window.end, window.last = max(window.end, near.end), max(window.last, near.last)
            else:
                yield from held.pieces(window)
                window = near
        if window is not None and window.end <= held.end - _REACH:
            yield from held.pieces(window)
            window = None
        elif window is not None and held.end - window.start > LARGEST:
            piece, window = held.split(window)
            yield piece
        held.forget(held.end if window is None else window.start)
    yield from held.rest(window, ends=ends)


class _Around:
    """How much is read around each hit: less around those of an anchor that stands everywhere."""

    def __init__(self, left_out: Counter[bytes], figures: frozenset[bytes], *, sparing: bool) -> None:
        self._left_out = left_out
        self._figures = figures
        self._seen: dict[bytes, int] = {}  # where each anchor's latest hit begins
        self._spent: Counter[bytes] = Counter()  # bytes around its hits
        self._latest = -BEFORE - AFTER  # where the latest hit of any begins
        self._spent_on_all = 0
        # of an anchor that had plenty, where its next hit is worth reading
        self._next: dict[bytes, int] = dict.fromkeys(figures, 0) if sparing else {}
        self._thinned: Counter[bytes] = Counter()  # its hits read since

    def hits(self, hits: Iterable[Hit], late: int) -> Iterator[_Window]:
        """The windows to read; at this offset the end of the log begins."""
        following, left_out = self._next, self._left_out
        for start, end, anchor in hits:
            worth = following.get(anchor)
            if worth is None:
                self._spend(start, anchor)
                yield _Window(max(0, start - BEFORE), end + AFTER, start, end)
            elif start >= worth or (start >= late and anchor not in self._figures):
                following[anchor] = start + self._distance(anchor)
                before = NEAR_A_FIGURE if anchor in self._figures else NEAR
                yield _Window(max(0, start - before), end + before, start, end)
            else:
                left_out[anchor] += 1

    def _spend(self, start: int, anchor: bytes) -> None:
        window = BEFORE + AFTER
        self._spent[anchor] += max(LEAST, min(window, start - self._seen.get(anchor, -window)))
        self._spent_on_all += min(window, start - self._latest)
        self._seen[anchor] = self._latest = start
        if self._spent[anchor] >= (PLENTY if self._spent_on_all < PLENTY_OF_ALL else FEW):
            self._next[anchor] = start

    def _distance(self, anchor: bytes) -> int:
        doubled: int = 2 ** (self._thinned[anchor] // HITS_PER_DISTANCE)
        self._thinned[anchor] += len(self._next)
        return doubled * (DISTANCE_OF_FIGURES if anchor in self._figures else DISTANCE)


def _chunks(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes in chunks of one size; only the last one may be shorter."""
    waiting: list[bytes] = []
    missing = CHUNK
    for block in blocks:
        at = 0
        while len(block) - at >= missing:
            waiting.append(block[at : at + missing])
            yield b"".join(waiting) if len(waiting) > 1 else waiting[0]
            at += missing
            waiting.clear()
            missing = CHUNK
        if at < len(block):
            waiting.append(block[at:])
            missing -= len(block) - at
    if waiting:
        yield b"".join(waiting)


def _searched(chunks: Iterable[bytes], anchors: tuple[bytes, ...]) -> Iterator[tuple[bytes, list[Hit]]]:
    """Each chunk with the hits that end in it, in their order."""
    automata = _automata(anchors)
    overlap = max(map(len, anchors), default=1) - 1
    at = 0
    before = b""
    for chunk in chunks:
        seam = before + chunk[:overlap]
        border = len(before)
        hits = [
            (at - border + start, at - border + end, group[index])
            for automaton, group in automata
            for index, start, end in automaton.find_matches_as_indexes(seam)
            if start < border < end
        ]
        for automaton, group in automata:
            found = automaton.find_matches_as_indexes(chunk)
            hits += [(at + start, at + end, group[index]) for index, start, end in found]
        yield chunk, sorted(hits)
        at += len(chunk)
        before = (before + chunk[-overlap:])[-overlap:] if overlap else b""


def _with_size(searched: Iterable[tuple[bytes, list[Hit]]]) -> Iterator[tuple[bytes, list[Hit], int]]:
    """Each chunk with its hits and the size of the log: known of the last chunks only, which hold its end."""
    waiting: deque[tuple[bytes, list[Hit]]] = deque()
    size = 0
    for chunk, hits in searched:
        size += len(chunk)
        waiting.append((chunk, hits))
        if len(waiting) > 2:  # the very last may hold a few bytes only
            yield *waiting.popleft(), sys.maxsize
    for chunk, hits in waiting:
        yield chunk, hits, size


@cache
def _automata(anchors: tuple[bytes, ...]) -> list[tuple[ahocorasick_rs.BytesAhoCorasick, tuple[bytes, ...]]]:
    number = -(-len(anchors) // LITERALS)
    in_order = tuple(sorted(anchors))  # what begins alike searches faster together
    groups = [in_order[len(anchors) * n // number : len(anchors) * (n + 1) // number] for n in range(number)]
    # Only the leftmost kinds switch on the SIMD search.
    kind = ahocorasick_rs.MatchKind.LeftmostLongest
    return [(ahocorasick_rs.BytesAhoCorasick(group, matchkind=kind), group) for group in groups]


class _Held:
    """The chunks that may still be handed out."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[int, int, bytes]] = deque()  # offset, line breaks before it, bytes
        self._breaks = 0  # line breaks in all chunks so far
        self.end = 0
        self.given = 0  # up to where slices were cut

    def add(self, chunk: bytes) -> None:
        self._chunks.append((self.end, self._breaks, chunk))
        self._breaks += _breaks(chunk)
        self.end += len(chunk)

    def forget(self, before: int) -> None:
        """Let go what lies before the offset, except for what the line there, a later hit or the tail may ask for."""
        before = min(before - IN_LINE, self.end - _REACH)
        while self._chunks and self._chunks[0][0] + len(self._chunks[0][2]) <= before:
            self._chunks.popleft()

    def rest(self, window: _Window | None, *, ends: bool) -> Iterator[Slice]:
        """What is left at the end of the log: the open window and the tail."""
        if ends:
            tail = _Window(max(0, self.end - TAIL), self.end, self.end, self.end)
            if window is None:
                window = tail
            elif tail.start <= window.end:
                window.end = window.last = self.end
            else:
                yield from self.pieces(window)
                window = tail
        if window is not None:
            yield from self.pieces(window)

    def pieces(self, window: _Window) -> Iterator[Slice]:
        """A window that grows no more, in slices of bounded size."""
        while min(window.end, self.end) - window.start > LARGEST:
            piece, window = self.split(window)
            yield piece
        yield self._cut(window)

    def split(self, window: _Window) -> tuple[Slice, _Window]:
        """The first slice of a window that is too large for one, and the window that goes on from there.

        The last AFTER bytes of the slice are the next one's own: a message that begins there may not be whole here.
        """
        start, end = window.start, min(window.start + LARGEST + CHUNK, window.end, self.end)
        border = self._bytes(start, end).rfind(b"\n", BEFORE, end - AFTER - start) + 1
        if not border:  # one huge line: cut it where it stands
            here = _Window(start, end, window.first, end, window.own_from)
            return self._cut(here), _Window(end, window.end, end, max(window.last, end), window.own_from)
        at = start + border
        own_to = self._line(at)
        here = _Window(start, end, window.first, max(at, end - AFTER), window.own_from)
        return self._cut(here, own_to), _Window(at - BEFORE, window.end, at, max(window.last, at), own_to)

    def _cut(self, window: _Window, own_to: int = sys.maxsize) -> Slice:
        """The window as a slice, its ends moved inwards to the ends of lines."""
        start, end = self._with_own_line(window), min(window.end, self.end)
        data = self._bytes(start, end)
        skipped = 0 if self._begins_a_line(start) else _line_start(data, window.first - start)
        kept = _line_end(data, max(window.last - start, skipped)) if end < self.end else len(data)
        self.given = start + kept
        return Slice(self._line(start + skipped), data[skipped:kept], window.own_from, own_to)

    def _begins_a_line(self, at: int) -> bool:
        return at == 0 or self._bytes(at - 1, at) == b"\n"

    def _with_own_line(self, window: _Window) -> int:
        """Where to begin, so that the line of the first hit is whole if it is longer than what is read before it."""
        start = window.start
        if window.first - start > NEAR or b"\n" in self._bytes(start, window.first):
            return start
        least = max(self.given, window.first - IN_LINE)
        return least + self._bytes(least, start).rfind(b"\n") + 1 if least < start else start

    def _bytes(self, start: int, end: int) -> bytes:
        parts = []
        for offset, _, chunk in self._chunks:
            if offset < end and offset + len(chunk) > start:
                parts.append(chunk[max(0, start - offset) : end - offset])
        return b"".join(parts)

    def _line(self, at: int) -> int:
        """The number of the line that the offset lies in."""
        for offset, breaks, chunk in self._chunks:
            if offset <= at <= offset + len(chunk):
                return 1 + breaks + chunk.count(b"\n", 0, at - offset)
        return 1 + self._breaks


def _breaks(chunk: bytes) -> int:
    """How many line breaks it holds. `replace` finds them as memchr does, `count` looks at each byte: it takes twice as
    long where lines are of 80 bytes, and as long where they are of 35."""
    return len(chunk) - len(chunk.replace(b"\n", b""))


def _line_start(data: bytes, hit: int) -> int:
    """Where the first whole line before the hit begins; in a huge line, a rewrite or a word before it.

    The end of a huge line may be the last that the progress bar said before the hit.
    """
    whole = data.find(b"\n", 0, min(hit, BEFORE // 2)) + 1
    if whole:
        return whole
    own = data.rfind(b"\n", 0, hit) + 1  # where the hit's own line begins: it is never cut
    least = 0 if own else max(0, hit - IN_LINE)
    for border in (b"\r", b" "):
        found = data.find(border, least, own or hit)
        if found >= 0:
            return found + 1
    return least


def _line_end(data: bytes, least: int) -> int:
    """Where the last whole line behind the least offset ends; in a huge line, the last rewrite or word."""
    for border in (b"\n", b"\r", b" "):
        found = data.rfind(border, least)
        if found >= 0:
            return found + 1
    return len(data)
