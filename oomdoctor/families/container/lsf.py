"""LSF's summary of a job."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record, count, figures_of, size_of
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY

_LSF = late(r"TERM_(?:MEMLIMIT|SWAP)\b")
_LSF_JOB = late(r"\bJob <?(\d{1,12})(?:>|: <)")


def _lsf(page: Page, index: int) -> Event:
    lines = page.after(index, 16)
    job = next((m[1] for line in page.before(index, 30) if (m := _LSF_JOB.search(line.text))), None)
    figures = figures_of("\n".join(line.text for line in lines))
    last = next((n for n, line in enumerate(lines) if "Total Requested Memory" in line.text), 0)
    return LimitKill(
        at=place_of(page, lines[0], lines[last]),
        time=lines[0].mark.time,
        manager="lsf",
        job=job,
        reason="TERM_SWAP" if "TERM_SWAP" in lines[0].text else "TERM_MEMLIMIT",
        exit_code=count(figures, "exit_code"),
        peak_bytes=size_of(figures.get("peak"), BINARY),
        requested_bytes=size_of(figures.get("requested"), BINARY),
    )


RECORDS: Final = (Record(_LSF, _lsf),)
