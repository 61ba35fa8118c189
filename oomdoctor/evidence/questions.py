"""What a machine is asked: the commands of `questions.txt`, and files of the kernel, read as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor.recorder import cgroup
from oomdoctor.remedies import cells

COUNTERS: Final = "/proc/vmstat"
FILES: Final = (
    "/proc/meminfo",
    COUNTERS,
    "/proc/pressure/memory",
    "/proc/self/limits",
)
_OF_A_GROUP: Final = (
    *("memory.max", "memory.high", "memory.peak", "memory.current", "memory.swap.max", "memory.events"),
    *("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.usage_in_bytes", "memory.failcnt"),
    *("memory.memsw.limit_in_bytes", "memory.oom_control", "memory.stat"),
)


class Question(Struct, frozen=True):
    """A command, or files to read."""

    name: str  # in the archive
    words: tuple[str, ...]  # of the command; of files the paths
    reads: bool = False  # files
    looks_back: bool = False  # at the crash
    unless: str = ""  # the question that would have told the same

    @property
    def text(self) -> str:
        """As one would type it, which tells what comes back apart."""
        if not self.reads:
            return " ".join(self.words)
        return " ".join(("grep ." if len(self.words) > 1 else "cat", *self.words))


def questions(named: Mapping[str, str | None]) -> Iterator[Question]:
    """All of them; those about a job, a container or a pod where one is named."""
    for name, back, unless, command in cells.rows(Path(__file__).with_suffix(".txt")):
        if all(value for word, value in named.items() if f"{{{word}}}" in command):
            words = tuple(word.format(**named) for word in command.split())
            yield Question(name, words, looks_back=back == "yes", unless=unless)
    for path in FILES:
        yield Question(path.strip("/").replace("/", "-"), (path,), reads=True, looks_back=path == COUNTERS)
    for number, folder in enumerate(cgroup.folders()):
        paths = tuple(f"{folder}/{name}" for name in _OF_A_GROUP)
        yield Question(f"cgroup-{number}", paths, reads=True, looks_back=True)


__all__ = ["Question", "questions"]
