"""The reader of pickles: what it reads, what it refuses, and that nothing of what it refuses runs."""

from __future__ import annotations

import io
import os
import pickle
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from snapshot_maker import FORWARD, GIB, STATES, WEIGHTS, Allocator, dumped, filled, steps

from oomdoctor.snapshots import machine, reading, rows
from oomdoctor.snapshots.machine import CODE, DAMAGED, FOREIGN, LARGE, SHORT, Machine, RefusalError
from oomdoctor.snapshots.model import Account
from oomdoctor.snapshots.rows import Rows, TraceShape
from oomdoctor.snapshots.tally import Change, Tally

RELEASES = [(2, 0), (2, 1), (2, 2), (2, 5), (2, 8), (2, 10), (2, 13), (2, 14)]


def blocks(data: bytes, size: int = 64 * 1024) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def read(data: bytes, size: int = 64 * 1024) -> tuple[Account, ...]:
    return reading.read(blocks(data, size))


def why(data: bytes) -> str:
    with pytest.raises(RefusalError) as caught:
        read(data)
    return str(caught.value)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("protocol", [0, 2, 3, 4, 5])
def test_all_releases_and_protocols_say_the_same(release: tuple[int, int], protocol: int) -> None:
    def made() -> Allocator:
        return filled(
            [(WEIGHTS, GIB, 3), (STATES, GIB, 5), (FORWARD, GIB // 2, 300)],
            request=2 * GIB, free=GIB // 4, holes=[GIB // 8] * 5, release=release,
        )  # fmt: skip

    (found,) = read(dumped(made(), protocol))
    assert {one.holder: (one.bytes, one.blocks) for one in found.holdings} == {
        "parameters": (3 * GIB, 3),
        "optimizer states": (5 * GIB, 5),
        "activations": (150 * GIB, 300),
    }
    assert found.refusal is not None
    assert (found.refusal.bytes, found.refusal.device_free, found.refusal.holder) == (2 * GIB, GIB // 4, "activations")
    assert found.room is not None
    assert (found.room.bytes, found.room.largest, found.room.pieces) == (5 * GIB // 8, GIB // 8, 5)
    assert (found.reserved, found.allocated, found.free) == (158 * GIB + 5 * GIB // 8, 158 * GIB, 5 * GIB // 8)


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("kind", [filled, steps])
def test_rows_taken_whole_say_what_rows_taken_apart_say(
    protocol: int, kind: Callable[..., Allocator], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = dumped(filled([(WEIGHTS, GIB, 40)], request=GIB) if kind is filled else steps(30, leak=GIB // 8), protocol)
    fast = read(data)
    monkeypatch.setattr(Rows, "take", lambda *_: None)
    monkeypatch.setattr(Rows, "entries", lambda _self, _data, at, _end: (at, 0))
    monkeypatch.setattr(Rows, "frames", lambda *_: None)
    assert read(data) == fast


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("release", RELEASES)
def test_almost_all_rows_are_taken_whole(
    release: tuple[int, int], protocol: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    apart: list[dict[str, Any]] = []
    row = Tally.row

    def counted(tally: Tally, table: dict[Any, Any]) -> object | None:
        apart.append(table)
        return row(tally, table)

    monkeypatch.setattr(Tally, "row", counted)
    for context in (FORWARD, WEIGHTS[:1], ()):
        allocator = Allocator(release)
        for number in range(400):
            allocator.take(number * GIB, GIB + number % 40, context)
            allocator.give(number * GIB, GIB)
        if not context:
            for entry in allocator.trace:
                del entry["frames"]
        (found,) = read(dumped(allocator, protocol))
        assert found.entries == 1200
    assert len(apart) < 150


def test_a_row_whose_references_have_the_byte_of_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memo's places from 0x6500 on are written with the opcode that ends a list."""
    snapshot = steps(30, leak=GIB // 8).snapshot()
    for first in (0x6500 - 60, 0x656565 % 0x6600):
        data = pickle.dumps({"names": [f"name {number}" for number in range(first)], **snapshot})
        fast = read(data)
        with monkeypatch.context() as patched:
            patched.setattr(Rows, "entries", lambda _self, _data, at, _end: (at, 0))
            assert read(data) == fast


@pytest.mark.parametrize("apart", [1, 100, 600, 1000, 3000])
def test_a_row_without_an_end_is_given_up_soon(apart: int) -> None:
    """What may be references could be searched for its end over megabytes, for each row anew."""
    keys = [(b"h\x05", "action"), (b"h\x06", "addr"), (b"h\x07", "size"), (b"h\x08", "frames")]
    shape = TraceShape(keys, (b"\x94", *[b""] * 5))
    row = b"}\x94(h\x05h\x09h\x06K\x01h\x07K\x02h\x08]\x94(h\x0ae"
    assert shape.pattern.match(row + b"u") is not None
    data = row + (b"\x01" * apart + b"e") * (4 * 1024**2 // apart)
    begin = time.process_time()
    assert not any(shape.pattern.match(data) for _ in range(1000))
    assert time.process_time() - begin < 1


def test_a_shape_that_most_rows_only_begin_as_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST_FAILED", 10)
    allocator = filled([(WEIGHTS, GIB, 20)])
    for number in range(100):  # a text longer than those that are taken whole
        allocator.entry("alloc", GIB, FORWARD, addr=number * GIB)["user_metadata"] = f"{number:60}"
    data = dumped(allocator)
    begun = []
    entries = Rows._entries

    def counted(self: Rows, shape: TraceShape, data: bytes, at: int, end: int) -> Iterator[Change]:
        begun.append(at)
        return entries(self, shape, data, at, end)

    monkeypatch.setattr(Rows, "_entries", counted)
    assert read(data)[0].entries == 120
    assert len(begun) < 60


def test_pinned_memory_is_no_memory_of_the_gpu() -> None:
    """PyTorch 2.14 can record it, too; wherever its parts stand."""
    snapshot = filled([(WEIGHTS, GIB, 3)], request=GIB, release=(2, 14)).snapshot()
    parts = list(snapshot.items())
    plain = read(pickle.dumps({name: part for name, part in parts if not name.startswith("host")}))
    assert plain[0].reserved == 3 * GIB
    for ordered in (parts, parts[::-1], [*parts[-2:], *parts[:-2]]):
        assert read(pickle.dumps(dict(ordered))) == plain


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_blocks_of_any_size_are_one_pickle(size: int) -> None:
    data = dumped(filled([(WEIGHTS, GIB, 3)], request=GIB))
    assert read(data, size) == read(data)


def test_a_buffer_ends_within_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    data = dumped(steps(40, leak=GIB // 8))
    whole = read(data)
    monkeypatch.setattr(machine, "LONGEST_TEXT", 500)
    monkeypatch.setattr(machine, "LONGEST_ROW", 2000)
    for size in (4_000, 4_001, 5_555):
        monkeypatch.setattr(machine, "BUFFER", size)
        assert read(data, 100) == whole


def test_the_list_of_segments_alone_is_read() -> None:
    snapshot = filled([(WEIGHTS, GIB, 3)]).snapshot()
    (found,) = read(pickle.dumps(snapshot["segments"]))
    assert found.reserved == 3 * GIB
    assert found.entries == 0


def test_unknown_actions_and_keys_are_skipped() -> None:
    allocator = filled([(WEIGHTS, GIB, 3)])
    allocator.entry("user_defined", 0, category="x")
    allocator.entry("workspace_snapshot", 5)
    snapshot = {**allocator.snapshot(), "later": [{"of": (1, None, True, 2.5)}]}
    assert read(pickle.dumps(snapshot))[0].entries == 5


def test_addresses_of_64_bits() -> None:
    allocator = Allocator()
    segment = allocator.segment(GIB)
    segment["address"] = 2**63 + 512
    allocator.take(2**63 + 512, GIB, FORWARD)
    allocator.block(segment, GIB, FORWARD)
    assert read(dumped(allocator))[0].holdings[0].bytes == GIB


class Exploit:
    """What a pickle runs when the standard library reads it."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.mark}",)


class WithState:
    def __init__(self, value: object) -> None:
        self.value = value


def test_an_exploit_is_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "owned"
    for protocol in range(2, 6):
        for value in (
            Exploit(mark),
            {"segments": [Exploit(mark)], "device_traces": []},
            {"segments": [], "device_traces": [[{"action": "alloc", "addr": 1, "size": Exploit(mark)}]]},
            WithState(WithState(Exploit(mark))),
        ):
            assert why(pickle.dumps(value, protocol)) == CODE
    assert not mark.exists()
    if sys.platform != "win32":  # the exploit is one
        pickle.loads(pickle.dumps(Exploit(mark)))
        assert mark.exists()


@pytest.mark.parametrize(
    "pickled",
    [
        b"\x80\x02cos\nsystem\n(X\x02\x00\x00\x00idtR.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x02(X\x02\x00\x00\x00idios\nsystem\n.",
        b"\x80\x02(cos\nsystem\nX\x02\x00\x00\x00ido.",
        b"\x80\x02}}b.",
        b"\x80\x02))\x81.",
        b"\x80\x04)))\x92.",
        b"\x80\x02\x82\x01.",
        b"\x80\x02\x83\x01\x00.",
        b"\x80\x02\x84\x01\x00\x00\x00.",
        b"\x80\x02Pid\n.",
        b"\x80\x02K\x00Q.",
    ],
)
def test_every_opcode_that_names_code_is_refused(pickled: bytes) -> None:
    assert why(pickled) == CODE


@pytest.mark.parametrize(
    "value",
    [{"a": 1}, [1, 2], "text", None, 3, {"segments": 3}, {"segments": [1], "device_traces": []}, [[]], {}, [],
     {"segments": [], "device_traces": []}, {"device_traces": {"a": 1}}, {"segments": [{"a": 1}]}, b"bytes", {1, 2},
     {"device_traces": [[{"action": "alloc", "addr": 1, "size": -5}]]},
     {"device_traces": [[{"action": "alloc", "addr": "x", "size": 5}]]},
     {"segments": [{"total_size": 5, "blocks": [3]}]},
     {"segments": [{"total_size": 5, "blocks": 3}]}],
)  # fmt: skip
@pytest.mark.parametrize("protocol", [2, 4])
def test_other_pickles_are_refused(value: object, protocol: int) -> None:
    assert why(pickle.dumps(value, protocol)) in (FOREIGN, DAMAGED, CODE)


def test_what_was_pickled_of_other_kinds_is_refused() -> None:
    assert why(pickle.dumps(datetime(2026, 1, 1, tzinfo=timezone.utc))) in (CODE, FOREIGN)
    assert why(pickle.dumps(10**60)) == FOREIGN
    assert why(pickle.dumps(bytearray(5), 5)) in (FOREIGN, CODE)
    assert why(pickle.dumps({"segments": 1}, 1)) == FOREIGN
    assert why(b"\x80\x07}.") == FOREIGN


def test_a_pickle_that_breaks_off() -> None:
    data = dumped(filled([(WEIGHTS, GIB, 3)], request=GIB))
    for length in [*range(2, 400), *range(400, len(data), 97)]:
        assert why(data[:length]) == SHORT


def test_bytes_turned_over_end_in_a_refusal_or_an_account() -> None:
    data = dumped(filled([(WEIGHTS, GIB, 2)], request=GIB))
    for at in range(len(data)):
        for value in (0, 0xFF, data[at] ^ 0x20):
            with suppress(RefusalError):
                read(data[:at] + bytes([value]) + data[at + 1 :])


@pytest.mark.parametrize(
    ("pickled", "reason"),
    [
        (b"\x80\x02]r\xff\xff\xff\x0f.", FOREIGN),  # a memo of 268 million places
        (b"\x80\x04X\xff\xff\xff\x7fabc.", LARGE),  # a string of two gigabytes
        (b"\x80\x04X\x00\x00\x20\x00" + b"a" * 2**21 + b".", FOREIGN),
        (b"\x80\x04\x8d" + struct.pack("<Q", 2**60) + b".", FOREIGN),
        (b"\x80\x04\x8e" + struct.pack("<Q", 2**60) + b".", FOREIGN),
        (b"\x80\x04\x8b" + struct.pack("<i", 2**30) + b".", FOREIGN),
        (b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".", FOREIGN),
        (b"\x80\x04" + b"(" * 1000 + b".", FOREIGN),
        (b"\x80\x04" + b"]" + b"(]" * 1000 + b".", FOREIGN),
        (b"\x80\x04h\x05.", DAMAGED),
        (b"\x80\x04a.", SHORT),
        (b"\x80\x04e.", SHORT),
        (b"\x80\x04}u.", SHORT),
        (b"\x80\x04K\x01K\x02a.", DAMAGED),
        (b"\x80\x04}(K\x01u.", DAMAGED),
        (b"\x80\x04}(}}u.", FOREIGN),
        (b"\x80\x04K\x01K\x02.", DAMAGED),
        (b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff", SHORT),
    ],
)
def test_numbers_that_lie(pickled: bytes, reason: str) -> None:
    assert why(pickled) == reason


def test_a_list_of_itself() -> None:
    assert why(b"\x80\x04]\x94(h\x00e.") == FOREIGN
    assert why(b"\x80\x04}\x94(\x8c\x08segmentsh\x00u.") == FOREIGN


def test_a_billion_laughs() -> None:
    """Thirty levels, each ten times the one below: a walk over them would never end."""
    out = io.BytesIO()
    out.write(b"\x80\x04]\x94K\x01a")
    for level in range(200):
        out.write(b"]\x94(" + b"h" + bytes([level]) + b"h" + bytes([level]) * 1 + b"h%c" % level * 8 + b"e")
    out.write(b"\x8c\x08segments")
    begin = time.process_time()
    assert why(out.getvalue() + b".") in (DAMAGED, FOREIGN)
    laughs = b"\x80\x04}(\x8c\x08segments]\x94" + b"".join(
        b"]\x94(" + b"h%c" % level * 10 + b"e" for level in range(200)
    )
    assert why(laughs + b"u.") in (DAMAGED, FOREIGN)
    assert time.process_time() - begin < 2


def test_rows_told_twice_are_refused() -> None:
    snapshot = filled([(WEIGHTS, GIB, 3)]).snapshot()
    snapshot["device_traces"].append(snapshot["device_traces"][0])
    assert why(pickle.dumps(snapshot)) == FOREIGN
    snapshot = filled([(WEIGHTS, GIB, 3)]).snapshot()
    snapshot["segments"].append(snapshot["segments"][0])
    assert why(pickle.dumps(snapshot)) == FOREIGN


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "MOST_KEPT", 100)
    assert why(pickle.dumps([[] for _ in range(200)])) == LARGE
    monkeypatch.setattr(machine, "MOST_TEXT", 1000)
    assert why(pickle.dumps([f"text {number}" for number in range(500)])) == LARGE
    monkeypatch.setattr(machine, "MOST_ITEMS", 100)
    assert why(b"\x80\x04](" + b"K\x01" * 500 + b"e.") == LARGE
    monkeypatch.setattr(machine, "MOST_PLACES", 100)
    assert why(b"\x80\x04K\x01" + b"\x94" * 500 + b".") == LARGE


def test_rows_are_not_kept() -> None:
    tally = Tally()
    reader = Machine(tally)
    reader.read(blocks(dumped(steps(50))))
    assert tally.entries > 1000
    assert reader.kept < 100
