"""Times of different clocks compared: how far apart two events are, where what is printed of them tells."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Final

from msgspec import Struct

from oomdoctor.patterns import late, remembered

# A leap year, for times that are printed without one.
SOME_YEAR: Final = 2000
A_YEAR: Final = 366 * 86_400

_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# The host's own clock stands in what the kernel and the journal print; programs in containers may be in another zone.
_FORMS: Final = (
    (
        "program",
        late(
            r"(?:[A-Z][a-z]{2} )?(?P<year>\d{4})[-/.](?P<month>\d\d)[-/.](?P<day>\d\d)[T _]"
            + _CLOCK
            + r"(?:[.,]\d{1,9})? ?(?P<zone>Z|UTC|[+-]\d\d:?\d\d)?"
        ),
    ),
    ("program", late(r"(?P<month>\d\d)-?(?P<day>\d\d) " + _CLOCK)),
    # kubectl's
    (
        "host",
        late(
            r"(?:\w{3}, )?(?P<day>\d{1,2}) (?P<name>[A-Z][a-z]{2}) (?P<year>\d{4}) " + _CLOCK + r" (?P<zone>[+-]\d{4})"
        ),
    ),
    ("host", late(r"(?:\w{3} )?(?P<name>[A-Z][a-z]{2}) {1,2}(?P<day>\d{1,2}) " + _CLOCK + r"(?: (?P<year>\d{4}))?")),
)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECONDS: Final = late(r"\d{16}$")  # of `journalctl -o json`
_SINCE_BOOT: Final = late(r"\d{1,9}\.\d{6}\Z")  # of `dmesg`


class Moment(Struct, frozen=True):
    at: datetime
    clock: str  # "utc", "host", "program": times of one clock compare as they stand
    dated: bool  # whether the year is printed


def moment(time: str | None) -> Moment | None:
    """The time as printed; None for the seconds since a boot and for forms nobody knows."""
    return _moment(time) if time else None


@remembered
def _moment(time: str) -> Moment | None:
    if _MICROSECONDS.match(time):
        return Moment(_EPOCH + timedelta(microseconds=int(time)), "utc", dated=True)
    for clock, form in _FORMS:
        if match := form.match(time):
            said = match.groupdict()
            named = said.get("name")
            if named is not None and named not in _MONTHS:
                return None
            month = _MONTHS.index(named) + 1 if named is not None else int(said["month"])
            year = int(said["year"]) if said.get("year") else SOME_YEAR
            hour, minute, second = (int(said[part]) for part in ("hour", "minute", "second"))
            zone = said.get("zone")
            try:
                at = datetime(year, month, int(said["day"]), hour, minute, second, tzinfo=timezone.utc) - _offset(zone)
            except (ValueError, OverflowError):  # no day of a calendar, or beyond its ends once the zone is off
                return None
            return Moment(at, "utc" if zone else clock, bool(said.get("year")))
    return None


def _offset(zone: str | None) -> timedelta:
    if zone in (None, "Z", "UTC"):
        return timedelta()
    digits = str(zone)[1:].replace(":", "")
    offset = timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    return -offset if str(zone).startswith("-") else offset


def since_boot(time: str | None) -> float | None:
    """The seconds of the kernel's own clock, which compare within one boot."""
    return float(time) if time and _SINCE_BOOT.match(time) else None


def seconds_between(one: Moment, other: Moment) -> float:
    return abs(seconds_since(one, other))


def seconds_since(one: Moment, other: Moment) -> float:
    """From one to the other; less than nothing where the other is earlier."""
    if one.dated and other.dated:
        return (other.at - one.at).total_seconds()
    apart = (other.at.replace(year=SOME_YEAR) - one.at.replace(year=SOME_YEAR)).total_seconds()
    return min(apart, apart - A_YEAR, apart + A_YEAR, key=abs)  # across a New Year's Eve
