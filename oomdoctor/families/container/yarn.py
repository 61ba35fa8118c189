"""YARN, and what Spark makes of its kill."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container.records import Record, figures_of, limit_kill, two_sizes
from oomdoctor.families.event import Event, Process
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY

# ContainersMonitorImpl.java of Hadoop 2 and 3, and what Spark makes of it (YarnAllocator.scala), which named the memory
# since 2.4
_YARN = late(
    r"killed by YARN for exceeding (?:(?:physical|virtual) )?memory limits"
    r"|running (?:\d{1,20}B )?beyond (?:the )?'?(?i:physical|virtual)'? memory limit"
)
_YARNS_VIRTUAL = late(r"\b(?:exceeding|beyond)(?: the)? '?(?i:virtual)\b")
_YARNS_EXECUTOR = late(r"\bLost (executor \d{1,9}) on |\((executor \d{1,9}) exited\b")


def _yarn(page: Page, index: int) -> Event:
    """Hadoop prints both figures whichever was over, Spark the one that was."""
    line = page.lines[index]
    figures = figures_of(line.text)
    resident, allowed = two_sizes(tuple(figures.get("physical", ("",))[0].split(" of ")), BINARY)
    virtual = _YARNS_VIRTUAL.search(line.text) is not None or (resident is None and "virtual" in figures)
    reserved, most = two_sizes(tuple(figures.get("virtual", ("",))[0].split(" of ")), BINARY)
    used, limit = (reserved, most) if virtual else (resident, allowed)
    of_spark = _YARNS_EXECUTOR.search(line.text)
    return replace(
        limit_kill(page, line, "yarn", used, limit, virtual=virtual),
        process=Process(name=of_spark[1] or of_spark[2]) if of_spark else Process(),
        resident_bytes=resident if virtual else None,
    )


RECORDS: Final = (Record(_YARN, _yarn),)
