"""Files in /dev/shm that fill a memory limit, as far as the job's own prints count them: how much all of them take."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import A_COUNT, number, own_lines
from oomdoctor.patterns import late
from oomdoctor.signs.limits import filled_by_nobody
from oomdoctor.units import DECIMAL, size

_SIZE: Final = r"(?<![\d.])(?P<{0}>\d{{1,9}}(?:\.\d{{1,3}})?) ?(?P<{0}_unit>[KMGT]i?B)\b"
_MEMORY: Final = r"(?:/dev/shm|/run/shm|\btmpfs\b|\bshm\b|\bshared memory\b)"
_FILES: Final = late(
    rf"(?i){_MEMORY}(?:/[^\s:,;]{{0,200}})?[^\w\n]{{1,4}}(?:[a-z]{{2,12}}\W{{1,3}}){{0,2}}{_SIZE.format('behind')}"
    rf"|{_SIZE.format('before')} (?:[a-z]{{2,12}} ){{0,2}}(?:to|into|in|on|at|under) {_MEMORY}"
)
_COUNT: Final = late(A_COUNT)


class Files(Struct, frozen=True):
    """What was in memory when so many of all were made."""

    used_bytes: int
    done: int
    count: int
    held_bytes: int = 0  # by the processes beside them

    @property
    def whole_bytes(self) -> int:
        """What all of them take, if they are alike."""
        return self.used_bytes * self.count // self.done

    def grew_from(self, earlier: Files) -> bool:
        return self.count == earlier.count and self.done > earlier.done and self.used_bytes > earlier.used_bytes


def files_in_memory(crash: Crash) -> Files | None:
    """By the last print, where each one before it counts fewer that take less, and no process holds what they take."""
    kill = filled_by_nobody(crash)
    if kill is None:
        return None
    printed = [files for line in dict.fromkeys(own_lines(crash)) if (files := _printed(line)) is not None]
    grows = len(printed) > 1 and all(later.grew_from(earlier) for later, earlier in pairwise(printed))
    held = sum(task.rss_bytes + task.swap_bytes for task in kill.tasks)
    return replace(printed[0], held_bytes=held) if grows else None


def _printed(line: str) -> Files | None:
    match = _FILES.search(line)
    counted = (each for each in _COUNT.finditer(line) if each["total"] and line[each.end() : each.end() + 1] != "/")
    count = next(counted, None)
    if match is None or count is None:
        return None
    place = "behind" if match["behind"] else "before"
    used = size(match[place], match[f"{place}_unit"], DECIMAL)
    done, of_all = (number(count[name]) for name in ("count", "total"))
    return Files(used, done, of_all) if used and 0 < done < of_all else None


__all__ = ["Files", "files_in_memory"]
