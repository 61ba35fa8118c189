"""A range of times that begins in 1970: a stamp of zero makes a row for each second since then."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Final

from msgspec import Struct

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.incident.prints import own_lines
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
_BEGINS: Final = late(r"(?<!\d)1970-01-01(?!\d)")


class Range(Struct, frozen=True):
    """A range of times that begins in 1970."""

    rows: int
    end: date | None = None  # where it has a row for each second


def since_1970(crash: Crash) -> Range | None:
    """The range that was refused: by its number of rows, or by the first day that the job prints."""
    root = crash.root
    lengths = [int(one) for one in _LENGTH.findall(root.shape or "")] if isinstance(root, HostAllocation) else []
    if not lengths or crash.in_trace(_RANGE) is None:
        return None
    seconds = next((length for length in lengths if length in _SECONDS), None)
    if seconds is not None:
        return Range(seconds, BEGIN + timedelta(seconds=seconds))
    return Range(max(lengths)) if any(_BEGINS.search(line) for line in own_lines(crash)) else None


@sign
def range_since_1970(crash: Crash) -> Seen | None:
    """A range of times has as many rows as seconds have passed since 1970, or a hundred million rows and more, and the
    job prints that its times begin there."""
    found = since_1970(crash)
    if found is None:
        return None
    rows, begin = f"{found.rows:,}", BEGIN.isoformat()
    words = (
        say(
            "A range of times has {rows} rows, and the job prints that its times begin on {begin}. A stamp among the "
            "data is zero, or was not parsed.",
            rows=rows, begin=begin,
        )
        if found.end is None
        else say(
            "A range of times has {rows} rows: as many seconds as from {begin} to {end}. A stamp among the data is "
            "zero, or was not parsed.",
            rows=rows, begin=begin, end=found.end.isoformat(),
        )
    )  # fmt: skip
    return Seen(words=words, evidence=(crash.root,))
