"""Mesos' agent."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record, size_of
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY

# Mesos' agent counts in MiB (memory.cpp of the cgroups isolator, 0.14 on)
_MESOS = late(
    r"\bMemory limit exceeded: Requested: (?P<limit>\d{1,12}(?:\.\d{1,3})?[KMGT]?B) "
    r"Maximum Used: (?P<used>\d{1,12}(?:\.\d{1,3})?[KMGT]?B)"
    r"|(?:^|\.cpp:\d{1,5}\] )OOM detected for container (?P<name>[\w.-]{1,80})$"
)


def _mesos(page: Page, index: int) -> Event:
    line = page.lines[index]
    said = _MESOS.search(line.text)
    figures = said.groupdict() if said else {}
    limit, used = (size_of((figures[name],) if figures.get(name) else None, BINARY) for name in ("limit", "used"))
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="mesos",
        limit_bytes=limit,
        peak_bytes=used,
        container=figures.get("name"),
    )


RECORDS: Final = (Record(_MESOS, _mesos),)
