"""Shared memory (/dev/shm): who found no room in it, and how full it was."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from oomdoctor.families.container import LimitKill
from oomdoctor.families.data_loader import SharedMemoryFull
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.event import Place
from oomdoctor.families.kill import SIGBUS, SIGKILL, Kill
from oomdoctor.families.ray_death import FatalSignal
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import SHM, SYSTEM_V
from oomdoctor.signs.host_data import (
    many_readers_and_one_vanished,
    vanished_at_a_line_on_data,
    vanished_while_reading_data,
)
from oomdoctor.units import MIB, apart, show

DOCKERS_DEFAULT: Final = 64 * MIB
FULL: Final = 0.9
LISTINGS: Final = 3
_SEGMENT_NAMED: Final = "/nccl-"
_NO_SPACE: Final = "No space left on device"
ROOM: Final = 0.5  # of it at most in use: no page of it was missing
_USERS: Final = {
    "torch": mark("PyTorch's DataLoader workers"),
    "nccl": mark("NCCL"),
    "python": mark("Python's shared memory"),
    "joblib": mark("joblib"),
    "torch.save": mark("torch.save"),
    "sqlite": mark("SQLite"),
    "sort": mark("sort"),
    "postgresql": mark("PostgreSQL"),
    "messages": mark("a message queue between processes"),
}
_READING: Final = (many_readers_and_one_vanished, vanished_at_a_line_on_data, vanished_while_reading_data)


@sign
def no_segment_of_system_v(crash: Crash) -> Seen | None:
    """The kernel refused a System V segment: how many there may be, and of how many pages, are limits of its own
    (kernel.shmmni and kernel.shmall; shmget(2), ENOSPC)."""
    full = crash.first(SharedMemoryFull)
    if full is None or full.user != "system-v":
        return None
    words = say(
        "The kernel refused a System V segment of shared memory: it has as many as kernel.shmmni allows, or as many "
        "pages as kernel.shmall. /dev/shm has no part in it.",
    )
    return Seen(words=words, evidence=(full,), pool="shm", next_evidence=(SYSTEM_V,))


@sign
def no_room_and_a_figure_for_it(crash: Crash) -> Seen | None:
    """A program found no room in /dev/shm; an errno, docker's default size or 90% in use confirm it."""
    full = crash.first(SharedMemoryFull)
    if full is None:
        return None
    size = _size(crash)
    small = size is not None and size <= DOCKERS_DEFAULT
    return _no_room(crash, full) if full.errno is not None or small or _fullest(crash) >= FULL else None


@sign
def no_room(crash: Crash) -> Seen | None:
    """A program found no room in /dev/shm. NCCL's message alone, without an errno and the segment, may have another
    reason."""
    full = crash.first(SharedMemoryFull)
    if full is None:
        return None
    seen = _no_room(crash, full)
    named = _SEGMENT_NAMED in full.at.text or _NO_SPACE in full.at.text
    if full.user != "nccl" or full.tried_bytes or named:
        return seen
    doubt = say("the message is cut off before the segment's name and the reason; missing rights give the same one")
    return replace(seen, against=(doubt,), unsure=True)


@sign
def joblib_found_no_room(crash: Crash) -> Seen | None:
    """joblib maps its workers' input into memory there, once for all of them, and may do so on disk."""
    full = crash.first(SharedMemoryFull)
    return Seen(words="") if full is not None and full.user == "joblib" else None


@sign
def a_file_found_no_room(crash: Crash) -> Seen | None:
    """What is written as a file has a place on a disk."""
    full = crash.first(SharedMemoryFull)
    return Seen(words="") if full is not None and full.user == "torch.save" else None


@sign
def volume_grew_over_its_size(crash: Crash) -> Seen | None:
    """Kubernetes evicted a pod whose in-memory volume exceeded its size."""
    kill = next((kill for kill in crash.every(LimitKill) if kill.pool == "shm"), None)
    if kill is None:
        return None
    size = say("{size} is allowed", size=show(kill.limit_bytes)) if kill.limit_bytes is not None else ""
    words = say("An in-memory volume of the pod, such as /dev/shm, exceeded its size limit.")
    return Seen(words=joined((words, size)) if size else words, evidence=(kill,))


@sign
def store_refused_for_shm(crash: Crash) -> Seen | None:
    """Ray rejects an object store that is larger than /dev/shm."""
    store = _store(crash)
    return _store_too_large(store) if store is not None and store.refused else None


@sign
def store_larger_than_shm(crash: Crash) -> Seen | None:
    """Ray puts its object store on disk instead of /dev/shm, where it may not start."""
    store = _store(crash)
    if store is None:
        return None
    elsewhere = say("Ray puts it on disk instead, which is slower and alone ends nothing")
    return replace(_store_too_large(store), against=(elsewhere,))


@sign
def bus_error_and_full(crash: Crash) -> Seen | None:
    """A process died of SIGBUS, and /dev/shm was at least 90% full."""
    crashed = _bus_error(crash)
    if crashed is None or _fullest(crash) < FULL:
        return None
    return replace(_died(crash, crashed), shows_memory=True)


@sign
def bus_error_in_dockers_default(crash: Crash) -> Seen | None:
    """A process died of SIGBUS, and /dev/shm has docker's default size: every data loader fills it."""
    crashed, size = _bus_error(crash), _size(crash)
    if crashed is None or size is None or size > DOCKERS_DEFAULT:
        return None
    return replace(_died(crash, crashed), shows_memory=True)


@sign
def bus_error_that_names_shm(crash: Crash) -> Seen | None:
    """A process died of SIGBUS, and its message mentions shared memory."""
    crashed = _bus_error(crash)
    named = isinstance(crashed, FatalSignal) and crashed.shared_memory
    return _died(crash, crashed, against=_other_reasons()) if crashed is not None and named else None


@sign
def bus_error_while_reading_data(crash: Crash) -> Seen | None:
    """A process died of SIGBUS while several loaded or tokenized data: they hand it on in shared memory."""
    crashed, root = _bus_error(crash), crash.root
    killed_first = isinstance(root, Kill) and root.signal == SIGKILL
    if crashed is None or killed_first or not any(reads(crash) for reads in _READING):
        return None
    return _died(crash, crashed, against=_other_reasons())


@sign
def bus_error(crash: Crash) -> Seen | None:
    """A process died of SIGBUS, as happens when /dev/shm is full."""
    crashed = _bus_error(crash)
    return _died(crash, crashed, against=_other_reasons()) if crashed is not None else None


@sign
def bus_error_with_room(crash: Crash) -> Seen | None:
    """A process died of SIGBUS, and /dev/shm was never more than half full."""
    share = _fullest(crash, before=crash.root.at)
    if crash.first(SharedMemoryFull) is not None or _store(crash) is not None or _bus_error(crash) is None:
        return None
    if _size(crash) is None or not 0 < share < ROOM:
        return None
    return Seen(words=say("shared memory was at most {share} full", share=f"{share:.0%}"))


@sign
def it_filled_steadily(crash: Crash) -> Seen | None:
    """Three listings or more of one size, each as full as the one before it or fuller, up to the limit."""
    usages = [usage for usage in crash.every(ShmUsage) if usage.used_bytes is not None]
    sizes = [usage.used_bytes or 0 for usage in usages]
    grows = all(one <= other for one, other in pairwise(sizes))
    if len(usages) < LISTINGS or not grows or len({usage.total_bytes for usage in usages}) > 1:
        return None
    if sizes[0] > ROOM * sizes[-1] or _share(usages[-1]) < FULL:
        return None
    words = say(
        "It filled from {first} to {last} in {count} listings, and nothing was given back between them.",
        first=show(sizes[0]),
        last=show(sizes[-1]),
        count=len(usages),
    )
    return Seen(words=words, evidence=(usages[0], usages[-1]))


def _other_reasons() -> tuple[str, ...]:
    return (say("a truncated mapped file or a failing disk gives a bus error too"),)


def _no_room(crash: Crash, full: SharedMemoryFull) -> Seen:
    who = translated(_USERS[full.user])
    refused = (
        say("{who} requested {tried} and found no room in /dev/shm.", who=who, tried=show(full.tried_bytes))
        if full.tried_bytes
        else say("{who} found no room in /dev/shm.", who=who)
    )
    return Seen(
        words=joined((refused, _holds(crash))),
        evidence=(full, *crash.every(ShmUsage)[-2:]),
        pool="shm",
        next_evidence=() if _size(crash) is not None else (SHM,),
    )


def _store(crash: Crash) -> StoreTooLarge | None:
    return next((event for event in crash.every(StoreTooLarge) if event.strength and event.pool == "shm"), None)


def _store_too_large(event: StoreTooLarge) -> Seen:
    return Seen(words=_larger(event.requested_bytes, event.shm_bytes), evidence=(event,), pool="shm")


def _larger(store: int | None, room: int | None) -> str:
    if store and room:
        larger, smaller = apart(store, room)
        return say("Ray's object store of {store} is larger than /dev/shm ({room}).", store=larger, room=smaller)
    if store:
        return say("Ray's object store of {store} is larger than /dev/shm.", store=show(store))
    if room:
        return say("Ray's object store is larger than /dev/shm ({room}).", room=show(room))
    return say("Ray's object store is larger than /dev/shm.")


def _bus_error(crash: Crash) -> Kill | FatalSignal | None:
    return next((kill for kill in crash.every(Kill) if kill.signal == SIGBUS), None) or crash.first(FatalSignal)


def _died(crash: Crash, crashed: Kill | FatalSignal, against: tuple[str, ...] = ()) -> Seen:
    died = say("A process died of a bus error (SIGBUS), as happens when /dev/shm is full.")
    return Seen(
        words=joined((died, _holds(crash))),
        evidence=(crashed, *crash.every(ShmUsage)[-2:]),
        against=against,
        pool="shm",
        next_evidence=() if _size(crash) is not None else (SHM,),
    )


def _size(crash: Crash) -> int | None:
    sizes = [usage.total_bytes for usage in crash.every(ShmUsage) if usage.total_bytes]
    hardware = crash.context.hardware.get("shm_bytes")
    return sizes[-1] if sizes else hardware if isinstance(hardware, int) else None


def _fullest(crash: Crash, before: Place | None = None) -> float:
    """The greatest share in use: a process that has ended freed what it held."""
    usages = [usage for usage in crash.every(ShmUsage) if before is None or _is_above(usage.at, before)]
    return max(map(_share, usages), default=0.0)


def _share(usage: ShmUsage) -> float:
    """Of rounded figures the smaller one is the finer: "24G of 24G" with 840M available are 97 %."""
    if not usage.used_bytes or not usage.total_bytes:
        return 0.0
    share = usage.used_bytes / usage.total_bytes
    return 1 - usage.available_bytes / usage.total_bytes if share >= FULL and usage.available_bytes else share


def _is_above(place: Place, other: Place) -> bool:
    return place.file == other.file and place.line < other.line


def _holds(crash: Crash) -> str:
    filled = it_filled_steadily(crash)
    return joined((_size_and_share(crash), filled.words if filled is not None else ""))


def _size_and_share(crash: Crash) -> str:
    size, share = _size(crash), _fullest(crash)
    if size is None:
        return ""
    if size == DOCKERS_DEFAULT and share:
        return say(
            "The size of /dev/shm is {size} (docker's default); {share} was in use.",
            size=show(size),
            share=f"{share:.0%}",
        )
    if size == DOCKERS_DEFAULT:
        return say("The size of /dev/shm is {size}, docker's default.", size=show(size))
    if share:
        return say("The size of /dev/shm is {size}; {share} was in use.", size=show(size), share=f"{share:.0%}")
    return say("The size of /dev/shm is {size}.", size=show(size))
