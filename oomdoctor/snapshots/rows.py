"""Rows of blocks and of the trace, each taken by one pattern.

A snapshot repeats one shape a million times: a table with the same keys in the same order. The first row of a shape is
read opcode by opcode; from it a pattern is made that takes the next ones whole, ten times as fast.

The patterns are no `late` ones, which would give bytes as long as these to another engine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from oomdoctor.snapshots.model import Frame
from oomdoctor.snapshots.tally import Stack, Tally

MOST_SHAPES: Final = 12
MOST_SIZES: Final = 100_000

_PUT: Final = rb"(?:\x94|q.|r.{4})"
_REF: Final = rb"(?:h.|j.{4})"
_SIZED: Final = rb"|".join(b"\\x%02x.{%d}" % (length, length) for length in range(10))
_INT: Final = rb"(?:K.|M..|J.{4}|\x8a(?:" + _SIZED + rb"))"
_SHORT: Final = rb"|".join(b"\\x%02x.{%d}" % (length, length) for length in range(49))
_WIDE: Final = rb"|".join(b"\\x%02x\x00{3}.{%d}" % (length, length) for length in range(49))
_TEXT: Final = rb"(?:\x8c(?:" + _SHORT + rb")|X(?:" + _WIDE + rb"))"
_LIST: Final = rb"\]" + _PUT + rb"?(?:\((?:h.|j.{4}){1,1024}e|(?:h.|j.{4})a)?" + _PUT + rb"?"
_PAIR: Final = rb"(?:" + _INT + _INT + rb"\x86|\(" + _INT + _INT + rb"t)"
_PLAIN: Final = rb"(?:" + _REF + rb"|" + _INT + rb"|G.{8}|[N\x88\x89)])"
_PUTTING: Final = rb"(?:" + _TEXT + rb"|" + _PAIR + rb")"
_VALUE: Final = rb"(?:" + _PUTTING + _PUT + rb"?|" + _PLAIN + rb"|" + _LIST + rb")"
_TABLE: Final = re.compile(rb"\}(" + _PUT + rb"?)\(((?:" + _REF + _VALUE + rb"){2,24})u(" + _PUT + rb"?)", re.DOTALL)
_ITEM: Final = re.compile(rb"(" + _REF + rb")(" + _VALUE + rb")", re.DOTALL)
_FRAMES: Final = re.compile(rb"\](" + _PUT + rb"?)\(((?:h.|j.{4}){1,1024})e(" + _PUT + rb"?)", re.DOTALL)
_LISTED: Final = re.compile(
    rb"\](" + _PUT + rb")?(?:\(((?:h.|j.{4}){1,1024})e|(h.|j.{4})a)?(" + _PUT + rb")?", re.DOTALL
)
_GROUPS_OF_FRAMES: Final = 1 + _LISTED.groups  # a reference, or a list
_REFS: Final = re.compile(rb"h(.)|j(.{4})", re.DOTALL)

_NUMBERS: Final = frozenset({"addr", "address", "size", "requested_size", "device_free"})
_WORDS: Final = frozenset({"action", "state"})


class Shape:
    """The rows with these keys in this order."""

    def __init__(self, keys: Sequence[tuple[bytes, str]]) -> None:
        parts = []
        self.names: list[str] = []  # of each group, "" of one that is only counted
        for raw, name in keys:
            wanted = (
                rb"(" + _INT + rb")" if name in _NUMBERS
                else rb"(" + _REF + rb")" if name in _WORDS
                else rb"(" + _REF + rb"|" + _LIST + rb")" if name == "frames"
                else rb"(?:" + _PLAIN + rb"|" + _PUTTING + rb"(" + _PUT + rb")?)"
            )  # fmt: skip
            self.names.append(name if name in _NUMBERS | _WORDS | {"frames"} else "")
            parts.append(re.escape(raw) + wanted)
        self.pattern = re.compile(rb"\}(" + _PUT + rb")?\(" + rb"".join(parts) + rb"u(" + _PUT + rb")?", re.DOTALL)


class TraceShape:
    """Entries of the trace with these keys in this order: groups of the pattern have fixed places."""

    WANTED: Final = ("action", "addr", "size", "frames")

    def __init__(self, keys: Sequence[tuple[bytes, str]]) -> None:
        parts, groups = [], 1
        self.place: dict[str, int] = {}
        for raw, name in keys:
            if name in self.WANTED:
                self.place[name] = groups
            parts.append(re.escape(raw) + self._value(name))
            groups += _GROUPS_OF_FRAMES if name == "frames" else 1
        self.pattern = re.compile(rb"\}(" + _PUT + rb")?\(" + rb"".join(parts) + rb"u(" + _PUT + rb")?", re.DOTALL)
        self.wanted_before_frames = sum(self.place[name] < self.place["frames"] for name in self.WANTED)

    @staticmethod
    def _value(name: str) -> bytes:
        if name == "frames":
            return rb"(?:(" + _REF + rb")|" + _LISTED.pattern + rb")"
        if name in TraceShape.WANTED:
            return rb"(" + (_REF if name == "action" else _INT) + rb")"
        return rb"(?:" + _PLAIN + rb"|" + _PUTTING + rb"(" + _PUT + rb")?)"


class Rows:
    """Takes rows and lists of frames at a place of the pickle, where they have a known shape."""

    def __init__(self, tally: Tally, memo: list[Any]) -> None:
        self._tally = tally
        self._memo = memo
        self._shapes: list[Shape] = []
        self._trace: TraceShape | None = None
        self._actions: dict[bytes, object] = {}
        self._sizes: dict[bytes, int] = {}
        self._runs: dict[bytes, Stack] = {}

    def take(self, data: bytes, at: int) -> tuple[int, object] | None:
        """Where the row ends and what stands for it; None where what begins here is none."""
        for shape in self._shapes:
            match = shape.pattern.match(data, at)
            if match is not None:
                return self._row(shape, match)
        self._learn(data, at)
        return None

    def entries(self, data: bytes, at: int, end: int) -> tuple[int, int]:  # noqa: C901  (a call less is a second less)
        """Where the entries of the trace that begin here end, and how many there are."""
        shape, tally, memo, runs, sizes = self._trace, self._tally, self._memo, self._runs, self._sizes
        if shape is None:
            return at, 0
        action, address, asked, frames = (shape.place[name] for name in TraceShape.WANTED)
        before_frames, behind = shape.wanted_before_frames, frames + _GROUPS_OF_FRAMES
        actions, allocation, release, from_bytes = self._actions, tally.allocation, tally.release, int.from_bytes
        new_stack = tally.stack
        first_entry = tally.entries
        scanner = shape.pattern.scanner(data, at)  # type: ignore[attr-defined]
        for found in iter(scanner.match, None):  # each begins where the one before ends
            groups = found.groups()
            ref, first, several, one, last = groups[frames:behind]
            puts = len(groups) - groups.count(None) - (4 if ref or several or one else 3)
            number = -1
            if ref:
                memo += [None] * puts
                number = tally.number_of(memo[from_bytes(ref[1:], "little")])
            else:
                run = several or one or b""
                stack = runs.get(run)
                if stack is None:
                    stack = runs[run] = new_stack(run)
                if run:
                    number = stack.number
                if first or last:
                    before = frames - groups[:frames].count(None) - before_frames
                    memo += [None] * before
                    memo.append(stack)
                    puts -= before + 1
                if puts:
                    memo += [None] * puts
            kind = actions.get(groups[action])
            if kind is None:
                kind = actions[groups[action]] = memo[_place(groups[action])]
            if kind == "alloc" or kind == "free_completed":
                raw = groups[address]
                place = from_bytes(raw[2:], "little", signed=True) if raw[0] == _LONG else _integer(raw)
                raw = groups[asked]
                size = sizes.get(raw)
                if size is None:
                    size = self._size(raw)
                if kind == "alloc":
                    allocation(place, size, number)
                else:
                    release(place, size)
            if tally.entries == tally.next_point:
                tally.point()
            tally.entries += 1
            at = found.end()
            if at >= end:
                break
        return at, tally.entries - first_entry

    def _size(self, raw: bytes) -> int:
        """A size, which many entries have."""
        size = _integer(raw)
        if len(self._sizes) < MOST_SIZES:
            self._sizes[raw] = size
        return size

    def frames(self, data: bytes, at: int) -> tuple[int, object] | None:
        """Where a list of frames ends, which were all met before."""
        match = _FRAMES.match(data, at)
        if match is None or not self._begins_with_a_frame(match[2]):
            return None
        stack = self._stack(match[2])
        self._memo += [stack] * _puts(match[1], match[3])
        return match.end(), stack

    def _learn(self, data: bytes, at: int) -> None:
        """The shape of the row that begins here, for the next ones."""
        if len(self._shapes) >= MOST_SHAPES:
            return
        match = _TABLE.match(data, at)
        if match is None:
            return
        keys = [(raw, self._memo[_place(raw)]) for raw, _ in _ITEM.findall(match[2]) if _place(raw) < len(self._memo)]
        names = [name for _, name in keys]
        if "size" not in names or not {"action", "state"} & set(names) or len(set(names)) < len(names):
            return
        self._shapes.append(Shape(keys))
        if self._trace is None and set(TraceShape.WANTED) <= set(names):
            self._trace = TraceShape(keys)

    def _row(self, shape: Shape, match: re.Match[bytes]) -> tuple[int, object]:
        memo = self._memo
        first, *values, last = match.groups()
        place = len(memo)
        if first:
            memo.append(None)
        row: dict[str, Any] = {}
        for name, raw in zip(shape.names, values, strict=True):
            if raw is None:
                continue
            if name in _NUMBERS:
                row[name] = _integer(raw)
            elif not name:
                memo.append(None)
            elif raw[0] == _OPEN:
                row[name] = self._listed(raw)
            else:
                row[name] = memo[_place(raw)]
        value = self._tally.row(row)
        if first:
            memo[place] = value
        if last:
            memo.append(value)
        return match.end(), value

    def _listed(self, raw: bytes) -> object:
        """The list of frames that stands in a row."""
        match = _LISTED.match(raw)
        first, several, one, last = match.groups() if match else (None, None, None, None)
        stack = self._stack(several or one or b"")
        self._memo += [stack] * _puts(first, last)
        return stack

    def _begins_with_a_frame(self, run: bytes) -> bool:
        one, four = _REFS.match(run).groups()  # type: ignore[union-attr]
        place = _number(one or four)
        return place < len(self._memo) and type(self._memo[place]) is Frame

    def _stack(self, run: bytes) -> Stack:
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = self._tally.stack(run)
        return known


def resolved(run: bytes, memo: Sequence[Any]) -> list[Any]:
    """What a run of references stands for."""
    return [memo[place] for one, four in _REFS.findall(run) if (place := _number(one or four)) < len(memo)]


_OPEN: Final = ord("]")


def _puts(*parts: bytes | None) -> int:
    return sum(1 for part in parts if part)


def _place(raw: bytes) -> int:
    return int.from_bytes(raw[1:], "little")


def _number(raw: bytes) -> int:
    return int.from_bytes(raw, "little")


def _integer(raw: bytes) -> int:
    kind = raw[0]
    if kind == _LONG:
        return int.from_bytes(raw[2:], "little", signed=True)
    return int.from_bytes(raw[1:], "little", signed=kind == _SIGNED)


_LONG: Final = 0x8A
_SIGNED: Final = ord("J")
