"""A limit below the machine's memory was hit: a container's, a pod's, a job's."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, mark, say
from oomdoctor.units import show

_OF_NUMA_NODES = ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY")
MUCH_SHARED = 0.25  # of what the control group used

_WHO = {
    "slurm": "Slurm",
    "kubernetes": "Kubernetes",
    "docker": "docker",
    "containerd": "containerd",
    "lsf": "LSF",
    "pbs": "PBS",
    "sge": "Grid Engine",
    "htcondor": "HTCondor",
    "yarn": "YARN",
    "aws": "AWS",
    "vertex": "Vertex AI",
}


def judge(crash: Crash) -> Judgement | None:
    kills = crash.every(KernelKill)
    limited = next((kill for kill in kills if kill.pool == "cgroup"), None)
    if limited is not None:
        return _by_the_kernel(crash, limited)
    told = next(_over_the_limit(crash), None)
    if told is not None:
        return _by_the_manager(crash, told)
    if any(kill.constraint in _OF_NUMA_NODES for kill in kills):
        return RuledOut(
            say("the kernel says that the NUMA nodes the process may use were full; no limit on memory was hit")
        )
    if any(kill.global_oom or kill.constraint == "CONSTRAINT_NONE" for kill in kills):
        return RuledOut(say("the kernel says that the whole machine was out of memory, not a limited part of it"))
    if crash.first(NodePressure) is not None:
        return RuledOut(say("Kubernetes says that the node was out of memory, not the container"))
    return _exit_code_beside_a_limit(crash)


def _by_the_kernel(crash: Crash, kill: KernelKill) -> Finding:
    printed = kill.used_bytes is not None and (kill.limit_bytes is not None or _shared(kill) is not None)
    return Finding(
        weight=0.94 if printed else 0.9,
        why=joined((_limit_hit(kill), _killed(kill))),
        evidence=(kill, *_others(crash, kill)),
        pool="cgroup",
    )


def _limit_hit(kill: KernelKill) -> str:
    group = kill.cgroup or say("a control group")
    used, limit, shared = kill.used_bytes, kill.limit_bytes, _shared(kill)
    if used is None or limit is None:
        if shared is None:
            return say(
                "The kernel hit the memory limit of {group}; the machine itself may have memory left.", group=group
            )
        return say(
            "The kernel hit the memory limit of {group}; {shared} of it are shared memory "
            "(/dev/shm, tmpfs, Ray's object store); the machine itself may have memory left.",
            group=group,
            shared=show(shared),
        )
    if shared is None:
        return say(
            "The kernel hit the memory limit of {group}: {used} in use, {limit} allowed; the "
            "machine itself may have memory left.",
            group=group,
            used=show(used),
            limit=show(limit),
        )
    return say(
        "The kernel hit the memory limit of {group}: {used} in use, {limit} allowed; {shared} "
        "of it are shared memory (/dev/shm, tmpfs, Ray's object store); the machine itself "
        "may have memory left.",
        group=group,
        used=show(used),
        limit=show(limit),
        shared=show(shared),
    )


def _killed(kill: KernelKill) -> str:
    name, pid, held = kill.process.name, kill.process.pid, kill.anon_rss_bytes
    if not name:
        return ""
    if not held:
        return say("It killed {name} (PID {pid} of the host).", name=name, pid=pid)
    return say(
        "It killed {name} (PID {pid} of the host), which held {held} (anon-rss).", name=name, pid=pid, held=show(held)
    )


def _shared(kill: KernelKill) -> int | None:
    """Shared memory counts against the limit and belongs to no process: killing one frees none of it."""
    shared, used = kill.group_shmem_bytes, kill.used_bytes
    return shared if shared and used and shared >= MUCH_SHARED * used else None


def _over_the_limit(crash: Crash) -> Iterator[LimitKill]:
    """What stands for a limit on memory in use; a limit on address space is another cause."""
    told = [kill for kill in crash.every(LimitKill) if not kill.virtual and kill.manager in _WHO]
    yield from sorted(told, key=lambda kill: -kill.strength)


def _by_the_manager(crash: Crash, kill: LimitKill) -> Finding:
    who = _WHO[kill.manager]
    hit = (
        say("{who} reports that the memory limit of job {job} was hit", who=who, job=kill.job)
        if kill.job
        else say("{who} reports that the memory limit was hit", who=who)
    )
    many = say("{kills} processes were killed.", kills=kill.kills) if kill.kills and kill.kills > 1 else ""
    return Finding(
        weight=0.85 if kill.strength >= 3 else 0.75,
        why=joined((say("{hit}{figures}.", hit=hit, figures=_figures(crash, kill)), many)),
        evidence=(kill, *_others(crash, kill)),
        against=_may_be_harmless(kill),
        pool="cgroup",
    )


def _figures(crash: Crash, kill: LimitKill) -> str:
    """What is printed of it, each figure behind a comma or a semicolon of its own."""
    limit = kill.limit_bytes or kill.requested_bytes or _stated(crash)
    used = kill.used_bytes or kill.peak_bytes
    figures = say(", limit {limit}", limit=show(limit)) if limit else ""
    if limit and used and used <= limit:
        figures += say("; the {used} printed as in use were measured at another moment", used=show(used))
    elif used:
        figures += say(", {used} in use", used=show(used))
    peak = max((event.anon_rss_bytes or 0 for event in crash.every(KernelKill)), default=0)
    if peak:
        figures += say("; the process that the kernel killed held {peak} (anon-rss)", peak=show(peak))
    return figures


def _may_be_harmless(kill: LimitKill) -> tuple[str, ...]:
    if kill.manager == "slurm" and kill.kills is not None:
        return (say("Slurm counts every killed process of the step, a helper's too; the job may have gone on"),)
    return ()


def _others(crash: Crash, first: Event) -> tuple[Event, ...]:
    """What else tells of the same kill: the manager's record, the exit code."""
    found: tuple[Event, ...] = (*crash.every(KernelKill), *crash.every(LimitKill), *crash.every(Kill))
    return tuple(event for event in found if event is not first)[:3]


def _stated(crash: Crash) -> int | None:
    return next((event.limit_bytes for event in crash.every(MemoryLimit) if event.limit_bytes), None)


def _exit_code_beside_a_limit(crash: Crash) -> NotEnough | None:
    """A container left with 137, and its record has a limit but not the word for a kill at it."""
    limit = _stated(crash)
    if limit is None or not isinstance(crash.root, Kill):
        return None
    return NotEnough(
        say("the kernel's or the engine's record of a kill at the limit of {limit}", limit=show(limit)),
        ("kubectl describe pod | grep -A8 -E 'Last State|Limits'", "cat /sys/fs/cgroup/memory.events"),
    )


CAUSE = Cause(
    id="container-limit",
    title=mark("A memory limit of the container or job is hit while the machine may have memory left"),
    pools=("cgroup", "host_ram", "shm", "none"),
    knobs=("raise-container-limit", "fewer-workers", "smaller-buffers", "stream-data", "less-offload"),
    rule=judge,
)
