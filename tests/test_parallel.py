"""Logs that several processes read say what they say to one."""

from __future__ import annotations

import gzip
import os
import sys
import tarfile
import threading
from pathlib import Path
from typing import Any

import pytest

from oomdoctor import diagnose, language
from oomdoctor.reading import Reading, Tell, parallel
from oomdoctor.sources import Source, gather

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no process is copied there")

HEALTHY = b"".join(b"INFO trainer.py:7 -- step %d loss 0.125\n" % n for n in range(30_000))
FIGURES = b"".join(b"step %d memory allocated: %d.25 GiB\n" % (n, n) for n in range(1, 9))
FAILURE = b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


@pytest.fixture(autouse=True)
def _full_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "FULL", 1000)
    monkeypatch.setattr(parallel, "STEP", 1000)
    monkeypatch.setattr(threading, "active_count", lambda: 1)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for number in range(5):
        data = HEALTHY + FIGURES + FAILURE * (number % 2) + HEALTHY * number + b"\0" * (number == 3) + FAILURE
        (tmp_path / f"node{number}.log").write_bytes(data)
    (tmp_path / "small.log").write_bytes(FAILURE)
    packed = gzip.compress(os.urandom(20_000).hex().encode() + b"\n" + FAILURE)
    (tmp_path / "cut.log").write_bytes(packed[:-9])
    return tmp_path


def diagnosed(folder: Path, cores: int, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[int]]:
    monkeypatch.setattr(parallel, "cores", lambda: cores)
    told: list[int] = []
    return diagnose(folder, progress=told.append).as_json(), told


def test_several_processes_read_what_one_does(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, _ = diagnosed(logs, 1, monkeypatch)
    together, told = diagnosed(logs, 3, monkeypatch)
    assert together == alone
    assert together["notes"] and together["errors"]
    assert together["stats"]["files"] == 7
    assert told == sorted(told)
    assert told[-1] > sum(len(HEALTHY) for _ in range(5))


def test_what_is_wrong_is_said_in_the_readers_language(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language.use("zh")
    try:
        assert diagnosed(logs, 2, monkeypatch)[0] == diagnosed(logs, 1, monkeypatch)[0]
    finally:
        language.use("en")


def sources_in(folder: Path, *names: str) -> list[Source]:
    for name in names:
        (folder / name).write_bytes(HEALTHY + FAILURE)
    return gather([str(folder)])[0]


def test_logs_are_divided_by_size_and_number_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number, size in enumerate((400, 500, 200, 5000, 1, 1, 1, 1)):
        (tmp_path / f"{number}.log").write_bytes(b"x" * size)
    monkeypatch.setattr(parallel, "MOST_LOGS", 3)
    found = parallel.divide(gather([str(tmp_path)])[0])
    assert [[source.name for source in parcel] for parcel in found] == [
        ["0.log", "1.log"], ["2.log"], ["3.log"], ["4.log", "5.log", "6.log"], ["7.log"],
    ]  # fmt: skip


def test_what_a_process_that_dies_should_have_read_is_read_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = sources_in(tmp_path, "a.log", "b.log", "c.log")
    parent, add = os.getpid(), Reading.add

    def dies(reading: Reading, source: Source, tell: Tell) -> None:
        if source.name == "a.log" and os.getpid() != parent:
            os._exit(1)
        add(reading, source, tell)

    monkeypatch.setattr(Reading, "add", dies)
    read = parallel.read(sources, processes=2)
    assert {event.at.file for event in read.gathered.events.values()} <= {"a.log", "b.log", "c.log"}
    assert sum(event.repeats for event in read.gathered.events.values()) == 3
    assert [source.size for source in sources] == [len(HEALTHY + FAILURE)] * 3


def test_whoever_stops_reading_leaves_no_process_behind(tmp_path: Path) -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parallel.read(sources_in(tmp_path, "a.log", "b.log"), stop, 2)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the logs of a folder or archive are read by this process."""
    read: list[str] = []
    add = Reading.add

    def tells(reading: Reading, source: Source, tell: Tell) -> None:
        read.append(source.name)
        add(reading, source, tell)

    monkeypatch.setattr(Reading, "add", tells)
    parallel.read(gather([str(folder)])[0], processes=2)
    return bool(read)


def test_a_program_with_threads_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources_in(tmp_path, "a.log", "b.log")
    assert not here(tmp_path, monkeypatch)
    monkeypatch.setattr(threading, "active_count", lambda: 2)
    assert here(tmp_path, monkeypatch)


def test_an_archive_is_read_by_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources_in(tmp_path, "a.log", "b.log")
    with tarfile.open(tmp_path / "logs.tar", "w") as tar:
        tar.add(tmp_path / "a.log", "a.log")
        tar.add(tmp_path / "b.log", "b.log")
    assert here(tmp_path / "logs.tar", monkeypatch)
