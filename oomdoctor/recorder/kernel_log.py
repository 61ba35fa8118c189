"""What the kernel says of kills while the job runs: /dev/kmsg, where it may be read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from oomdoctor.patterns import late
from oomdoctor.units import KIB

KMSG: Final = "/dev/kmsg"
RECORD: Final = 8192  # the longest that the kernel hands out
MOST: Final = 16  # kills, the last ones
# mm/oom_kill.c and mm/memcontrol.c since 4.19
_WHY: Final = late(
    r"oom-kill:constraint=(?P<constraint>\w{1,40}),.{0,400}?(?:oom_memcg=(?P<group>[^,]{1,400}),|global_oom,)"
    r"task_memcg=(?P<task_group>[^,]{1,400}),"
)
_USED: Final = late(r"memory: usage (?P<used>\d{1,15})kB, limit (?P<limit>\d{1,15})kB")
_VICTIM: Final = late(
    r"Killed process (?P<pid>\d{1,9}) \((?P<name>.{0,60}?)\)(?:,)? total-vm:\d{1,15}kB, anon-rss:(?P<own>\d{1,15})kB, "
    r"file-rss:(?P<files>\d{1,15})kB(?:, shmem-rss:(?P<shared>\d{1,15})kB)?"
)


class Kill(Struct, frozen=True, omit_defaults=True):
    """A process that the kernel killed, as it says itself; the number is the host's."""

    pid: int
    name: str
    own: int
    files: int
    shared: int | None = None
    constraint: str | None = None
    group: str | None = None  # whose limit was hit
    task_group: str | None = None
    used: int | None = None  # of the group
    limit: int | None = None


class KernelLog:
    """Its lines from now on."""

    def __init__(self) -> None:
        self._file = -1
        with suppress(OSError):
            self._file = os.open(KMSG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._file, 0, os.SEEK_END)

    @property
    def is_readable(self) -> bool:
        return self._file >= 0

    def kills(self) -> tuple[Kill, ...]:
        """The last kills, of whatever group."""
        found: list[Kill] = []
        around: dict[str, Any] = {}
        for line in self._lines():
            if match := _USED.match(line):
                around |= {name: int(size) * KIB for name, size in match.groupdict().items()}
            elif match := _WHY.match(line):
                around |= match.groupdict()
            elif match := _VICTIM.search(line):
                found.append(_kill(match, around))
                around = {}
        return tuple(found[-MOST:])

    def _lines(self) -> Iterator[str]:
        while self._file >= 0:
            try:
                said = os.read(self._file, RECORD)
            except BrokenPipeError:  # the ring was overwritten meanwhile; the next read goes on
                continue
            except OSError:
                return
            yield said.decode("utf-8", "replace").partition(";")[2].partition("\n")[0]


def _kill(match: re.Match[str], around: dict[str, Any]) -> Kill:
    sizes: dict[str, Any] = {
        name: int(match[name]) * KIB for name in ("own", "files", "shared") if match[name] is not None
    }
    return Kill(pid=int(match["pid"]), name=match["name"], **sizes, **around)
