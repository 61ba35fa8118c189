"""Grid Engine: the shepherd's line and the mail."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.container.records import Record, figures_of, limit_kill, size_of, two_sizes
from oomdoctor.families.event import Event
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import BINARY

_SGE = late(r"exceeds job (?:hard|soft) limit \"(?:h_vmem|s_vmem|h_rss|s_rss)\"")
# Its mail on an aborted job (libs/uti/sge_status.c): "failed execd enforced h_vmem limit because:"
_SGE_MAIL = late(r"\bfailed execd enforced [hs]_(?:vmem|rss|data) limit\b")
_SGE_MOST = late(r"^\W{0,6}Max vmem {1,12}= {0,4}(\d[\d.]{0,20}[KMGT]?)\b")
_SGE_LINES: Final = 16


def _sge(page: Page, index: int) -> Event:
    line = page.lines[index]
    used, limit = two_sizes(tuple(re.split(r" > limit:", figures_of(line.text).get("sge", ("",))[0])), BINARY)
    return limit_kill(page, line, "sge", used, limit, virtual="vmem" in line.text)


def _sge_mail(page: Page, index: int) -> Event:
    line = page.lines[index]
    most = next((found for one in page.before(index, _SGE_LINES) if (found := _SGE_MOST.search(one.text))), None)
    used = size_of((most[1],), BINARY) if most else None
    return limit_kill(page, line, "sge", used, None, virtual="vmem" in line.text)


RECORDS: Final = (
    Record(_SGE, _sge),
    Record(_SGE_MAIL, _sge_mail),
)
