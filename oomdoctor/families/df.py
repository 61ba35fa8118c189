"""`df`: how large /dev/shm is, and how full the disks are that take what does not fit in memory.

Its words are translated, its columns are not. Without -h it counts blocks, whose size only its header says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, size

SHM: Final = "/dev/shm"  # noqa: S108  (a name)
HEADER_ABOVE: Final = 60  # lines: `df` without a path lists every mount
CHARACTERS: Final = 400


class ShmUsage(Event, frozen=True, kw_only=True):
    """The row of /dev/shm."""

    family = "df"
    kind = "shm-usage"

    role: Role = "context"
    pool: str = "shm"

    total_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    stated: str | None = None  # the size as printed: "24G"


class DiskUsage(Event, frozen=True, kw_only=True):
    """The row of any other mount."""

    family = "df"
    kind = "disk-usage"

    role: Role = "context"
    pool: str = "none"

    mount: str
    total_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    used_fraction: Usage[float | None] = None
    inodes: bool | None = None  # -i counts files, not bytes


_FIGURE: Final = r"\d{1,15}(?:[.,]\d{1,3})?[KMGTP]?i?"
# A long name of a device stands on a line of its own, and the figures below it.
_ROW = late(
    rf"^\s{{0,60}}(?:\S{{1,120}}\s{{1,60}})??(?:[a-z][\w.]{{1,20}}\s{{1,20}})?(?P<total>{_FIGURE})\s{{1,30}}(?P<used>{_FIGURE})"
    rf"\s{{1,30}}(?P<available>-?{_FIGURE})\s{{1,30}}(?P<percent>\d{{1,3}})%\s{{1,20}}(?P<mount>/\S{{0,200}})\s{{0,4}}$"
)
_HEADER = late(r"^\s{0,4}[^\W\d]\S{0,20}\s.{0,120}[^\W\d]\.?%\s{1,8}[^\W\d].{0,24}$")
_BLOCKS = late(r"\b(?P<count>1|512|1024)(?P<unit>[KMGTB]?)-[^\W\d]{2,10}\b")
_INODES = late(r"(?i)inode")


def read(page: Page, index: int) -> Iterator[Read]:
    line = page.lines[index]
    row = _ROW.match(line.text[:CHARACTERS])
    if row is None:
        return
    header = _header(page, index)
    unit = _unit(header)
    sizes = [_size(row[name], unit) for name in ("total", "used", "available")]
    if row["mount"] == SHM:
        yield from _of_shm(page, line, row, sizes)
    elif header is not None:
        yield _of_disk(page, line, row, sizes, inodes=_INODES.search(header) is not None)


def _of_shm(page: Page, line: Line, row: re.Match[str], sizes: list[int | None]) -> Iterator[Read]:
    total, used, available = sizes
    if total is not None:
        yield ShmUsage(
            at=place_of(page, line),
            time=line.mark.time,
            total_bytes=total,
            used_bytes=used,
            available_bytes=available,
            stated=row["total"],
        )


def _of_disk(page: Page, line: Line, row: re.Match[str], sizes: list[int | None], *, inodes: bool) -> Event:
    total, used, available = (None, None, None) if inodes else sizes
    return DiskUsage(
        at=place_of(page, line),
        time=line.mark.time,
        mount=row["mount"],
        total_bytes=total,
        used_bytes=used,
        available_bytes=available,
        used_fraction=int(row["percent"]) / 100,
        inodes=inodes or None,
    )


def _header(page: Page, index: int) -> str | None:
    """The nearest line above that names the columns."""
    above = (line.text[:CHARACTERS] for line in reversed(page.lines[max(0, index - HEADER_ABOVE) : index]))
    return next((text for text in above if _HEADER.match(text)), None)


def _unit(header: str | None) -> tuple[int, str] | None:
    """What a figure without a suffix counts; None where the header does not say, as with -h."""
    if header is None or _INODES.search(header):
        return None
    blocks = _BLOCKS.search(header)
    return (int(blocks["count"]), blocks["unit"]) if blocks else None


def _size(word: str, unit: tuple[int, str] | None) -> int | None:
    digits = word.rstrip("KMGTPi")
    suffix = word[len(digits) :]
    plain = digits.replace(",", ".")
    if suffix:
        return size(plain, suffix, BINARY)
    count, name = unit or (0, "")
    blocks = size(plain, name if count else "B", BINARY)
    return blocks * count if blocks is not None and (count or not blocks) else None


FAMILY = Family(
    name="df",
    anchors=(),
    triggers=("% /",),
    read=read,
)
