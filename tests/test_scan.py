"""The pass over the bytes: the same slices however the bytes come, every hit in one of them, memory flat."""

from __future__ import annotations

import itertools
import random
import re
import runpy
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oomdoctor import families, scan
from oomdoctor.incident import trajectory
from oomdoctor.job import context

ANCHORS = (b"out of memory", b"Killed", b"exit code 137", b"\xe5\xb7\xb2\xe6\x9d\x80\xe6\xad\xbb")


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {
        "BEFORE": 64,
        "AFTER": 48,
        "HEAD": 64,
        "TAIL": 64,
        "SMALL": 160,
        "LARGEST": 600,
        "CHUNK": 256,
        "IN_LINE": 40,
    }
    for name, value in sizes.items():
        monkeypatch.setattr(scan, name, value)
    monkeypatch.setattr(scan, "_REACH", 96)


@pytest.fixture
def no_thinning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PLENTY", 1 << 60)
    monkeypatch.setattr(scan, "PLENTY_OF_ALL", 1 << 60)


def cut(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


def log(lines: int, hits: dict[int, bytes]) -> bytes:
    """Numbered lines, some of them with an anchor in it."""
    return b"".join(b"line %d %s of a healthy step\n" % (n, hits.get(n, b"")) for n in range(1, lines + 1))


def check_lines(data: bytes, pieces: list[scan.Slice]) -> None:
    """Each slice is a stretch of the log, in order, and says truly which line it begins with."""
    starts = [0, *(found.end() for found in re.finditer(b"\n", data))]
    least = 0
    for piece in pieces:
        at = data.find(piece.data, max(least, starts[piece.first_line - 1]))
        assert at >= 0
        assert data.count(b"\n", 0, at) + 1 == piece.first_line
        least = at + 1


def test_a_small_log_is_one_slice() -> None:
    data = log(100, {50: b"Killed"})
    assert list(scan.slices([data], ANCHORS)) == [scan.Slice(1, data)]


def test_nothing_gives_nothing() -> None:
    assert list(scan.slices([], ANCHORS)) == []
    assert list(scan.slices([b"", b""], ANCHORS)) == []


def test_a_large_log_gives_its_head_its_tail_and_what_is_around_the_hits() -> None:
    data = log(60_000, {30_000: b"out of memory"})
    head, middle, tail = scan.slices(cut(data, 70_001), ANCHORS)
    assert head.first_line == 1
    assert head.data.startswith(b"line 1 ")
    assert head.data.endswith(b"\n")
    assert b"line 30000 out of memory of a healthy step\n" in middle.data
    number, words = middle.data.split(maxsplit=2)[1:]
    assert int(number) == middle.first_line
    assert words.startswith(b"of a healthy")
    assert middle.first_line < 30_000 - 1000
    assert middle.last_line > 30_000 + 500
    assert tail.last_line == 60_000
    assert tail.data.endswith(b"line 60000  of a healthy step\n")
    assert sum(len(piece.data) for piece in (head, middle, tail)) < 64 * 5 * 1024


def test_without_ends_a_log_without_hits_gives_nothing() -> None:
    assert list(scan.slices([log(60_000, {})], ANCHORS, ends=False)) == []
    assert list(scan.slices([log(10, {})], ANCHORS, ends=False)) == []
    (piece,) = scan.slices([log(10, {5: b"Killed"})], ANCHORS, ends=False)
    assert b"line 5 Killed" in piece.data


def test_a_log_without_a_final_line_break_counts_as_grep_does() -> None:
    assert scan.Slice(1, b"a\nb").last_line == 2
    assert scan.Slice(7, b"a\nb\n").last_line == 8
    assert scan.Slice(7, b"\n").last_line == 7


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 255, 256, 257, 1000, 10_000])
def test_any_size_of_blocks_gives_the_same_slices(size: int) -> None:
    data = log(400, {3: b"Killed", 90: b"out of memory", 91: b"exit code 137", 250: "已杀死".encode(), 399: b"Killed"})
    assert list(scan.slices(cut(data, size), ANCHORS)) == list(scan.slices([data], ANCHORS))


@pytest.mark.usefixtures("small_windows")
def test_an_anchor_across_the_border_of_two_chunks_is_found() -> None:
    anchor = b"out of memory"
    for shift in range(len(anchor) + 2):
        before = b"x\n" * 300
        at = 2 * 256 - shift
        data = before[:at] + anchor + b"\n" + b"y\n" * 400
        assert any(anchor in piece.data for piece in scan.slices([data], ANCHORS)), shift


@pytest.mark.usefixtures("small_windows")
def test_the_line_of_a_hit_is_whole_behind_a_huge_line_and_a_rewrite() -> None:
    data = b"z" * 225 + b"\n" + b"z" * 126 + b"\nbar\rmore Killed\n"
    (piece,) = scan.slices([data], ANCHORS, ends=False)
    assert b"bar\rmore Killed" in piece.data.split(b"\n")


def thinned_out(patch: pytest.MonkeyPatch) -> None:
    for name, value in {"PLENTY": 200, "NEAR": 12, "HITS_PER_DISTANCE": 2, "LARGEST": 10**6}.items():
        patch.setattr(scan, name, value)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("into", range(40))
def test_the_line_of_a_hit_is_whole_if_it_begins_in_the_chunk_before(
    into: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hit among many little is read, and what its line needs beyond that is still held."""
    thinned_out(monkeypatch)
    first = b"Killed\n" + b"y\n" * 300
    first = first[: 2 * 256 - 36 + into].rstrip(b"y")  # the line is 30 bytes longer, and the border lies in it
    line = b"z" * 30 + b" Killed at last"
    data = first + line + b"\n" + b"y\n" * 40
    pieces = list(scan.slices([data], ANCHORS))
    check_lines(data, pieces)
    assert any(line in piece.data.split(b"\n") for piece in pieces)


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    chosen = random.Random(draw(st.integers(0, 2**32)))
    longest = draw(st.sampled_from([5, 40, 300, 2000]))
    dense = draw(st.sampled_from([0.0, 0.02, 0.3, 0.9]))
    text = bytearray()
    for _ in range(draw(st.integers(0, 120))):
        text += b"z" * chosen.randrange(longest)
        if chosen.random() < dense:
            text += chosen.choice(ANCHORS)
        text += chosen.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r", b" "])
    return bytes(text)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.usefixtures("no_thinning")
@settings(max_examples=150, deadline=None)
@given(data=logs(), size=st.integers(1, 600), ends=st.booleans())
def test_every_hit_is_read_once(data: bytes, size: int, ends: bool) -> None:
    pieces = list(scan.slices(cut(data, size), ANCHORS, ends=ends))
    assert pieces == list(scan.slices([data], ANCHORS, ends=ends))
    check_lines(data, pieces)
    assert all(len(piece.data) <= 600 + 2 * 256 for piece in pieces)
    for number, line in enumerate(data.split(b"\n"), 1):
        hits = sum(line.count(anchor) for anchor in ANCHORS)
        if not hits:
            continue
        owners = [piece for piece in pieces if piece.owns(number) and piece.first_line <= number <= piece.last_line]
        if len(line) <= 32:  # a line longer than the windows may be cut, and then has two owners
            assert sum(line in piece.data.split(b"\n") for piece in owners) == 1
        assert any(anchor in piece.data for piece in owners for anchor in ANCHORS)


@pytest.mark.usefixtures("small_windows")
@settings(max_examples=150, deadline=None)
@given(data=logs(), size=st.integers(1, 600))
def test_nothing_is_read_twice_where_hits_are_thinned_out(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        thinned_out(patch)
        pieces = list(scan.slices(cut(data, size), ANCHORS))
    check_lines(data, pieces)
    end = 0
    for piece in pieces:
        at = data.find(piece.data, end)
        assert at >= 0, "it overlaps the one before"
        end = at + len(piece.data)


@pytest.mark.usefixtures("no_thinning")
def test_dense_hits_come_in_bounded_slices_that_overlap_and_keep_every_message_whole() -> None:
    message = b"Killed %d\n first\n second\n third\n"
    data = b"".join(message % n for n in range(250_000))
    pieces = list(scan.slices([data], ANCHORS))
    assert len(pieces) > 2
    assert max(len(piece.data) for piece in pieces) < 4 * 1024**2
    read = []
    for piece in pieces:
        lines = piece.data.split(b"\n")
        for at, line in enumerate(lines):
            if line.startswith(b"Killed") and piece.owns(piece.first_line + at):
                assert lines[at + 1 : at + 4] == [b" first", b" second", b" third"]
                read.append(int(line.split()[1]))
    assert read == list(range(250_000))


def test_an_anchor_that_stands_everywhere_does_not_make_us_read_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "PLENTY", 512 * 1024)
    step = b"exit code 137 is what one of 500 lines speaks of\n" + b"a step without any news\n" * 500
    kill = b"CUDA out of memory\n"
    data = step * 1000 + kill + step * 1000
    left_out: Counter[bytes] = Counter()
    pieces = list(scan.slices(cut(data, 1024**2), ANCHORS, left_out=left_out))
    check_lines(data, pieces)
    assert sum(len(piece.data) for piece in pieces) < len(data) / 3
    assert sum(piece.data.count(kill) for piece in pieces) == 1
    unread = 2000 - sum(piece.data.count(b"exit code 137") for piece in pieces)
    assert unread > 1000
    assert unread <= left_out[b"exit code 137"] <= unread + 10, "some of them stand near others"
    first, last = pieces[0].data, b"".join(piece.data for piece in pieces)[-500_000:]
    assert first.count(b"exit code 137") >= 39, "the first ones are read as if they were rare"
    assert last.count(b"exit code 137") >= 20, "and the last ones are read, too"
    gaps = [after.first_line - piece.last_line for piece, after in itertools.pairwise(pieces)]
    assert max(gaps) < 200_000, "and some everywhere"


def test_many_anchors_that_stand_everywhere_share_what_is_read() -> None:
    def read(kinds: int) -> int:
        anchors = tuple(b"failure of kind %03d;" % n for n in range(kinds))
        data = b"".join(
            b"%d %s\n%s" % (n, anchors[n % kinds], b"a step without any news\n" * 8) for n in range(120_000)
        )
        return sum(len(piece.data) for piece in scan.slices(cut(data, 1024**2), anchors))

    one, many = read(1), read(40)
    assert many < one + scan.PLENTY_OF_ALL + 4 * 1024**2, "each was plentiful before less of it was read"


def figures(lines: int, every: int, line: bytes) -> bytes:
    return b"".join(b"%d %s\n" % (n, line if n % every == 0 else b"a step without any news") for n in range(lines))


def test_less_is_read_around_figures_but_in_more_places() -> None:
    data = figures(400_000, 2, b"memory used: 12.5 GB, and what else there is to say of this step")
    slices = {
        kind: list(scan.slices(cut(data, 1024**2), (b"memory used",), figures=anchors))
        for kind, anchors in (("figure", (b"memory used",)), ("failure", ()))
    }
    sizes = {kind: sum(len(piece.data) for piece in pieces) for kind, pieces in slices.items()}
    assert sizes["figure"] < 0.7 * sizes["failure"]
    assert len(slices["figure"]) > 1.5 * len(slices["failure"])
    for pieces in slices.values():
        check_lines(data, pieces)
        assert pieces[-1].data.endswith(data[-scan.TAIL + 200 :]), "the tail is whole"


def test_a_line_longer_than_what_is_read_around_its_hit_is_whole_up_to_the_hit() -> None:
    line = b"step:17 - " + b"metric:0.25 - " * 500 + b"memory used: 12.5 GB - more:1"
    data = figures(40_000, 10, line)
    pieces = list(scan.slices(cut(data, 1024**2), (b"memory used",), figures=(b"memory used",)))
    assert len(pieces) > 20
    lines = [line for piece in pieces for line in piece.data.split(b"\n") if b"memory used" in line]
    assert all(b" step:17 - metric" in line for line in lines)
    check_lines(data, pieces)


def test_a_huge_line_gives_bounded_slices_around_its_hits() -> None:
    step = b"step loss=0.25 "
    line = step * 400_000 + b"CUDA out of memory. Tried to allocate 2.00 GiB " + step * 400_000
    head, middle, tail = scan.slices(cut(b"first\n" + line + b"\nlast\n", 65_536), ANCHORS)
    assert head.first_line == 1
    assert (middle.first_line, tail.first_line) == (2, 2)
    assert b"CUDA out of memory. Tried to allocate 2.00 GiB " in middle.data
    assert len(middle.data) < 49 * 1024
    assert middle.data.startswith(b"step ") or middle.data.startswith(b"loss")  # not inside a word
    assert tail.data.endswith(b"\nlast\n")
    assert tail.last_line == 3


@pytest.mark.usefixtures("small_windows")
@pytest.mark.usefixtures("no_thinning")
@pytest.mark.parametrize("behind", range(60, 200, 4))
def test_a_hit_before_the_tail_is_read_once_and_the_last_slice_is_the_tail(behind: int) -> None:
    data = log(60, {}) + b"Killed\n" + log(100, {})[:behind]
    pieces = list(scan.slices(cut(data, 50), ANCHORS))
    check_lines(data, pieces)
    assert data.endswith(pieces[-1].data)
    assert len(pieces[-1].data) >= min(behind, 64) - 25  # it begins with a line
    assert sum(b"Killed" in piece.data for piece in pieces) == 1
    if behind > 64 + 48 + 30:
        assert b"Killed" not in pieces[-1].data


@pytest.mark.usefixtures("small_windows")
@pytest.mark.usefixtures("no_thinning")
def test_a_huge_line_of_hits_is_cut_where_it_stands() -> None:
    data = b"x\n" + b"Killed " * 600
    pieces = list(scan.slices(cut(data, 50), ANCHORS))
    assert max(len(piece.data) for piece in pieces) <= 600 + 2 * 256
    assert len(pieces) > 4
    assert [piece.first_line for piece in pieces[1:]] == [2] * (len(pieces) - 1)
    assert b"".join(piece.data for piece in pieces).count(b"Killed") >= 590


def test_more_anchors_than_one_automaton_takes_are_all_found() -> None:
    anchors = tuple(b"anchor-%03d;" % n for n in range(150))
    for anchor in (anchors[0], anchors[70], anchors[149]):
        data = log(40_000, {20_000: anchor})
        assert any(anchor in piece.data for piece in scan.slices([data], anchors))


def test_no_anchor_stands_in_a_healthy_log() -> None:
    """An anchor that is common in healthy logs makes us read them whole: spell it out further ("exit code 137")."""
    healthy: bytes = runpy.run_path(str(Path(__file__).parent.parent / "benchmarks" / "logs.py"))["healthy"](
        4 * 1024**2
    )
    anchors = {*families.anchors(), *(word.encode() for word in (*context.ANCHORS, *trajectory.ANCHORS))}
    assert {anchor: healthy.count(anchor) for anchor in anchors if anchor in healthy} == {}


def test_memory_stays_flat() -> None:
    """A subprocess, because the highest mark of this one is not its own."""
    script = """
        import resource
        from oomdoctor import scan
        block = b"step 17 loss 0.25 tokens/s 1034.2 and nothing else to say today\\n" * 16000
        def blocks():
            for n in range(200):
                yield block
                if n % 50 == 49:
                    yield b"CUDA out of memory\\n"
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        found = sum(b"CUDA out of memory" in piece.data for piece in scan.slices(blocks(), (b"out of memory",)))
        print(found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True)
    found, grown = map(int, done.stdout.split())
    assert found == 4
    assert grown < 30_000 * (1 if sys.platform != "darwin" else 1024)
