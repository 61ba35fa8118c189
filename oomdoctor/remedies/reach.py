"""Whether a knob acts on what failed: its step, its line, its size, its allocator, its machine, its device.

A cause says what fills the memory; the failure says where that was too much. What acts on the cause elsewhere, or comes
after the failing step, makes no room for this request. `reach.txt` has a row for each such thing.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from msgspec import Struct

from oomdoctor.families.host_alloc import LOCKING, HostAllocation, PinnedAllocation
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.devices import maker
from oomdoctor.incident.model import Crash
from oomdoctor.remedies import cells
from oomdoctor.remedies.settings import Spelling
from oomdoctor.signs.arrays import far_beyond_a_machine
from oomdoctor.signs.machine import is_on_windows

_NOT: Final = "!"
_STROKE: Final = r"\|"
_BUT: Final = " !! "
# What the host is asked for: pages that stay in place, by the system's own call or through a GPU's driver, or any
_PINNED: Final = "pinned"  # a pool, too
_LOCKED: Final = "locked"
_BY_A_DRIVER: Final = "driver"


class Row(Struct, frozen=True):
    """What has to be so for a knob, or for some of its options, to act on the failure."""

    knob: str
    options: tuple[str, ...]
    within: str
    never: str
    spared: str  # what makes that no matter
    times: float | None  # the device
    allocators: tuple[str, ...]
    systems: tuple[str, ...]
    devices: tuple[str, ...]


@cache
def table() -> tuple[Row, ...]:
    return tuple(map(_row, cells.rows(Path(__file__).with_suffix(".txt"))))


def _row(cell: tuple[str, ...]) -> Row:
    knob, options, within, outside, times, allocators, systems, devices, _ = cell
    never, _, spared = outside.replace(_STROKE, "|").partition(_BUT)
    return Row(
        knob=knob,
        options=tuple(options.replace(",", " ").split()),
        within=within.replace(_STROKE, "|"),
        never=never,
        spared=spared,
        times=float(times) if times else None,
        allocators=tuple(allocators.split()),
        systems=tuple(systems.split()),
        devices=tuple(devices.split()),
    )


def acts(knob: str, crash: Crash, row: Spelling | None = None) -> bool:
    """Whether the knob, spelled like this, acts on what failed."""
    about = (one for one in table() if one.knob == knob)
    option = row.key if row is not None else None
    return all(_holds(one, crash) for one in about if not one.options or option in one.options)


def _holds(row: Row, crash: Crash) -> bool:
    if (row.within and not crash.shows(row.within)) or _is_elsewhere(row, crash):
        return False
    if row.times is not None and _is_beyond(crash, row.times):
        return False
    if row.systems and ("windows" if is_on_windows(crash) else "linux") not in row.systems:
        return False
    if row.devices and not _is_of(row.devices, maker(crash)):
        return False
    return not row.allocators or _asked(crash) in (*row.allocators, "")


def _is_elsewhere(row: Row, crash: Crash) -> bool:
    if not row.never or not crash.shows(row.never):
        return False
    return not row.spared or not crash.shows(row.spared)


def _is_of(devices: tuple[str, ...], made: str) -> bool:
    """Whether a maker is one of those that are named, and none of those that are ruled out."""
    named = [one for one in devices if not one.startswith(_NOT)]
    return f"{_NOT}{made}" not in devices and (not named or made in named)


def _is_beyond(crash: Crash, times: float) -> bool:
    """Whether one piece of more than so many devices was asked for, or of more than most machines have."""
    if far_beyond_a_machine(crash):
        return True
    usage = crash.root.figures("usage")
    tried, total = usage.get("tried_bytes"), usage.get("total_bytes")
    return tried is not None and total is not None and tried > times * total


def _asked(crash: Crash) -> str:
    """What the host was asked for; empty where it was not the host, or where nobody says."""
    root = crash.root
    if isinstance(root, HostAllocation):
        return _PINNED if crash.pool == _PINNED or root.pool == _PINNED else "pageable"
    if crash.pool != _PINNED or isinstance(root, Shortage):
        return ""
    return _LOCKED if isinstance(root, PinnedAllocation) and root.allocator in LOCKING else _BY_A_DRIVER


__all__ = ["Row", "acts", "table"]
