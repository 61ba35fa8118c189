"""A larger /dev/shm."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.data_loader import SharedMemoryFull
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.ray_store import StoreTooLarge
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import total_bytes
from oomdoctor.language import say
from oomdoctor.remedies.proposal import Answer, Case, Proposal, Refusal, Skip
from oomdoctor.signs import commands, limits
from oomdoctor.units import GIB, gib_up, show

USUAL_SHM: Final = "8g"
_SEGMENTS: Final = "kernel.shmmni"
SEGMENTS: Final = 4096  # kernel.shmmni where nobody says: include/uapi/linux/shm.h, SHMMNI
_CONTAINER: Final = r"(?i)\bdocker\b|\bcontainers?\b|podman|/\.dockerenv|\bipc=host|shm[-_]size"


def bigger_shm(case: Case) -> Answer:
    crash = case.crash
    if limits.store_exceeds_the_limit(crash) is not None:
        return Skip()  # a smaller store says how large /dev/shm is with it
    wanted = crash.first(StoreTooLarge)
    if wanted is not None and wanted.requested_bytes:
        asked_for = say("{amount} requested", amount=show(wanted.requested_bytes))
        return _for_a_store(crash, wanted.shm_bytes, wanted.requested_bytes, asked_for)
    seen = [e.total_bytes for e in crash.every(ShmUsage) if e.total_bytes]
    known = crash.context.hardware.get("shm_bytes")
    now = seen[-1] if seen else (known if isinstance(known, int) else None)
    asked = crash.first(SharedMemoryFull)
    if asked is not None and asked.user == "system-v":
        return _more_segments()
    tried = asked.tried_bytes if asked is not None else None
    if now is None:
        return Proposal(
            suggested=USUAL_SHM,
            derivation=say("{value} is a usual start value", value=USUAL_SHM),
            snippet=for_shm(crash, USUAL_SHM),
            setting="--shm-size",
            assumes=(say("64 MiB of /dev/shm (Docker's default)"),),
        )
    twice = f"2 x {show(now)}"
    if not tried:
        return _shm(crash, now, 2 * now, twice)
    return _shm(crash, now, 2 * now + tried, say("{formula} + {amount} that failed", formula=twice, amount=show(tried)))


def _more_segments() -> Proposal:
    """Those that ended programs have left behind count as well."""
    then = 2 * SEGMENTS
    return Proposal(
        action=say("Remove the segments that ended programs have left, or allow more of them"),
        suggested=then,
        derivation=f"2 x {SEGMENTS} = {then}",
        snippet=f"ipcs -mp   # of ended programs: ipcrm -m ID\nsudo sysctl -w {_SEGMENTS}={then}",
        setting=_SEGMENTS,
        assumes=(say("{name} is {value} (its default, not in the log)", name=_SEGMENTS, value=SEGMENTS),),
    )


def for_shm(crash: Crash, amount: str) -> str:
    """For the manager of the container; where none is in sight, first whether it is one."""
    if commands.in_a_pod(crash):
        return f"emptyDir: {{medium: Memory, sizeLimit: {amount.upper()}i}}   # mounted at /dev/shm"
    line = f"docker run --shm-size={amount}   # or --ipc=host, which uses the node's"
    return line if crash.shows(_CONTAINER) else f"df -h /dev/shm   # 64M is a container's\n{line}"


def _for_a_store(crash: Crash, there: int | None, requested: int, why: str) -> Answer:
    """Ray prints what is available (get_shared_memory_bytes of ray/_private/utils.py): a little of it may be in use, so
    that the whole GiB above it is what the container has already."""
    least = (gib_up(there) + 1) * GIB if there else 0
    if least <= requested:
        return _shm(crash, there, requested, why)
    rounded = say("{why}; {there} available, rounded up, + 1 GiB", why=why, there=show(there or 0))
    return _shm(crash, there, least, rounded)


def _shm(crash: Crash, now: int | None, needed: int, why: str) -> Answer:
    then, total = gib_up(needed), total_bytes(crash)
    if total is not None and then * GIB > total:
        return Refusal(say("{amount} GiB of /dev/shm are more than the node's {total}", amount=then, total=show(total)))
    return Proposal(
        action=say("Give the container {amount} GiB of /dev/shm (or --ipc=host)", amount=then),
        current=now,
        suggested=f"{then}g",
        derivation=say("{formula} -> {amount} GiB", formula=why, amount=then),
        snippet=f"docker run --shm-size={then}g",
        setting="--shm-size",
    )
