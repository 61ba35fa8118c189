"""A file that is followed: appended to, rotated, cut, rewritten, not there yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from oomdoctor.sources.follow import Followed


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_bytes(b"one\n")
    return path


@pytest.fixture
def followed(log: Path) -> Iterator[Followed]:
    """Read up to where it ends."""
    with closing(Followed(log)) as one:
        assert drained(one) == [(1, b"one\n")]
        yield one


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def drained(followed: Followed, looks: int = 6) -> list[tuple[int, bytes]]:
    """What comes in some looks, with the number of the file that it is from."""
    return [(followed.files, block) for block in (followed.read() for _ in range(looks)) if block]


def test_what_is_appended(log: Path, followed: Followed) -> None:
    append(log, b"two\n")
    assert drained(followed) == [(1, b"two\n")]
    assert drained(followed) == []


def test_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    with closing(Followed(tmp_path / "later.log")) as followed:
        assert drained(followed) == []
        append(tmp_path / "later.log", b"here\n")
        assert drained(followed) == [(1, b"here\n")]


def test_the_rest_of_a_rotated_file_comes_before_the_new_one(log: Path, followed: Followed) -> None:
    append(log, b"last words\n")
    old = log.rename(log.with_name("job.log.1"))
    append(log, b"new\n")
    append(old, b"very last\n")
    assert drained(followed) == [(1, b"last words\nvery last\n"), (2, b"new\n")]


def test_a_rotated_file_is_read_on_until_the_new_one_is_there(log: Path, followed: Followed) -> None:
    old = log.rename(log.with_name("job.log.1"))
    append(old, b"still here\n")
    assert drained(followed) == [(1, b"still here\n")]
    append(log, b"new\n")
    assert drained(followed) == [(2, b"new\n")]


@pytest.mark.parametrize("anew", [b"", b"a\n", b"two\n", b"much longer than it was before\n"])
def test_a_file_that_is_cut(log: Path, followed: Followed, anew: bytes) -> None:
    log.write_bytes(anew)
    assert drained(followed) == ([(2, anew)] if anew else [])
    append(log, b"more\n")
    assert b"".join(block for _, block in drained(followed)) == b"more\n"
