"""A range of times that begins in 1970: a stamp of zero makes a row for each second since then."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign

BEGIN: Final = date(1970, 1, 1)
DAY: Final = 86_400  # seconds
# As long as data of these days reach back: from 2012 to 2035
_SECONDS: Final = range((date(2012, 1, 1) - BEGIN).days * DAY, (date(2035, 1, 1) - BEGIN).days * DAY)
# pandas/core: indexes/datetimes.py, resample.py, arrays/_ranges.py; polars: datetime_range, upsample
_RANGE: Final = r"\b(?:date_range|datetime_range|generate_regular_range|_?resample\w*|asfreq|upsample|period_range)\b"
_LENGTH: Final = late(r"\d{9,12}")


def since_1970(crash: Crash) -> tuple[int, date] | None:
    """The rows of such a range, and the day that it ends."""
    root = crash.root
    lengths = _LENGTH.findall(root.shape or "") if isinstance(root, HostAllocation) else []
    rows = next((int(length) for length in lengths if int(length) in _SECONDS), None)
    if rows is None or crash.in_trace(_RANGE) is None:
        return None
    return rows, BEGIN + timedelta(seconds=rows)


@sign
def range_since_1970(crash: Crash) -> Seen | None:
    """A range of times has as many rows as seconds have passed since 1970."""
    found = since_1970(crash)
    if found is None:
        return None
    rows, end = found
    words = say(
        "A range of times has {rows} rows: as many seconds as from {begin} to {end}. A stamp among the data is zero, "
        "or was not parsed.",
        rows=f"{rows:,}", begin=BEGIN.isoformat(), end=end.isoformat(),
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,))
