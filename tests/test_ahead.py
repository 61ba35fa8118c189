"""Large logs scanned by several processes give what one process gives."""

from __future__ import annotations

import gzip
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from oomdoctor import ahead, language
from oomdoctor.ahead import Tell, scanned
from oomdoctor.scan import Slice
from oomdoctor.sources import Source, Trouble, gather
from oomdoctor.street import pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no process is copied there")

HEALTHY = b"".join(b"INFO trainer.py:7 -- step %d loss 0.125\n" % n for n in range(30_000))
FAILURE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"

State = tuple[str, int, list[Trouble], list[str]]  # of a source, once it is read


@pytest.fixture(autouse=True)
def _large_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LARGE", 1000)
    monkeypatch.setattr(ahead, "TOLD_EVERY", 1000)
    monkeypatch.setattr(ahead, "_can_fork", lambda: True)


def write(folder: Path) -> None:
    for number in range(5):
        data = HEALTHY + FAILURE * (number % 2) + HEALTHY * number + FAILURE * (50_000 if number == 3 else 1)
        (folder / f"node{number}.log").write_bytes(data)
    (folder / "small.log").write_bytes(FAILURE)
    packed = gzip.compress(os.urandom(20_000).hex().encode() + b"\n" + FAILURE)
    (folder / "cut.log").write_bytes(packed[:-9])


def read(folder: Path, cores: int, monkeypatch: pytest.MonkeyPatch) -> tuple[list[object], list[State], list[int]]:
    monkeypatch.setattr(ahead, "cores", lambda: cores)
    sources, _ = gather([str(folder)])
    told: list[int] = []
    found: list[object] = [
        (page.file, piece.first_line, piece.data, piece.own_from, piece.own_to, page.ends)
        for page, piece in pages(sources, told.append)
    ]
    return found, [(source.name, source.size, source.troubles, source.notes) for source in sources], told


def test_several_processes_read_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    slices, sources, _ = read(tmp_path, 1, monkeypatch)
    again, sources_again, told = read(tmp_path, 3, monkeypatch)
    assert again == slices
    assert sources_again == sources
    assert any(notes for _, _, _, notes in sources)
    assert any(troubles for _, _, troubles, _ in sources)
    assert told == sorted(told)
    assert told[-1] > sum(len(HEALTHY) for _ in range(5))


def test_what_is_wrong_is_said_in_the_readers_language(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    language.use("zh")
    try:
        assert read(tmp_path, 2, monkeypatch)[1] == read(tmp_path, 1, monkeypatch)[1]
    finally:
        language.use("en")


def sources_in(folder: Path, *names: str) -> list[Source]:
    for name in names:
        (folder / name).write_bytes(HEALTHY)
    return gather([str(folder)])[0]


def test_a_process_that_dies_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    def dies(source: Source, tell: Tell) -> Iterator[Slice]:
        yield Slice(1, b"first\n")
        if source.name == "a.log":
            os._exit(1)

    sources = sources_in(tmp_path, "a.log", "b.log", "c.log")
    got = {source.name: [piece.data for piece in pieces] for source, pieces in scanned(sources, dies, lambda: None, 2)}
    assert got == {name: [b"first\n"] for name in ("a.log", "b.log", "c.log")}
    assert [source.troubles for source in sources] == [
        [Trouble("a.log", "the process that scanned it has died: read only that far")], [], [],
    ]  # fmt: skip


def test_whoever_stops_reading_leaves_no_process_behind(tmp_path: Path) -> None:
    def endless(source: Source, tell: Tell) -> Iterator[Slice]:
        while True:
            yield Slice(1, b"x" * 100_000)

    begun = scanned(sources_in(tmp_path, "a.log", "b.log"), endless, lambda: None, 2)
    _, pieces = next(begun)
    assert len(next(pieces).data) == 100_000
    begun.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_program_with_threads_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "_can_fork", lambda: False)

    def work(source: Source, tell: Tell) -> Iterator[Slice]:
        yield Slice(1, str(os.getpid()).encode())

    (first, *_) = [list(pieces) for _, pieces in scanned(sources_in(tmp_path, "a.log", "b.log"), work, lambda: None, 2)]
    assert [piece.data for piece in first] == [str(os.getpid()).encode()]
