"""/proc/PID/status: what one process holds, and the most it ever held. It is there as long as the process is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from oomdoctor.families import Family
from oomdoctor.families.event import Event, Process, Read, Role, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import KIB

ROWS_ABOVE: Final = 30
ROWS: Final = 40
CHARACTERS: Final = 200


class ProcessStatus(Event, frozen=True, kw_only=True):
    """One process at one moment."""

    family = "process_status"
    kind = "process-status"

    role: Role = "context"
    pool: str = "host_ram"

    address_space_bytes: Usage[int | None] = None
    peak_address_space_bytes: Usage[int | None] = None
    resident_bytes: Usage[int | None] = None
    peak_resident_bytes: Usage[int | None] = None
    anonymous_bytes: Usage[int | None] = None
    file_bytes: Usage[int | None] = None
    shared_bytes: Usage[int | None] = None
    locked_bytes: Usage[int | None] = None
    pinned_bytes: Usage[int | None] = None
    swapped_bytes: Usage[int | None] = None
    huge_pages_bytes: Usage[int | None] = None
    threads: int | None = None


_ROW = late(r"^\s{0,4}(?P<key>[A-Z][A-Za-z_]{2,20}):\s{1,12}(?P<value>\S.{0,100}?)\s{0,4}$")
_SIZE = late(r"(?P<kib>\d{1,15}) kB")
_SIZES: Final[Mapping[str, str]] = {
    "VmPeak": "peak_address_space", "VmSize": "address_space", "VmLck": "locked", "VmPin": "pinned",
    "VmHWM": "peak_resident", "VmRSS": "resident", "RssAnon": "anonymous", "RssFile": "file", "RssShmem": "shared",
    "VmSwap": "swapped", "HugetlbPages": "huge_pages",
}  # fmt: skip


def read(page: Page, index: int) -> Iterator[Read]:
    said: dict[str, str] = {}
    last = page.lines[index]
    for line in page.after(index, ROWS):
        row = _ROW.match(line.text[:CHARACTERS])
        if row is None:
            break
        said[row["key"]] = row["value"]
        last = line if row["key"] in _SIZES else last
    figures: dict[str, Any] = {
        f"{name}_bytes": int(match["kib"]) * KIB
        for key, name in _SIZES.items()
        if (match := _SIZE.fullmatch(said.get(key, ""))) is not None
    }
    if not figures:
        return
    named = _above(page, index) | said
    pid = named.get("Pid", "")
    yield ProcessStatus(
        at=place_of(page, page.lines[index], last),
        time=page.lines[index].mark.time,
        process=Process(pid=int(pid) if pid.isdecimal() else None, name=named.get("Name")),
        threads=int(said["Threads"]) if said.get("Threads", "").isdecimal() else None,
        **figures,
    )


def _above(page: Page, index: int) -> dict[str, str]:
    """Whose it is: the rows in front of the sizes, nearest first."""
    said: dict[str, str] = {}
    for line in reversed(page.lines[max(0, index - ROWS_ABOVE) : index]):
        row = _ROW.match(line.text[:CHARACTERS])
        if row is None:
            if ":" not in line.text:
                break
            continue
        said.setdefault(row["key"], row["value"])
    return said


FAMILY = Family(
    name="process_status",
    anchors=(),
    triggers=("VmPeak:", "VmSize:", "VmHWM:", "VmRSS:"),
    read=read,
)
