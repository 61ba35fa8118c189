"""The memory cgroups of a process, from its own up to where this machine shows them: version 1 and 2.

Version 1 counts a kill in the victim's own group and a hit limit in the limit's; version 2 counts both also in all
groups above.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from typing import Final

from msgspec import Struct

from oomdoctor.recorder import proc

NO_LIMIT: Final = 1 << 62  # version 1 prints the largest number of pages
MOST_LEVELS: Final = 8


class Level(Struct, frozen=True, omit_defaults=True):
    """One group; what its kernel does not tell is None."""

    path: str  # below the mount point
    limit: int | None = None
    usage: int | None = None
    peak: int | None = None
    shmem: int | None = None  # of the usage: /dev/shm, tmpfs
    cache: int | None = None  # of the usage: of files, which the kernel drops before it kills
    kills: int | None = None  # by the kernel: processes of this group
    hits: int | None = None  # the limit: version 2 counts those that began an OOM kill, version 1 every failed charge


class Mount(Struct, frozen=True):
    point: str
    root: str  # what of the hierarchy is mounted there
    version: int


def levels(pid: int) -> tuple[Level, ...]:
    """The groups of a process, its own first; a process that ended can be asked until it is waited for."""
    folder = _folder(pid)
    return tuple(_read(mount, path) for mount, path in _upwards(folder)) if folder else ()


def again(known: tuple[Level, ...]) -> tuple[Level, ...]:
    """The same groups as they are now; of one that is gone, its last state."""
    mount = _mount()
    if mount is None:
        return known
    now = (_read(mount, level.path) for level in known)
    return tuple(new if new.usage is not None else old for new, old in zip(now, known, strict=True))


def tightest(known: tuple[Level, ...]) -> Level | None:
    """The group whose limit is the lowest."""
    limited = [level for level in known if level.limit is not None]
    return min(limited, key=lambda level: level.limit or 0, default=None)


def path_of(pid: int) -> str | None:
    """The group of a process, as `levels` names it."""
    folder = _folder(pid)
    return folder[1] if folder else None


def _folder(pid: int) -> tuple[Mount, str] | None:
    mount = _mount()
    said = proc.text(f"{proc.PROC}/{pid}/cgroup") if mount else None
    if mount is None or said is None:
        return None
    path = next((path for is_ours, path in map(_row, said.splitlines()) if is_ours == mount.version), None)
    if path is None:
        return None
    rest = path.removeprefix(mount.root) if mount.root != "/" else path
    # "/.." leads out of this namespace, a path that is not there is another mount's: what is mounted is all we see
    seen = rest if not rest.startswith("/..") and os.path.isdir(mount.point + rest) else ""  # noqa: PTH112
    return mount, seen.rstrip("/") or "/"


def _row(line: str) -> tuple[int, str]:
    """The version of the hierarchy with memory in it (0: another one), and the path."""
    _, controllers, path = (*line.split(":", 2), "", "")[:3]
    if "memory" in controllers.split(","):
        return 1, path
    return (2 if not controllers else 0), path


@cache
def _mount() -> Mount | None:
    """Version 1 before version 2: of a hybrid, only the first has memory in it."""
    found = sorted(_mounts(), key=lambda mount: mount.version)
    return found[0] if found else None


def _mounts() -> Iterator[Mount]:
    for line in (proc.text(f"{proc.PROC}/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup" and "memory" in kind[2].split(","):
            yield Mount(fields[4], fields[3], 1)
        elif kind[0] == "cgroup2":
            yield Mount(fields[4], fields[3], 2)


def _upwards(folder: tuple[Mount, str]) -> Iterator[tuple[Mount, str]]:
    mount, path = folder
    for _ in range(MOST_LEVELS):
        yield mount, path
        if path == "/":
            return
        path = path.rpartition("/")[0] or "/"


def _sum(one: int | None, other: int | None) -> int | None:
    return one if other is None else (one or 0) + other


def _read(mount: Mount, path: str) -> Level:
    folder = mount.point + path.rstrip("/")
    said = dict(proc.pairs(f"{folder}/memory.stat"))
    if mount.version == 1:
        limit = proc.number(f"{folder}/memory.limit_in_bytes")
        return Level(
            path=path,
            limit=limit if limit is not None and limit < NO_LIMIT else None,
            usage=proc.number(f"{folder}/memory.usage_in_bytes"),
            peak=proc.number(f"{folder}/memory.max_usage_in_bytes"),
            shmem=said.get("total_shmem"),
            cache=_cache(said.get("total_cache"), said.get("total_shmem")),
            kills=dict(proc.pairs(f"{folder}/memory.oom_control")).get("oom_kill"),
            hits=_sum(proc.number(f"{folder}/memory.failcnt"), proc.number(f"{folder}/memory.memsw.failcnt")),
        )
    events = dict(proc.pairs(f"{folder}/memory.events"))
    return Level(
        path=path,
        limit=proc.number(f"{folder}/memory.max"),
        usage=proc.number(f"{folder}/memory.current"),
        peak=proc.number(f"{folder}/memory.peak"),
        shmem=said.get("shmem"),
        cache=_cache(said.get("file"), said.get("shmem")),
        kills=events.get("oom_kill"),
        hits=events.get("oom"),
    )


def _cache(files: int | None, shmem: int | None) -> int | None:
    """Both versions count shared memory as a file."""
    return max(0, files - (shmem or 0)) if files is not None else None
