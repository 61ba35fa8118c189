"""HTCondor."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record, figures_of
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import MIB

_CONDOR = late(
    r"gone over (?:cgroup )?memory limit of \d|Job has encountered an out-of-memory event"
    r"|\bmemory usage exceeded request_memory|child was OOM killed by cgroup memory limit"
)


def _condor(page: Page, index: int) -> Event:
    line = page.lines[index]
    figures = figures_of(" ".join(one.text for one in page.after(index, 2)[:2]))
    gone_over, peak = figures.get("gone_over", ()), figures.get("peak", ())
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="htcondor",
        limit_bytes=_megabytes(gone_over),
        peak_bytes=_megabytes(peak),
    )


def _megabytes(values: tuple[str, ...]) -> int | None:
    """HTCondor counts in MiB."""
    number = re.match(r"\d{1,12}(?![.,]?\d)", values[0]) if values else None
    return int(number[0]) * MIB if number else None


RECORDS: Final = (Record(_CONDOR, _condor),)
