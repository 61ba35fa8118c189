"""An allocation is refused though memory is there: ulimit -v, the overcommit policy, Windows' commit limit."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.units import GIB, TIB, show

WINDOWS_COMMIT = 1455
WINDOWS_RESOURCES = (8, 14, 1450)
# From here a machine of the usual size may really not have it in one piece.
LARGE = 64 * GIB
NO_MACHINE = 8 * TIB
SMALL = 1 * GIB
# Arrays of data come in such sizes on machines that are simply full.
_MIDDLING = {"numpy": 0.4, "torch": 0.42}

_HEAPS = {"java": "the Java heap (-Xmx)", "node": "the JavaScript heap (--max-old-space-size)"}


def judge(crash: Crash) -> Judgement | None:
    virtual = next((kill for kill in crash.every(LimitKill) if kill.virtual), None)
    if virtual is not None:
        return Finding(
            weight=0.85,
            why=f"The scheduler ended the job at its limit on virtual memory{_over(virtual)}: address space, of which "
            f"a CUDA process reserves far more than it uses.",
            evidence=(virtual,),
        )
    refused = next((event for event in crash.every(HostAllocation) if event.pool == "host_ram"), None)
    return None if refused is None else _refused(crash, refused)


def _over(kill: LimitKill) -> str:
    if kill.used_bytes is None or kill.limit_bytes is None:
        return ""
    return f" ({show(kill.used_bytes)} against {show(kill.limit_bytes)})"


def _refused(crash: Crash, refused: HostAllocation) -> Judgement | None:
    if refused.errno in WINDOWS_RESOURCES:
        return Finding(
            weight=0.8,
            why=f"Windows refused another piece of memory that is mapped (error {refused.errno}): it had no room or no "
            "system resources left for it, whatever of RAM is in use.",
            evidence=(refused,),
        )
    if refused.errno == WINDOWS_COMMIT or refused.allocator == "windows":
        return Finding(
            weight=0.92,
            why="Windows refused to commit more memory (error 1455): RAM and page file together are promised away, "
            "whatever is really in use.",
            evidence=(refused,),
        )
    if refused.allocator in _HEAPS:
        return Finding(
            weight=0.5,
            why=f"A runtime's own limit was hit, {_HEAPS[refused.allocator]}, not the machine's memory.",
            evidence=(refused,),
        )
    tried = refused.tried_bytes
    if tried is not None and tried >= NO_MACHINE:
        return RuledOut(f"{show(tried)} is more than any limit on address space has to refuse")
    return _by_size(crash, refused, tried)


def _by_size(crash: Crash, refused: HostAllocation, tried: int | None) -> Finding:
    free = _free(crash)
    if tried is not None and free is not None and free > tried:
        return Finding(
            weight=0.72,
            why=f"{show(tried)} were refused with {show(free)} of RAM unused: a limit on address space or on what may "
            f"be committed, not a full machine.",
            evidence=(refused,),
            against=("the free memory may have been printed at another moment",),
        )
    large = tried is not None and tried >= LARGE
    small = tried is not None and tried < SMALL
    asked = f" of {show(tried)}" if tried else ""
    return Finding(
        weight=0.25 if large else 0.6 if small else _MIDDLING.get(refused.allocator, 0.5),
        why=f"An allocation{asked} on the host was refused. A full Linux machine kills a process instead of refusing: "
        f"this is how ulimit -v, vm.overcommit_memory=2 or (on Windows) the commit limit answer.",
        evidence=(refused,),
        against=("a size of this order may really not be there in one piece",) if large else (),
        next_evidence=("ulimit -v", "cat /proc/sys/vm/overcommit_memory", "free -h"),
    )


def _free(crash: Crash) -> int | None:
    total, used = (crash.context.hardware.get(name) for name in ("ram_bytes", "ram_used_bytes"))
    return total - used if isinstance(total, int) and isinstance(used, int) else None


CAUSE = Cause(
    id="address-space-limit",
    title="A limit on address space or commit is hit while memory is free",
    pools=("host_ram", "cgroup"),
    knobs=("more-address-space", "more-host-memory", "fewer-workers", "low-memory-loading"),
    judge=judge,
)
