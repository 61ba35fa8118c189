"""An allocation is refused though memory is there: ulimit -v, the overcommit policy, Windows' commit limit."""

from __future__ import annotations

from oomdoctor.causes import Cause, Finding, Judgement, RuledOut
from oomdoctor.families.container import LimitKill
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say, translated
from oomdoctor.units import GIB, TIB, show

WINDOWS_COMMIT = 1455
WINDOWS_RESOURCES = (8, 14, 1450)
# From here a machine of the usual size may really not have it in one piece.
LARGE = 64 * GIB
KNOBS = ("more-address-space", "fewer-workers", "low-memory-loading")
# Where RAM itself may be short: it is part of what Windows promises, and a large piece may really not be there.
KNOBS_OF_RAM = ("more-address-space", "more-host-memory", "fewer-workers", "low-memory-loading")
NO_MACHINE = 8 * TIB
SMALL = 1 * GIB
# Arrays of data come in such sizes on machines that are simply full.
_MIDDLING = {"numpy": 0.4, "torch": 0.42}

_HEAPS = {
    "java": mark("A runtime's own limit was hit, the Java heap (-Xmx), not the machine's memory."),
    "node": mark(
        "A runtime's own limit was hit, the JavaScript heap (--max-old-space-size), not the machine's memory."
    ),
}


def judge(crash: Crash) -> Judgement | None:
    virtual = next((kill for kill in crash.every(LimitKill) if kill.virtual), None)
    if virtual is not None:
        return Finding(
            weight=0.85,
            why=_over(virtual),
            evidence=(virtual,),
        )
    refused = next((event for event in crash.every(HostAllocation) if event.pool == "host_ram"), None)
    return None if refused is None else _refused(crash, refused)


def _over(kill: LimitKill) -> str:
    if kill.used_bytes is None or kill.limit_bytes is None:
        return say(
            "The scheduler ended the job at its limit on virtual memory: address space, of which "
            "a CUDA process reserves far more than it uses."
        )
    return say(
        "The scheduler ended the job at its limit on virtual memory ({used} against {limit}): "
        "address space, of which a CUDA process reserves far more than it uses.",
        used=show(kill.used_bytes),
        limit=show(kill.limit_bytes),
    )


def _refused(crash: Crash, refused: HostAllocation) -> Judgement | None:
    if refused.errno in WINDOWS_RESOURCES:
        return Finding(
            weight=0.8,
            why=say(
                "Windows refused another piece of memory that is mapped (error {errno}): it had no "
                "room or no system resources left for it, whatever of RAM is in use.",
                errno=refused.errno,
            ),
            evidence=(refused,),
        )
    if refused.errno == WINDOWS_COMMIT or refused.allocator == "windows":
        return Finding(
            weight=0.92,
            why=say(
                "Windows refused to commit more memory (error 1455): RAM and page file together are "
                "promised away, whatever is really in use."
            ),
            evidence=(refused,),
            knobs=KNOBS_OF_RAM,
        )
    if refused.allocator in _HEAPS:
        return Finding(
            weight=0.5,
            why=translated(_HEAPS[refused.allocator]),
            evidence=(refused,),
        )
    tried = refused.tried_bytes
    if tried is not None and tried >= NO_MACHINE:
        return RuledOut(say("{tried} is more than any limit on address space has to refuse", tried=show(tried)))
    return _by_size(crash, refused, tried)


def _by_size(crash: Crash, refused: HostAllocation, tried: int | None) -> Finding:
    free = _free(crash)
    if tried is not None and free is not None and free > tried:
        return Finding(
            weight=0.72,
            why=say(
                "{tried} were refused with {free} of RAM unused: a limit on address space or on what "
                "may be committed, not a full machine.",
                tried=show(tried),
                free=show(free),
            ),
            evidence=(refused,),
            against=(say("the free memory may have been printed at another moment"),),
        )
    large = tried is not None and tried >= LARGE
    small = tried is not None and tried < SMALL
    refusal = (
        say("An allocation of {tried} on the host was refused.", tried=show(tried))
        if tried
        else say("An allocation on the host was refused.")
    )
    return Finding(
        weight=0.25 if large else 0.6 if small else _MIDDLING.get(refused.allocator, 0.5),
        why=joined(
            (
                refusal,
                say(
                    "A full Linux machine kills a process instead of refusing: this is how ulimit -v, "
                    "vm.overcommit_memory=2 or (on Windows) the commit limit answer."
                ),
            )
        ),
        evidence=(refused,),
        against=(say("a size of this order may really not be there in one piece"),) if large else (),
        knobs=KNOBS_OF_RAM if large else KNOBS,
        next_evidence=("ulimit -v", "cat /proc/sys/vm/overcommit_memory", "free -h"),
    )


def _free(crash: Crash) -> int | None:
    total, used = (crash.context.hardware.get(name) for name in ("ram_bytes", "ram_used_bytes"))
    return total - used if isinstance(total, int) and isinstance(used, int) else None


CAUSE = Cause(
    id="address-space-limit",
    title=mark("A limit on address space or commit is hit while memory is free"),
    pools=("host_ram", "cgroup"),
    knobs=KNOBS,
    rule=judge,
)
