"""The job's processes: who descends from it, under which name, with how much memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Final

from msgspec import Struct

from oomdoctor.recorder import proc
from oomdoctor.units import KIB

PAGE: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
MOST_NAMED: Final = 60  # characters
_INTERPRETERS: Final = ("python", "bash", "sh", "perl", "ruby")
_FIELDS_OF_STAT: Final = 22  # up to the time of its start


class Process(Struct, frozen=True):
    pid: int
    parent: int
    start: int  # in ticks since boot: tells it from a later process of the same number


class Size(Struct, frozen=True, array_like=True, omit_defaults=True):
    """In bytes. Shared pages count for each process that touched them."""

    pid: int
    resident: int
    own: int  # without files and shared memory
    proportional: int | None = None  # each shared page divided among its users


class Tree:
    """The processes that descend from one, also those whose parent ended since."""

    def __init__(self, root: int) -> None:
        self._root = root
        self._known: dict[int, Process] = {}

    def grow(self) -> None:
        """Look at all processes of the machine for those that belong to it."""
        every = {process.pid: process for process in _every()}
        ours = {pid for pid, old in self._known.items() if pid in every and every[pid].start == old.start}
        if self._root in every:
            ours.add(self._root)
        children: dict[int, list[int]] = {}
        for process in every.values():
            children.setdefault(process.parent, []).append(process.pid)
        waiting = list(ours)
        while waiting:
            for pid in children.get(waiting.pop(), ()):
                if pid not in ours:
                    ours.add(pid)
                    waiting.append(pid)
        self._known = {pid: every[pid] for pid in ours}

    def pids(self) -> Iterable[int]:
        return self._known

    def sizes(self) -> list[Size]:
        """What each of them holds, the largest first."""
        found = (size(pid) for pid in self._known)
        return sorted((one for one in found if one is not None), key=lambda one: -one.resident)


def size(pid: int) -> Size | None:
    """What a process holds; None where it is gone or ended."""
    words = (proc.text(f"{proc.PROC}/{pid}/statm") or "").split()
    if len(words) < 3 or words[1] == "0":
        return None
    resident, shared = int(words[1]) * PAGE, int(words[2]) * PAGE
    return Size(pid, resident, max(0, resident - shared))


def proportional(pid: int) -> int | None:
    """Linux walks all pages of the process for it, under the lock that its own allocations need."""
    said = dict(proc.pairs(f"{proc.PROC}/{pid}/smaps_rollup")).get("Pss")
    return said * KIB if said is not None else None


def name(pid: int) -> str:
    """The program, with its script or module where it interprets one; a title that the process gave itself."""
    said = (proc.text(f"{proc.PROC}/{pid}/cmdline") or "").rstrip("\0")
    words = said.split("\0") if "\0" in said else said.split(" ")
    if not words[0]:
        return (proc.text(f"{proc.PROC}/{pid}/comm") or "").strip()
    program = PurePosixPath(words[0]).name
    if not program.rstrip("0123456789.").startswith(_INTERPRETERS):
        return program[:MOST_NAMED] if "\0" in said else said[:MOST_NAMED]
    return f"{program} {_script(words[1:])}".strip()[:MOST_NAMED]


def address_space(pid: int) -> int | None:
    """The limit on it that the process itself has; a process that ended can be asked until it is waited for."""
    for line in (proc.text(f"{proc.PROC}/{pid}/limits") or "").splitlines():
        if line.startswith("Max address space"):
            soft = line.split()[3]
            return int(soft) if soft.isdecimal() else None
    return None


def _script(words: list[str]) -> str:
    for at, word in enumerate(words):
        if word == "-m":
            return " ".join(words[at : at + 2])
        if word in ("-c", "-lc"):
            return "-c"
        if not word.startswith("-"):
            return PurePosixPath(word).name
    return ""


def _every() -> Iterator[Process]:
    for entry in os.listdir(proc.PROC):  # noqa: PTH208  (some thousand names, each a string)
        if not entry.isdecimal():
            continue
        # The name stands in brackets and may hold any sign.
        _, found, rest = (proc.text(f"{proc.PROC}/{entry}/stat") or "").rpartition(")")
        fields = rest.split()
        if found and len(fields) >= _FIELDS_OF_STAT - 2:
            yield Process(int(entry), int(fields[1]), int(fields[19]))
