"""Limits on host memory that somebody printed beside a failed allocation: of a shell, of a process, of the kernel."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.families.process_limits import ProcessLimits
from oomdoctor.families.sysctl import KernelSettings
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import machine_after
from oomdoctor.language import joined, say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import GIB, show

NEVER_BEYOND: Final = 2  # vm.overcommit_memory
ROOM: Final = 1 * GIB  # what is free of it afterwards shows a limit even where the size of the request is unknown


@sign
def request_beyond_the_address_limit(crash: Crash) -> Seen | None:
    """A host allocation failed, the address space of a process is limited, and the request alone is over the limit or
    the RAM for it was free afterwards."""
    refused, limits = host_refusal(crash), _limits(crash)
    if refused is None or limits is None or limits.address_space_bytes is None:
        return None
    over = refused.tried_bytes is not None and refused.tried_bytes >= limits.address_space_bytes
    return _limited(crash, refused, limits) if over or _was_free(crash, refused) else None


@sign
def address_space_is_limited(crash: Crash) -> Seen | None:
    """A host allocation failed, in any words, and the address space of a process is limited; nobody printed how much
    RAM was free."""
    refused, limits = host_refusal(crash) or _in_other_words(crash), _limits(crash)
    if refused is None or limits is None or machine_after(crash) is not None:
        return None
    return _limited(crash, refused, limits)


@sign
def commit_limit_and_free_memory(crash: Crash) -> Seen | None:
    """A host allocation failed with vm.overcommit_memory=2, although RAM was free afterwards or CommitLimit has no room
    for it."""
    refused, settings = host_refusal(crash), _strict(crash)
    if refused is None or settings is None:
        return None
    committed = _committed(crash)
    over = committed is not None and _is_over(committed, refused)
    return _committing(crash, refused, settings) if over or _was_free(crash, refused) else None


@sign
def overcommit_is_off(crash: Crash) -> Seen | None:
    """A host allocation failed with vm.overcommit_memory=2; nobody printed how much RAM was free."""
    refused, settings = host_refusal(crash), _strict(crash)
    if refused is None or settings is None or machine_after(crash) is not None:
        return None
    return _committing(crash, refused, settings)


@sign
def process_has_no_limit(crash: Crash) -> Seen | None:
    """The kernel's table of the process shows no limit on address space, and overcommit is on."""
    limits = next((one for one in reversed(crash.every(ProcessLimits)) if one.source == "process"), None)
    settings = crash.first(KernelSettings)
    if limits is None or "address_space" not in limits.unlimited or settings is None:
        return None
    if settings.overcommit_memory in (None, NEVER_BEYOND):
        return None
    return Seen(words=say("the process has no limit on address space, and overcommit is on"))


def host_refusals(crash: Crash) -> list[HostAllocation]:
    """The allocations of RAM that failed."""
    return [event for event in crash.every(HostAllocation) if event.pool == "host_ram"]


def host_refusal(crash: Crash) -> HostAllocation | None:
    """The first of them."""
    return next(iter(host_refusals(crash)), None)


def _in_other_words(crash: Crash) -> Shortage | None:
    """What failed first, where a program tells of it in words of its own, and of no limit of its own."""
    root = crash.root
    return root if isinstance(root, Shortage) and root.pool == "host_ram" and not root.limited else None


def address_limit(crash: Crash) -> int | None:
    """The limit on address space that a shell or a process has."""
    limits = _limits(crash)
    return limits.address_space_bytes if limits is not None else None


def beyond_a_printed_limit(crash: Crash, refused: HostAllocation) -> bool:
    """Whether the request alone is beyond the limit of a whole table, which somebody printed to find out."""
    limits = _limits(crash)
    if limits is None or limits.at.end_line == limits.at.line:
        return False
    return (refused.tried_bytes or 0) > (limits.address_space_bytes or 0)


def _limited(crash: Crash, refused: HostAllocation | Shortage, limits: ProcessLimits) -> Seen:
    limit = show(limits.address_space_bytes or 0)
    what = (
        say("Address space is limited to {limit} (ulimit -v), and an allocation of {tried} failed.", limit=limit,
            tried=show(refused.tried_bytes))
        if refused.tried_bytes
        else say("Address space is limited to {limit} (ulimit -v), and an allocation failed.", limit=limit)
    )  # fmt: skip
    of_a_shell = say("the limits are those of a shell; the job may have had others")
    return Seen(
        words=joined((what, _free_afterwards(crash))),
        evidence=(refused, limits, *_shown(crash)),
        against=(of_a_shell,) if limits.source == "shell" else (),
    )


def _committing(crash: Crash, refused: HostAllocation, settings: KernelSettings) -> Seen:
    committed = _committed(crash)
    limit = committed.commit_limit_bytes if committed is not None else None
    what = (
        say(
            "vm.overcommit_memory is 2: the kernel commits at most {limit} (CommitLimit), and {committed} were "
            "committed afterwards.",
            limit=show(limit),
            committed=show(committed.committed_bytes or 0),
        )
        if committed is not None and limit
        else say("vm.overcommit_memory is 2: the kernel refuses whatever goes beyond CommitLimit, even with free RAM.")
    )
    beside = (committed,) if committed is not None else ()
    evidence = dict.fromkeys((refused, settings, *beside, *_shown(crash)))
    return Seen(words=joined((what, _free_afterwards(crash))), evidence=tuple(evidence))


def _limits(crash: Crash) -> ProcessLimits | None:
    """Those of a process before those of a shell."""
    limited = [one for one in reversed(crash.every(ProcessLimits)) if one.address_space_bytes]
    return next((one for one in limited if one.source == "process"), next(iter(limited), None))


def _strict(crash: Crash) -> KernelSettings | None:
    return next((one for one in crash.every(KernelSettings) if one.overcommit_memory == NEVER_BEYOND), None)


def _committed(crash: Crash) -> MachineMemory | None:
    every = (one for one in reversed(crash.every(MachineMemory)) if one.commit_limit_bytes)
    return next((one for one in every if one.committed_bytes is not None), None)


def _is_over(committed: MachineMemory, refused: HostAllocation) -> bool:
    wanted = (committed.committed_bytes or 0) + (refused.tried_bytes or 0)
    return wanted > (committed.commit_limit_bytes or 0)


def _was_free(crash: Crash, refused: HostAllocation) -> bool:
    after = machine_after(crash)
    return after is not None and (after.available_bytes or 0) > max(refused.tried_bytes or 0, ROOM)


def _shown(crash: Crash) -> tuple[MachineMemory, ...]:
    after = machine_after(crash)
    return (after,) if after is not None else ()


def _free_afterwards(crash: Crash) -> str:
    after = machine_after(crash)
    if after is None:
        return ""
    return say("{free} of RAM was free afterwards.", free=show(after.available_bytes or 0))
