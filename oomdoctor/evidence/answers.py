"""Asking: every command has a time limit, nothing is written, and what could not be had says why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from msgspec import Struct

from oomdoctor.evidence.questions import Question
from oomdoctor.language import say

LONGEST_S: Final = 15.0
LARGEST: Final = 4 * 2**20  # bytes of an answer; of a longer one its end, which is the newest
_PLAIN: Final = {"LC_ALL": "C", "PAGER": "cat", "SYSTEMD_COLORS": "0"}


class Answer(Struct, frozen=True):
    question: Question
    text: str = ""
    missing: str = ""  # why there is none

    @property
    def page(self) -> str:
        """The command as at a prompt, and what came back."""
        return f"$ {self.question.text}\n{self.text}"


def answers(asked: Iterable[Question]) -> Iterator[Answer]:
    """What the machine says, each thing once."""
    had: set[str] = set()
    for question in asked:
        if question.unless in had:
            continue
        said = answer(question)
        if not said.missing:
            had.add(question.name)
        yield said


def answer(question: Question, environ: Mapping[str, str] = os.environ) -> Answer:
    """What the machine says to it."""
    if question.reads:
        return _of_files(question)
    program = shutil.which(question.words[0], path=environ.get("PATH"))
    if program is None:
        return Answer(question, missing=say("not installed"))
    try:
        done = subprocess.run(  # noqa: S603  (our own table's)
            [program, *question.words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=LONGEST_S,
            env={**environ, **_PLAIN},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Answer(question, missing=say("no answer in {seconds:g} seconds", seconds=LONGEST_S))
    except OSError as error:
        return Answer(question, missing=error.strerror or str(error))
    said, complaint = _text(done.stdout), _text(done.stderr).strip()
    if not said.strip():
        return Answer(question, missing=complaint.splitlines()[-1] if complaint else say("no output"))
    return Answer(question, said)


def _of_files(question: Question) -> Answer:
    several = len(question.words) > 1
    parts, why = [], say("no such file")
    for path in question.words:
        try:
            with open(path, "rb") as file:  # noqa: PTH123  (files of the kernel have no size)
                said = _text(_end(file.fileno()))
        except OSError as error:
            why = error.strerror or why
            continue
        parts += [f"{path}:{line}" for line in said.splitlines() if line] if several else [said]
    return Answer(question, "\n".join(parts)) if parts else Answer(question, missing=why)


def _end(file: int) -> bytes:
    """The last bytes of a file."""
    size = os.fstat(file).st_size
    if size > LARGEST:
        os.lseek(file, size - LARGEST, os.SEEK_SET)
    parts = []
    while block := os.read(file, 2**16):
        parts.append(block)
    return b"".join(parts)


def _text(data: bytes) -> str:
    return data[-LARGEST:].decode("utf-8", "replace")


__all__ = ["Answer", "answer", "answers"]
