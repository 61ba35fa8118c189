"""`systemd-cgtop`: what each control group uses now, its page cache included."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import size

CHARACTERS: Final = 400
ROWS: Final = 400
MOST_GROUPS: Final = 20  # the largest


class GroupMemory(Struct, frozen=True, kw_only=True):
    group: str
    bytes: int


class GroupsNow(Event, frozen=True, kw_only=True):
    """One print."""

    family = "systemd_cgtop"
    kind = "groups-now"

    role: Role = "context"
    pool: str = "cgroup"

    groups: tuple[GroupMemory, ...]


_FIGURE: Final = r"(?:\d{1,9}(?:\.\d)?[BKMGT]?|-)"
_ROW = late(
    r"^\s{0,4}(?P<group>/[^\s:]{0,200}|[\w@.\\-]{1,160}\.(?:slice|scope|service)[^\s:]{0,200})\s{1,80}(?:\d{1,6}|-)\s{1,12}"
    rf"(?:\d{{1,5}}(?:\.\d)?|-)\s{{1,12}}(?P<memory>\d{{1,9}}(?:\.\d)?)(?P<unit>[BKMGT])\s{{1,12}}{_FIGURE}\s{{1,12}}{_FIGURE}\s{{0,4}}$"
)
_HEADER: Final = "%CPU"


def read(page: Page, index: int) -> Iterator[Read]:
    found: list[GroupMemory] = []
    lines = page.after(index, ROWS)
    last = lines[0]
    for line in lines[1:] if _HEADER in lines[0].text else lines:
        row = _ROW.match(line.text[:CHARACTERS])
        if row is None:
            break
        used = size(row["memory"], row["unit"])
        found += [GroupMemory(group=row["group"], bytes=used)] if used is not None else []
        last = line
    if found:
        largest = sorted(found, key=lambda one: -one.bytes)[:MOST_GROUPS]
        yield GroupsNow(at=place_of(page, lines[0], last), time=lines[0].mark.time, groups=tuple(largest))


FAMILY = Family(
    name="systemd_cgtop",
    anchors=(),
    triggers=("Control Group ", "CGroup ", ".slice ", ".scope ", ".service ", "  -      -   "),
    read=read,
)
