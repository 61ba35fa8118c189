"""The kernel's settings of virtual memory: `sysctl vm`, or the files of /proc/sys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Read, Role, Threshold
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 300
ROWS: Final = 60


class KernelSettings(Event, frozen=True, kw_only=True):
    """What one print says of them."""

    family = "sysctl"
    kind = "kernel-settings"

    role: Role = "context"
    pool: str = "host_ram"

    overcommit_memory: Threshold[int | None] = None  # 0: a guess, 1: always, 2: never beyond CommitLimit
    overcommit_ratio: Threshold[int | None] = None  # per cent of RAM in CommitLimit
    overcommit_kbytes: Threshold[int | None] = None
    max_map_count: Threshold[int | None] = None


_ROW = late(
    r"^\s{0,4}(?:vm\.|(?:/proc/sys/)?vm/|/proc/sys/vm/)(?P<name>[a-z_]{4,40})\s?[=:]\s{0,2}(?P<value>\d{1,19})\s{0,4}$"
)
_CAT = late(r"\bcat /proc/sys/vm/(?P<name>overcommit_memory|overcommit_ratio|max_map_count)\s{0,4}$")
_ANSWER = late(r"^\s{0,4}(?P<value>\d{1,19})\s{0,4}$")
_NAMES: Final = ("overcommit_memory", "overcommit_ratio", "overcommit_kbytes", "max_map_count")


def read(page: Page, index: int) -> Iterator[Read]:
    lines = page.after(index, ROWS)
    first = last = lines[0]
    said: dict[str, Any] = {}
    if (asked := _CAT.search(first.text[:CHARACTERS])) is not None:
        answer = _ANSWER.match(lines[1].text[:CHARACTERS]) if len(lines) > 1 else None
        said = {asked["name"]: int(answer["value"])} if answer is not None else {}
        last = lines[1] if answer is not None else first
    else:
        for line in lines:
            row = _ROW.match(line.text[:CHARACTERS])
            if row is None:
                break
            if row["name"] in _NAMES:
                said[row["name"]] = int(row["value"])
                last = line
    if said:
        yield KernelSettings(at=place_of(page, first, last), time=first.mark.time, **said)


FAMILY = Family(
    name="sysctl",
    anchors=(),
    triggers=("vm.overcommit_", "vm.max_map_count", "vm/overcommit_", "vm/max_map_count"),
    read=read,
)
