"""Rows of blocks and of the trace, each taken by one pattern.

A snapshot repeats one shape a million times: a table with the same keys in the same order. The first row of a shape is
read opcode by opcode; from it a pattern is made that takes the next ones whole, twenty times as fast. A stack is a run
of references, and a run that was met before is not looked at again.

The patterns are no `late` ones, which would give bytes as long as these to another engine.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, Final

from oomdoctor.snapshots.model import Frame
from oomdoctor.snapshots.tally import ALLOCATION, NOTHING, RELEASE, Change, Stack, Tally, address_of, size_of

MOST_SHAPES: Final = 12
MOST_KNOWN: Final = 100_000
MOST_FAILED: Final = 1000  # rows that begin as a shape does and end otherwise

_MEMOIZED: Final = b"\x94"
_NUMBERED: Final = rb"(?:q.|r....)"
_PUT: Final = rb"(?:\x94|" + _NUMBERED + rb")"
_REF: Final = rb"(?:h.|j....)"
_SIZED: Final = rb"|".join(b"\\x%02x" % length + b"." * length for length in range(10))
_INT: Final = rb"(?:K.|M..|J....|\x8a(?:" + _SIZED + rb"))"
_SHORT: Final = rb"|".join(b"\\x%02x.{%d}" % (length, length) for length in range(49))
_WIDE: Final = rb"|".join(b"\\x%02x\x00{3}.{%d}" % (length, length) for length in range(49))
_TEXT: Final = rb"(?:\x8c(?:" + _SHORT + rb")|X(?:" + _WIDE + rb"))"
_LIST: Final = rb"\]" + _PUT + rb"?(?:\((?:h.|j....){0,1024}e|(?:h.|j....)a)?" + _PUT + rb"?"
_PAIR: Final = rb"(?:" + _INT + _INT + rb"\x86|\(" + _INT + _INT + rb"t)"
_PLAIN: Final = rb"(?:" + _REF + rb"|" + _INT + rb"|G.{8}|[N\x88\x89)])"
_PUTTING: Final = rb"(?:" + _TEXT + rb"|" + _PAIR + rb")"
_VALUE: Final = rb"(?:" + _PUTTING + _PUT + rb"?|" + _PLAIN + rb"|" + _LIST + rb")"
_TABLE: Final = re.compile(rb"\}(" + _PUT + rb"?)\(((?:" + _REF + _VALUE + rb"){2,24})u(" + _PUT + rb"?)", re.DOTALL)
_OWN: Final = re.compile(_PUTTING + rb"(" + _PUT + rb")", re.DOTALL)
_ITEM: Final = re.compile(rb"(" + _REF + rb")(" + _VALUE + rb")", re.DOTALL)
_FRAMES: Final = re.compile(rb"\](" + _PUT + rb"?)\(((?:h.|j....){1,1024}e)(" + _PUT + rb"?)", re.DOTALL)
_LISTED: Final = re.compile(
    rb"\](" + _PUT + rb")?(?:\(((?:h.|j....){0,1024}e)|((?:h.|j....)a))?(" + _PUT + rb")?", re.DOTALL
)
# A run: references and the opcode that ends them.
_REFERENCES: Final = re.compile(rb"(?:h.|j....){0,1024}[ae]", re.DOTALL)
# What may be a run. Most were met before; one that was not is asked after the match.
_RUN: Final = rb"((?=[hje])(?:[^e]{0,1024}e){1,6}?)"
_REFS: Final = re.compile(rb"h(.)|j(....)", re.DOTALL)

_NUMBERS: Final = frozenset({"addr", "address", "size", "requested_size", "device_free"})
_WORDS: Final = frozenset({"action", "state"})

Form = tuple[bytes, ...]  # how the put begins behind an entry's opening, each value and its end; b"" without one


class _Known(dict[bytes, Any]):
    """What bytes stand for, which many rows have."""

    def __init__(self, read: Callable[[bytes], Any]) -> None:
        self._read = read

    def __missing__(self, raw: bytes) -> Any:
        value = self._read(raw)
        if len(self) < MOST_KNOWN:
            self[raw] = value
        return value


class Shape:
    """The rows with these keys in this order."""

    def __init__(self, keys: Sequence[tuple[bytes, str]]) -> None:
        parts = []
        self.keys = keys
        self.is_of_trace = {"action", "addr", "size"} <= {name for _, name in keys}
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
    """Entries of the trace with these keys in this order, each of which fills the memo alike.

    Their frames are a reference, or a list of several or of one, or an empty one.
    """

    CELLS: Final = ("action", "addr", "size", "frames", "several", "one")

    def __init__(self, keys: Sequence[tuple[bytes, str]], form: Form) -> None:
        # CPython puts a container into the memo before its content, PyTorch's C++ behind it.
        put = _MEMOIZED if _MEMOIZED in form else _NUMBERED
        self._before, self._behind = (put, b"") if form[0] else (b"", put)
        parts: list[bytes] = []
        cells: list[str] = []
        for (raw, name), own in zip(keys, form[1:-1], strict=True):
            parts.append(re.escape(raw) + self._value(name, put if own else b""))
            cells += self.CELLS[3:] if name == "frames" else [name] if name in self.CELLS else []
        if "frames" not in cells:
            parts.append(rb"((?!))?" * 3)
            cells += self.CELLS[3:]
        head = rb"\}" + self._before + rb"\("
        self.begin = re.compile(head + re.escape(keys[0][0]), re.DOTALL)
        end = rb"u" + (put if form[-1] else b"")
        self.pattern = re.compile(head + rb"".join(parts) + end, re.DOTALL)
        self.cells = itemgetter(*(cells.index(name) for name in self.CELLS))
        self._fill([name for _, name in keys], form)
        self.taken = self.failed = 0

    def _value(self, name: str, put: bytes) -> bytes:
        if name == "frames":
            listed = rb"\(" + _RUN + rb"|(" + _REF + rb"a)"
            return rb"(?:(" + _REF + rb")|\]" + self._before + rb"(?:" + listed + rb")?" + self._behind + rb")"
        if name in self.CELLS:
            return rb"(" + (_REF if name == "action" else _INT) + rb")"
        return rb"(?:" + (_PUTTING + put if put else _PLAIN + rb"|" + _PUTTING) + rb")"

    def _fill(self, names: Sequence[str], form: Form) -> None:
        """What an entry adds to the memo, without its list of frames, before that, behind it, and with an empty one."""
        at = names.index("frames") + 1 if "frames" in names else len(form)
        self.places, self.places_before, self.places_behind = (
            [None for put in part if put] for part in (form, form[:at], form[at:])
        )
        self.places_of_empty = self.places + [None] * ("frames" in names)


class Rows:
    """Takes rows and lists of frames at a place of the pickle, where they have a known shape."""

    def __init__(self, tally: Tally, memo: list[Any]) -> None:
        self._tally = tally
        self._memo = memo
        self._shapes: list[Shape] = []
        self._traces: dict[tuple[Shape, tuple[bool, ...]], TraceShape] = {}
        self._actions = _Known(lambda raw: memo[_place(raw)])
        self._addresses = _Known(lambda raw: address_of(_integer(raw)))
        self._sizes = _Known(lambda raw: size_of(_integer(raw)))
        self._runs: dict[bytes, Stack] = {}
        self._end = 0

    def take(self, data: bytes, at: int) -> tuple[int, object] | None:
        """Where the row ends and what stands for it; None where what begins here is none."""
        for shape in self._shapes:
            match = shape.pattern.match(data, at)
            if match is not None:
                if shape.is_of_trace:
                    self._learn_trace(shape, match[0])
                return self._row(shape, match)
        self._learn(data, at)
        return None

    def entries(self, data: bytes, at: int, end: int) -> tuple[int, int]:
        """Where the entries of the trace that begin here end, and how many there are."""
        for shape in self._traces.values():
            if shape.failed > MOST_FAILED + shape.taken or not shape.begin.match(data, at):
                continue
            count = self._tally.take(self._entries(shape, data, at, end))
            if count:
                shape.taken += count
                return self._end, count
            shape.failed += 1
        return at, 0

    def _entries(self, shape: TraceShape, data: bytes, at: int, end: int) -> Iterator[Change]:
        """What these entries did, as far as they have the shape; `_end` is where the last of them ends."""
        memo, actions, addresses, sizes, runs = self._memo, self._actions, self._addresses, self._sizes, self._runs
        cells, places, of_empty = shape.cells, shape.places, shape.places_of_empty
        before, behind = shape.places_before, shape.places_behind
        taken = None
        scanner = shape.pattern.scanner(data, at, end)  # type: ignore[attr-defined]
        for found in iter(scanner.match, None):  # each begins where the one before ends
            action, address, size, ref, several, one = cells(found.groups())
            stack = None
            if ref:
                memo += places
            elif run := several or one:
                stack = runs.get(run) or self._new_stack(run)
                if stack is None:
                    break
                memo += before
                memo.append(stack)
                memo += behind
            else:
                memo += of_empty
            done = actions[action]
            if done == ALLOCATION:
                of = memo[_place(ref)] if ref else stack
                yield done, addresses[address], sizes[size], self._tally.number_of(of)
            elif done == RELEASE:
                yield done, addresses[address], sizes[size], -1
            else:
                yield NOTHING
            taken = found
        if taken is not None:
            self._end = taken.end()

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
        if self._shapes[-1].is_of_trace:
            self._learn_trace(self._shapes[-1], match[0])

    def _learn_trace(self, shape: Shape, row: bytes) -> None:
        """How this entry of the trace is written, for the next ones."""
        match = _TABLE.fullmatch(row)
        if match is None or len(self._traces) >= MOST_SHAPES:
            return
        owns = [
            name not in TraceShape.CELLS and _OWN.fullmatch(value)
            for (_, name), (_, value) in zip(shape.keys, _ITEM.findall(match[2]), strict=True)
        ]
        form = (match[1][:1], *(own[1][:1] if own else b"" for own in owns), match[3][:1])
        key = shape, tuple(bool(put) for put in form)
        if key not in self._traces:
            self._traces[key] = TraceShape(shape.keys, form)

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

    def _new_stack(self, run: bytes) -> Stack | None:
        """The stack of this run; None where it is none."""
        return self._stack(run) if _REFERENCES.fullmatch(run) else None

    def _stack(self, run: bytes) -> Stack:
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = self._tally.stack(run if len(run) > 1 else b"")
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
