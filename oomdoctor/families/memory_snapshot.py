"""PyTorch's memory snapshots: the state of the allocator's blocks, and the last request that failed in the trace.

And torch.profiler's memory timelines: what was allocated at the peak. Neither file is a log: they are known by their
content and read whole, by a room of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from oomdoctor.families.cuda import DeviceOutOfMemory
from oomdoctor.families.event import Event, Frame, Place, Process, Role, Surroundings, Usage
from oomdoctor.language import say, translated
from oomdoctor.snapshots.model import Account
from oomdoctor.sources import Source, Trouble
from oomdoctor.sources.trouble import UnreadableError, why
from oomdoctor.units import show

WENT_ON: Final = 100  # allocations after the failure
MOST_HOLDERS: Final = 3  # of a timeline that are told


class MemoryAccount(Event, frozen=True, kw_only=True):
    """Who holds the memory of one GPU."""

    family = "memory_snapshot"

    role: Role = "context"
    pool: str = "gpu"

    account: Account


class MemorySnapshot(MemoryAccount, frozen=True, kw_only=True):
    """At the failure in the snapshot's trace, or when it was taken."""

    kind = "memory-snapshot"

    reserved_bytes: Usage[int]
    allocated_bytes: Usage[int]
    idle_bytes: Usage[int]  # in segments
    largest_idle_bytes: Usage[int]


class MemoryTimeline(MemoryAccount, frozen=True, kw_only=True):
    """At the peak of torch.profiler's memory timeline, which does not say of which device."""

    kind = "memory-timeline"

    allocated_bytes: Usage[int]


class SnapshotOutOfMemory(DeviceOutOfMemory, frozen=True, kw_only=True):
    """The last `oom` entry of the trace."""

    family = "memory_snapshot"
    kind = "snapshot-out-of-memory"

    strength: int = 2  # the log's own message says more of the same


def events(source: Source, tell: Callable[[], None]) -> Iterator[Event]:
    """What the snapshot or the timeline says; where the pickle is none the source's troubles say why."""
    if source.is_timeline:
        yield from _timeline(source, tell)
        return
    from oomdoctor.snapshots import reading  # noqa: PLC0415  (its patterns take time, and few logs come with one)

    source.troubles.clear()
    try:
        accounts = reading.read(_counted(source, tell))
    except reading.RefusalError as error:
        source.troubles.append(Trouble(source.name, reading.words(error)))
        source.size = 0
        return
    except UnreadableError as error:
        source.troubles.append(Trouble(source.name, str(error)))
        return
    except OSError as error:
        source.troubles.append(Trouble(source.name, why(error)))
        return
    for account in accounts:
        yield _state(source.name, account)
        if account.refusal is not None and account.refusal.allocations_after < WENT_ON:
            yield _failure(source.name, account)
        else:
            source.notes.append(_note(source.name, account))


def _timeline(source: Source, tell: Callable[[], None]) -> Iterator[Event]:
    """What it says, where it is one to its end: else it stays the text that it was read as."""
    from oomdoctor.snapshots import timeline  # noqa: PLC0415  (few logs come with one)

    size, source.size = source.size, 0
    try:
        account = timeline.read(_counted(source, tell))
    except (UnreadableError, OSError):  # the reading of its text has said so
        account = None
    source.size = size
    if account is None:
        return
    source.notes.append(
        say(
            "{file}: memory timeline of torch.profiler: {allocated} at its peak: {holders}",
            file=source.name,
            allocated=show(account.allocated),
            holders=", ".join(f"{show(one.bytes)} {translated(one.holder)}" for one in account.holdings[:MOST_HOLDERS]),
        )
    )
    at = Place(source.name, 1, 1, f"[times, sizes]: {account.entries}")
    yield MemoryTimeline(at=at, allocated_bytes=account.allocated, account=account)


def _counted(source: Source, tell: Callable[[], None]) -> Iterator[bytes]:
    for block in source.unpacked():
        tell()
        yield block


def _note(file: str, account: Account) -> str:
    """What nobody would hear of otherwise: without a failure there is no report on it."""
    return (
        say(
            "{file}: PyTorch memory snapshot of GPU {number}: {allocated} allocated of {reserved} reserved; no failed "
            "allocation in it",
            file=file,
            number=account.device,
            allocated=show(account.allocated),
            reserved=show(account.reserved),
        )
        if account.refusal is None
        else say(
            "{file}: PyTorch memory snapshot of GPU {number}: an allocation of {tried} failed and the job went on",
            file=file,
            number=account.device,
            tried=show(account.refusal.bytes),
        )
    )


def _state(file: str, account: Account) -> MemorySnapshot:
    return MemorySnapshot(
        at=Place(file, 1, 1, f"segments: {account.segments}, device_traces[{account.device}]: {account.entries}"),
        process=Process(gpu=account.device),
        reserved_bytes=account.reserved,
        allocated_bytes=account.allocated,
        idle_bytes=account.free,
        largest_idle_bytes=account.largest_free,
        account=account,
    )


def _failure(file: str, account: Account) -> SnapshotOutOfMemory:
    refusal = account.refusal
    assert refusal is not None
    trace = tuple(Frame(one.file, one.line, one.name) for one in reversed(refusal.stack))
    text = f"{{'action': 'oom', 'size': {refusal.bytes}, 'device_free': {refusal.device_free}}}"
    return SnapshotOutOfMemory(
        at=Place(file, 1, 1, text),
        process=Process(gpu=account.device),
        device="CUDA",
        tried_bytes=refusal.bytes,
        free_bytes=refusal.device_free,
        allocated_bytes=account.allocated,
        reserved_bytes=max(account.reserved, account.allocated) if account.segments else None,
        around=Surroundings(trace=trace),
    )
