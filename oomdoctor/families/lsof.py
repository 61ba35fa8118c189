"""`lsof` of the device files of TPUs: whoever has one open holds its memory. How much, it does not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from oomdoctor.families.gpu_table import CardProcess, Found
from oomdoctor.patterns import late
from oomdoctor.streams import Line

CHARACTERS: Final = 300
TOOL: Final = "lsof"
_ROW = late(
    r"^\s{0,4}(?P<name>\S{1,40})\s{1,20}(?P<pid>\d{1,9})\s{1,20}\S.{1,160}\s"
    r"/dev/(?:(?:accel|tenstorrent/)(?P<number>\d{1,3})|vfio/\d{1,4})\s{0,4}$"
)


def holders(lines: Sequence[Line]) -> Found | None:
    """Each process once for each device: it has a row for every handle and mapping."""
    found: dict[tuple[int, str | None], CardProcess] = {}
    end = lines[0].end
    for line in lines:
        row = _ROW.match(line.text[:CHARACTERS])
        if row is None:
            break
        number = int(row["number"]) if row["number"] else None
        key = int(row["pid"]), row["number"]
        found[key] = CardProcess(gpu=number, pid=int(row["pid"]), name=row["name"], used_bytes=None)
        end = line.end
    return Found(end=end, processes=tuple(found.values()), tool=TOOL) if found else None
