"""Reads a pickle of plain containers, strings and numbers, and nothing else.

The standard library's reader runs what a pickle names, and takes memory by the numbers that stand in it. This one knows
the few opcodes that an allocator's snapshot consists of, from protocol 2 to 5, and refuses every other one. What takes
most of a snapshot, the rows of blocks and of the trace, goes to the tally when it is read, and is not kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from oomdoctor.language import mark, translated
from oomdoctor.snapshots.rows import Rows
from oomdoctor.snapshots.tally import ENTRY, Tally

LONGEST_TEXT: Final = 1024**2  # bytes of one string: paths of files and the settings are shorter
LONGEST_ROW: Final = 64 * 1024  # bytes of one row of a block or of the trace
BUFFER: Final = 8 * 1024**2
DEEPEST: Final = 16  # containers in containers: a snapshot's own are seven
MOST_ITEMS: Final = 8_000_000  # that wait for the end of their list
MOST_KEPT: Final = 1_000_000  # containers that are no rows
MOST_TEXT: Final = 128 * 1024**2  # bytes of all strings
MOST_PLACES: Final = 40_000_000  # of the memo
LARGEST_NUMBER: Final = 9  # bytes: addresses are of 64 bits, with or without a sign

# The allocator of pinned memory, since PyTorch 2.14: `_record_memory_history(record_pinned_host_memory=True)`.
OF_HOST: Final = frozenset({"host_segments", "host_traces"})

FOREIGN: Final = mark("a pickle that is not a PyTorch memory snapshot")
CODE: Final = mark("a pickle that names code to run, which a PyTorch memory snapshot never does; nothing of it was run")
SHORT: Final = mark("a PyTorch memory snapshot that breaks off")
LARGE: Final = mark("a pickle larger than any PyTorch memory snapshot that can be read")
DAMAGED: Final = mark("a damaged pickle")

# GLOBAL, STACK_GLOBAL, INST, OBJ, REDUCE, BUILD, NEWOBJ, NEWOBJ_EX, EXT1, EXT2, EXT4, PERSID, BINPERSID
NAMES_CODE: Final = frozenset(b"c\x93ioRb\x81\x92\x82\x83\x84PQ")


class RefusalError(Exception):
    """Why this is no snapshot; the message is a mark."""


class Machine:
    """The stack, the memo and what was read so far."""

    def __init__(self, tally: Tally) -> None:
        self.tally = tally
        self.stack: list[Any] = []
        self.marks: list[tuple[int, int]] = []  # how high the stack was, and the memo's last place then
        self.memo: list[Any] = []
        self.kept = 0
        self.text_bytes = 0
        self.done = False
        self._rows = Rows(tally, self.memo)

    def read(self, blocks: Iterator[bytes]) -> Any:
        """The pickle's one value."""
        data, ends = b"", False
        while not self.done:
            parts, size = [data], len(data)
            while size < BUFFER and not ends:
                block = next(blocks, None)
                ends = block is None
                parts.append(block or b"")
                size += len(parts[-1])
            data = b"".join(parts)
            try:
                data = data[self._run(data, len(data) if ends else len(data) - LONGEST_TEXT - LONGEST_ROW) :]
            except (IndexError, struct.error) as error:
                raise RefusalError(SHORT if ends else DAMAGED) from error
            except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise RefusalError(DAMAGED) from error
            if ends and not self.done:
                raise RefusalError(SHORT)
        return self.stack[0]

    def _run(self, data: bytes, end: int) -> int:
        """Carry out what begins before this place; returns where the next opcode stands."""
        at, take, entries, operations = 0, self._rows.take, self._rows.entries, _OPERATIONS
        stack = self.stack
        while at < end and not self.done:
            code = data[at]
            if code == _DICT:  # most of a snapshot are rows
                at, count = entries(data, at, end)
                if count:
                    stack += [ENTRY] * count
                    self._check_sizes()
                    continue
                row = take(data, at)
                if row is not None:
                    at, value = row
                    stack.append(value)
                    continue
            elif code == _LIST:
                listed = self._rows.frames(data, at)
                if listed is not None:
                    at, value = listed
                    stack.append(value)
                    continue
            operation = operations.get(code)
            if operation is None:
                raise RefusalError(CODE if code in NAMES_CODE else FOREIGN)
            at = operation(self, data, at + 1)
            self._check_sizes()
        return at

    def _check_sizes(self) -> None:
        if len(self.stack) > MOST_ITEMS or len(self.memo) > MOST_PLACES:
            raise RefusalError(LARGE)

    def keep(self) -> None:
        """Count a container that is kept."""
        self.kept += 1
        if self.kept > MOST_KEPT:
            raise RefusalError(LARGE)

    def put(self, place: int) -> None:
        """Remember what is on top. Whoever writes snapshots counts the places one by one."""
        if place != len(self.memo):
            raise RefusalError(FOREIGN)
        self.memo.append(self.stack[-1])

    def since_mark(self) -> tuple[list[Any], int]:
        """The items of the innermost container, and the memo's place of the container itself."""
        height, place = self.marks.pop()
        items = self.stack[height:]
        del self.stack[height:]
        return items, place


def _protocol(_: Machine, data: bytes, at: int) -> int:
    if not 2 <= data[at] <= 5:
        raise RefusalError(FOREIGN)
    return at + 1


def _frame(_: Machine, data: bytes, at: int) -> int:
    struct.unpack_from("<Q", data, at)
    return at + 8


def _mark(machine: Machine, _: bytes, at: int) -> int:
    if len(machine.marks) >= DEEPEST:
        raise RefusalError(FOREIGN)
    machine.marks.append((len(machine.stack), len(machine.memo) - 1))
    return at


def _empty(make: Callable[[], Any]) -> Operation:
    def push(machine: Machine, _: bytes, at: int) -> int:
        machine.keep()
        machine.stack.append(make())
        return at

    return push


def _constant(value: object) -> Operation:
    def push(machine: Machine, _: bytes, at: int) -> int:
        machine.stack.append(value)
        return at

    return push


def _number(form: str) -> Operation:
    layout = struct.Struct(form)

    def push(machine: Machine, data: bytes, at: int) -> int:
        machine.stack.append(layout.unpack_from(data, at)[0])
        return at + layout.size

    return push


def _long(machine: Machine, data: bytes, at: int) -> int:
    length = data[at]
    if length > LARGEST_NUMBER:
        raise RefusalError(FOREIGN)
    raw = data[at + 1 : at + 1 + length]
    if len(raw) < length:
        raise IndexError
    machine.stack.append(int.from_bytes(raw, "little", signed=True))
    return at + 1 + length


def _text(form: str) -> Operation:
    layout = struct.Struct(form)

    def push(machine: Machine, data: bytes, at: int) -> int:
        length: int = layout.unpack_from(data, at)[0]
        machine.text_bytes += length
        if length > LONGEST_TEXT or machine.text_bytes > MOST_TEXT:
            raise RefusalError(LARGE if machine.text_bytes > MOST_TEXT else FOREIGN)
        at += layout.size
        raw = data[at : at + length]
        if len(raw) < length:
            raise IndexError
        text = raw.decode("utf-8", "replace")
        if len(machine.marks) == 1:  # the name of one of the snapshot's parts
            machine.tally.is_of_host = text in OF_HOST
        machine.stack.append(text)
        return at + length

    return push


def _memoize(machine: Machine, _: bytes, at: int) -> int:
    machine.put(len(machine.memo))
    return at


def _put(form: str) -> Operation:
    layout = struct.Struct(form)

    def put(machine: Machine, data: bytes, at: int) -> int:
        machine.put(layout.unpack_from(data, at)[0])
        return at + layout.size

    return put


def _get(form: str) -> Operation:
    layout = struct.Struct(form)

    def push(machine: Machine, data: bytes, at: int) -> int:
        place = layout.unpack_from(data, at)[0]
        if place >= len(machine.memo):
            raise RefusalError(DAMAGED)
        machine.stack.append(machine.memo[place])
        return at + layout.size

    return push


def _append(machine: Machine, _: bytes, at: int) -> int:
    item = machine.stack.pop()
    _list_on_top(machine).append(item)
    return at


def _appends(machine: Machine, _: bytes, at: int) -> int:
    items = machine.since_mark()[0]
    _list_on_top(machine).extend(items)
    return at


def _list_on_top(machine: Machine) -> list[Any]:
    top = machine.stack[-1]
    if type(top) is not list:
        raise RefusalError(DAMAGED)
    return top


def _set_item(machine: Machine, _: bytes, at: int) -> int:
    value, key = machine.stack.pop(), machine.stack.pop()
    _fill(machine, [key, value], len(machine.memo) - 1)
    return at


def _set_items(machine: Machine, _: bytes, at: int) -> int:
    items, place = machine.since_mark()
    _fill(machine, items, place)
    return at


def _fill(machine: Machine, items: list[Any], place: int) -> None:
    """Fill the table on top; where it is a row it goes to the tally, and something small takes its place."""
    table = machine.stack[-1]
    if type(table) is not dict or len(items) % 2:
        raise RefusalError(DAMAGED)
    for key in items[::2]:
        if not isinstance(key, str | int):
            raise RefusalError(FOREIGN)
    table.update(zip(items[::2], items[1::2], strict=True))
    row = machine.tally.row(table)
    if row is None:
        return
    machine.stack[-1] = row
    machine.kept -= 1
    if place >= 0 and machine.memo[place] is table:
        machine.memo[place] = row


def _tuple(count: int) -> Operation:
    def push(machine: Machine, _: bytes, at: int) -> int:
        if len(machine.stack) < count:
            raise IndexError
        machine.keep()
        items = tuple(machine.stack[len(machine.stack) - count :])
        del machine.stack[len(machine.stack) - count :]
        machine.stack.append(items)
        return at

    return push


def _tuple_of_mark(machine: Machine, _: bytes, at: int) -> int:
    machine.keep()
    items = machine.since_mark()[0]
    machine.stack.append(tuple(items))
    return at


def _stop(machine: Machine, _: bytes, at: int) -> int:
    if len(machine.stack) != 1 or machine.marks:
        raise RefusalError(DAMAGED)
    machine.done = True
    return at


Operation = Callable[[Machine, bytes, int], int]
_DICT: Final = ord("}")
_LIST: Final = ord("]")
_OPERATIONS: Final[dict[int, Operation]] = {
    0x80: _protocol,
    0x95: _frame,
    ord("("): _mark,
    _DICT: _empty(dict),
    _LIST: _empty(list),
    ord(")"): _constant(()),
    ord("N"): _constant(None),
    0x88: _constant(True),
    0x89: _constant(False),
    ord("K"): _number("<B"),
    ord("M"): _number("<H"),
    ord("J"): _number("<i"),
    ord("G"): _number(">d"),
    0x8A: _long,
    0x8C: _text("<B"),
    ord("X"): _text("<I"),
    0x94: _memoize,
    ord("q"): _put("<B"),
    ord("r"): _put("<I"),
    ord("h"): _get("<B"),
    ord("j"): _get("<I"),
    ord("a"): _append,
    ord("e"): _appends,
    ord("s"): _set_item,
    ord("u"): _set_items,
    0x85: _tuple(1),
    0x86: _tuple(2),
    0x87: _tuple(3),
    ord("t"): _tuple_of_mark,
    ord("."): _stop,
}


def words(error: RefusalError) -> str:
    """The refusal, for a person."""
    return translated(str(error))
