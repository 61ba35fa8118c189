"""Ray's object store: full, spilling to a disk that is full, or on a /dev/shm that is too small for it.

Units differ by the line: plasma's own "GB" is decimal, the raylet's disk lines print GiB as "GB" (plain bytes up to
2.9), spilling is in MiB, and the size that the /dev/shm warning would pass to Docker is in GiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from oomdoctor import grammars, units
from oomdoctor.families import Family
from oomdoctor.families.event import Event, Place, Process, Read, Role, Threshold, Usage
from oomdoctor.families.frames import frames, is_exception
from oomdoctor.families.lines import block_of, place_of
from oomdoctor.families.remote_call import caller, callers
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page


class StoreFull(Event, frozen=True, kw_only=True):
    """An object did not fit into the store: ObjectStoreFullError, or the store's own refusal.

    Since 1.4 the store goes on in files on disk instead, so this error is rare in newer logs.
    """

    family = "ray_store"
    kind = "store-full"

    pool: str = "object_store"
    strength: int = 3

    object_bytes: Usage[int | None] = None
    used_bytes: Usage[int | None] = None
    capacity_bytes: Usage[int | None] = None
    used_fraction: Usage[float | None] = None  # before 1.3, in whole percent
    callers: tuple[str, ...] = ()  # the remote calls that failed for it, outermost first


class DiskFull(Event, frozen=True, kw_only=True):
    """The disk that Ray spills to (or keeps its session on) is full: OutOfDiskError, "is over 95% full"."""

    family = "ray_store"
    kind = "disk-full"

    pool: str = "object_store"
    strength: int = 3

    object_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    total_bytes: Usage[int | None] = None
    fraction: Threshold[float | None] = None
    warning: bool | None = None  # the disk is said to be nearly full: nothing was refused yet
    spilling: bool | None = None  # the system's bare "no space", behind Ray's reports of what it spilled
    io_worker: bool | None = None  # Ray's own process that writes objects to disk says so
    errno: int | None = None  # 28: the disk is full, 122: its quota for this user is

    def identity(self) -> str:
        """The warning is printed every ten seconds, its figures a little other each time; an IO worker prints the
        system's words in a traceback and again in a sentence of its own."""
        if self.io_worker:
            return f"{self.family} spilled to a full disk {self.errno}"
        return f"{self.family} disk nearly full {self.total_bytes}" if self.warning else Event.identity(self)


class StoreUsage(Event, frozen=True, kw_only=True):
    """How full the store is. At capacity with nothing left to spill, requests wait: that is a failure."""

    family = "ray_store"
    kind = "store-usage"

    role: Role = "context"
    pool: str = "object_store"

    used_bytes: Usage[int | None] = None
    capacity_bytes: Usage[int | None] = None
    spillable_bytes: Usage[int | None] = None
    in_use_bytes: Usage[int | None] = None
    pending_bytes: Usage[int | None] = None
    fallback_bytes: Usage[int | None] = None  # already in files on disk, because the store is full
    used_fraction: Usage[float | None] = None  # `ray memory` prints no capacity
    pending_objects: int | None = None
    spillable_objects: int | None = None
    in_use_objects: int | None = None
    at_capacity: bool | None = None


class Spilled(Event, frozen=True, kw_only=True):
    """Objects went to disk or came back: the store works, it is small for the work."""

    family = "ray_store"
    kind = "spilled"

    role: Role = "context"
    pool: str = "object_store"

    spilled_bytes: Usage[int | None] = None
    restored_bytes: Usage[int | None] = None
    objects: int | None = None


class StoreTooLarge(Event, frozen=True, kw_only=True):
    """The store that was asked for is larger than /dev/shm (or than memory): refused, or slow with a warning."""

    family = "ray_store"
    kind = "store-too-large"

    pool: str = "shm"
    strength: int = 3

    requested_bytes: Usage[int | None] = None
    shm_bytes: Usage[int | None] = None
    advised_bytes: Usage[int | None] = None  # what the warning would pass as --shm-size
    refused: bool | None = None


# The statistics are some 25 lines; the error has a line of advice and at times a status behind it.
BLOCK_LINES: Final = 40

# Web consoles and `grep -A` leave "| " and "--" between the lines.
_PART = late(
    r"^(?:\|\s{0,4})?(?:\(\w{1,60} pid=\d{1,9}\)\s{0,4})?(?:={4,}|--$|Plasma store"
    r"|Current usage:|- [a-z]|\d+ pending objects|\(global lru\)|Eviction Stats|The object cannot"
    r"|The local object store|$)"
)

_FULL = late(r"Plasma memory usage \d{1,12} MiB, \d{1,12} objects, (\d{1,3}(?:\.\d{1,4})?)% full")
_ON_DISK = late(r"^\s{0,4}Plasma filesystem mmap usage: (\d{1,12}) MiB")

LINES_OF_START: Final = 20
_OF_START = late(r"Starting the Plasma object store with|IPC socket failed for pathname \S{1,300}plasma_store")
_SPILLING = late(r"\b(?:Spilled|Restored) \d")
_NO_SPACE: Final = "[Errno 28] No space left on device"
_NO_QUOTA: Final = "[Errno 122] Disk quota exceeded"
_NOT_CREATED: Final = "Out-of-memory: Failed to create object"  # object_lifecycle_manager.cc, 1.0 to 2.9
_NEARLY_FULL: Final = "% full, available space"
# ray/_private/runtime_env: the packages and environments of jobs lie in the session's folder
SET_UP_BELOW: Final = 200  # lines
_NOT_SET_UP: Final = late(r"\bRuntimeEnvSetupError: |\bFailed to (?:set up|create) (?:the )?runtime env(?:ironment)?\b")
_MAKES: Final = late(
    r"\bplugin\.create\(|\bin (?:create_for_plugin_if_needed|download_and_unpack_package|unzip_package)\b"
)
_SPILLING_GAVE_UP: Final = "Failed to spill objects"
_SPILLING_FAILED: Final = "IO worker was spilling objects"
_SPILL_FOLDER: Final = "/ray_spilled_objects"  # the default's name below the session's folder
_EXTERNAL_STORAGE: Final = late(r"\bray/(?:_private/)?external_storage\.py$")  # it moved
_NAMES_A_PATH = late(r"No space left on device: ['\"<]?(.)")
SPILLED_ABOVE: Final = 60
OWN_FRAMES: Final = 4  # below the storage's frame those of a library for remote files

_Found = Mapping[str, tuple[str, ...]]


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text
    if any(words in text for words in (_NO_SPACE, _NO_QUOTA)) and _SPILLING_GAVE_UP not in text:
        yield from _no_space(page, index)
        return
    above = page.lines[max(0, index - 2) : index]
    if "Current usage:" in page.lines[index].text and any("at capacity" in line.text for line in above):
        return  # read with the line above, which alone names its writer
    lines = _block(page, index) if not _SPILLING.search(page.lines[index].text) else [page.lines[index]]
    text = "\n".join(line.text for line in lines)
    if "instead of /dev/shm" in text:
        text += _start_of_the_store(page, index)
    found = _clauses(text)
    about = _about(page, index, lines)
    event = (
        _refusal(found, about)
        or _disk(found, about)
        or _shm(found, about)
        or _statistics(found, about)
        or _spilling(found, about)
    )
    if event is not None:
        yield _with_share(event, page, index)


def _with_share(event: Event, page: Page, index: int) -> Event:
    """With the last two figures of `ray memory`, which stand behind its sum and on the line below."""
    full = _FULL.search(page.lines[index].text[:400])
    if full is None or not isinstance(event, StoreUsage):
        return event
    below = (_ON_DISK.match(line.text[:400]) for line in page.after(index, 2)[1:])
    mib = next((match[1] for match in below if match is not None), None)
    return replace(
        event,
        used_fraction=round(float(full[1]) / 100, 4),
        fallback_bytes=units.size(mib, "MiB") if mib else event.fallback_bytes,
    )


def _no_space(page: Page, index: int) -> Iterator[Read]:
    """The IO worker's "no space", or a bare one behind reports of spilling: the store's overflow filled the disk."""
    line = page.lines[index]
    raised = frames(page.before(index))
    named = _SPILLING_FAILED in line.text or _SPILL_FOLDER in line.text
    if named or any(_EXTERNAL_STORAGE.search(frame.file) for frame in raised[-OWN_FRAMES:]):
        about = _about(page, index, [line])
        errno = 122 if _NO_QUOTA in line.text else 28
        yield DiskFull(at=about.at, time=about.time, process=about.process, io_worker=True, errno=errno)
        return
    above = page.lines[max(0, index - SPILLED_ABOVE) : index]
    spills = any("Spilled " in one.text and _SPILLING.search(one.text) for one in above)
    if not spills or _NO_SPACE not in line.text or _NAMES_A_PATH.search(line.text):
        return
    if raised and "/ray/" not in raised[-1].file:
        return
    about = _about(page, index, [line])
    yield DiskFull(at=about.at, time=about.time, process=about.process, spilling=True)


def _start_of_the_store(page: Page, index: int) -> str:
    """The lines behind the /dev/shm warning of Ray before 0.8: how large the store is, and whether it came up."""
    lines = page.after(index, LINES_OF_START)[1:]
    return "\n" + "\n".join(line.text for line in lines if _OF_START.search(line.text))


def _block(page: Page, index: int) -> list[Line]:
    return block_of(page, index, BLOCK_LINES, _PART.match)


class _About(Struct, frozen=True):
    at: Place
    time: str | None
    process: Process
    callers: tuple[str, ...]
    # of the raylet's warning of a full disk: printed every ten seconds as long as it is so, or the session's folder on
    # that disk did not get what Ray makes there for a job
    lasts: bool


def _about(page: Page, index: int, lines: list[Line]) -> _About:
    first = lines[0]
    place = place_of(page, first, lines[-1])
    return _About(place, first.mark.time, caller(page, index), callers(page, index), _lasts(page, index))


def _lasts(page: Page, index: int) -> bool:
    return page.once(_warned) > 1 or any(index < at < index + SET_UP_BELOW for at in page.once(_unmade))


def _warned(page: Page) -> int:
    """How often the raylet says that the disk is nearly full."""
    return sum(1 for line in page.lines if _NEARLY_FULL in line.text)


def _unmade(page: Page) -> list[int]:
    """Where Ray failed to make the environment of a job, and the log does not hold the error that says why."""
    lines = page.lines
    failed = [n for n, line in enumerate(lines) if "untime" in line.text and _NOT_SET_UP.search(line.text[:400])]
    return [n for n in failed if _cut_while_making(lines[n + 1 : n + 1 + BLOCK_LINES])]


def _cut_while_making(lines: list[Line]) -> bool:
    making = any(_MAKES.search(line.text[:400]) for line in lines)
    return making and not any(is_exception(line.text) for line in lines)


def _refusal(found: _Found, about: _About) -> Event | None:
    if "refused" not in found:
        return None
    return StoreFull(
        at=about.at,
        time=about.time,
        process=about.process,
        object_bytes=_size(found, "object_size", units.DECIMAL),
        capacity_bytes=_count(found, "capacity"),
        used_fraction=_fraction(found, "lru_used"),
        callers=about.callers,
    )


def _disk(found: _Found, about: _About) -> Event | None:
    if not {"disk_full", "out_of_disk", "over_full"} & found.keys():
        return None
    warning = "over_full" in found
    left = _size(found, "available", units.BINARY)
    return DiskFull(
        at=about.at,
        time=about.time,
        process=about.process,
        role="context" if warning and not about.lasts and left != 0 else "root",  # on a disk with nothing left it stays
        strength=1 if warning else 3,
        object_bytes=_size(found, "object_of_size", units.DECIMAL),
        available_bytes=left,
        total_bytes=_size(found, "disk_capacity", units.BINARY),
        fraction=_fraction(found, "over_full"),
        warning=True if warning else None,
    )


def _shm(found: _Found, about: _About) -> Event | None:
    refused = "exceeds" in found or "too_large" in found
    if not refused and "slow" not in found:
        return None
    return StoreTooLarge(
        at=about.at,
        time=about.time,
        process=about.process,
        role="root" if refused or "not_up" in found else "context",
        strength=3 if refused else 2 if "not_up" in found else 0,
        pool="host_ram" if "too_large" in found else "shm",
        requested_bytes=_size(found, "configured", units.DECIMAL) or _size(found, "started_with", units.DECIMAL),
        shm_bytes=_size(found, "exceeds", units.DECIMAL) if "exceeds" in found else _size(found, "only", units.DECIMAL),
        advised_bytes=_size(found, "advised", units.BINARY),
        refused=refused,
    )


def _statistics(found: _Found, about: _About) -> Event | None:
    if not {"at_capacity", "usage", "memory_usage", "started_with"} & found.keys():
        return None
    used, capacity = _pair(found)
    if used == 0:
        return None  # an empty store, as every raylet prints at its start
    pending = _count(found, "pending")
    spillable = _count(found, "spillable")
    # Nothing can be spilled and somebody waits: the store does not get out of this by itself.
    stuck = bool(pending) and spillable == 0 and used is not None and capacity is not None and used >= capacity
    return StoreUsage(
        at=about.at,
        time=about.time,
        process=about.process,
        role="root" if stuck else "context",
        strength=2 if stuck else 0,
        used_bytes=used if used is not None else _size(found, "memory_usage", units.BINARY),
        capacity_bytes=capacity if capacity is not None else _size(found, "started_with", units.DECIMAL),
        spillable_bytes=_count(found, "spillable_bytes"),
        in_use_bytes=_count(found, "in_use_bytes"),
        pending_bytes=_size(found, "pending", units.DECIMAL, 1),
        fallback_bytes=_count(found, "fallback"),
        pending_objects=pending,
        spillable_objects=spillable,
        in_use_objects=_count(found, "in_use"),
        at_capacity=True if "at_capacity" in found else None,
    )


def _spilling(found: _Found, about: _About) -> Event | None:
    if "spilled" not in found and "restored" not in found:
        return None
    name = "spilled" if "spilled" in found else "restored"
    return Spilled(
        at=about.at,
        time=about.time,
        process=about.process,
        spilled_bytes=_size(found, "spilled", units.BINARY),
        restored_bytes=_size(found, "restored", units.BINARY),
        objects=_count(found, name, 1),
    )


def _clauses(text: str) -> _Found:
    found: dict[str, tuple[str, ...]] = {}
    for name, values in grammars.said("ray_store", text[:6000]):
        found.setdefault(name, values)
    return found


def _value(found: _Found, name: str, position: int = 0) -> str | None:
    values = found.get(name, ())
    return values[position] if position < len(values) else None


def _count(found: _Found, name: str, position: int = 0) -> int | None:
    digits = (_value(found, name, position) or "").replace(",", "").rstrip(".")
    return int(digits) if digits.isdecimal() else None


def _size(found: _Found, name: str, table: Mapping[str, int], position: int = 0) -> int | None:
    match = re.match(r"([\d.,]+)\s*([A-Za-z]*)", _value(found, name, position) or "")
    return units.size(match[1].rstrip("."), match[2], table) if match else None


def _pair(found: _Found) -> tuple[int | None, int | None]:
    """ "0.0943726 / 0.125829 GB": one unit for both, decimal."""
    match = re.match(r"([\d.]+)\s*([A-Za-z]+)", _value(found, "usage", 1) or "")
    if match is None:
        return None, None
    used = _value(found, "usage") or ""
    return units.size(used, match[2], units.DECIMAL), units.size(match[1], match[2], units.DECIMAL)


def _fraction(found: _Found, name: str) -> float | None:
    percent = (_value(found, name) or "").rstrip("%")
    return float(percent) / 100 if percent else None


FAMILY = Family(
    name="ray_store",
    anchors=(
        "Out-of-disk",
        "Plasma fallback allocator failed",
        "Out of disk space with fallocate",
        _SPILLING_GAVE_UP,
        _NEARLY_FULL,
        "Plasma store ",
        "dev/shm",
        _SPILLING_FAILED,
    ),
    triggers=(
        "object store because it is full",
        "ObjectStoreFullError: Failed to put object",
        _NOT_CREATED,
        "fit in the plasma store",
        "PlasmaStoreFull: ",
        "PlasmaError::OutOfMemory",
        " attempts. Plasma store status",
        "Local disk is full",
        "Out-of-disk",
        "Plasma fallback allocator failed",
        "Out of disk space with fallocate",
        _SPILLING_GAVE_UP,
        _NEARLY_FULL,
        "Plasma store at capacity",
        "Current usage: ",
        "Plasma memory usage",
        "exceeds /dev/shm size",
        "instead of /dev/shm because",
        "store memory size is greater than the total available",
        "Starting the Plasma object store with",
        "Allowing the Plasma store to use up to",
        "Spilled ",
        "Restored ",
        _NO_SPACE,
        _NO_QUOTA,
    ),
    read=read,
)
