"""A limit below the machine's memory was hit: a container's, a pod's, a job's."""

from __future__ import annotations

from collections.abc import Iterator

from oomdoctor.causes import Cause, Finding, Judgement, NotEnough, RuledOut
from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
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
        return RuledOut("the kernel says that the NUMA nodes the process may use were full; no limit on memory was hit")
    if any(kill.global_oom or kill.constraint == "CONSTRAINT_NONE" for kill in kills):
        return RuledOut("the kernel says that the whole machine was out of memory, not a limited part of it")
    if crash.first(NodePressure) is not None:
        return RuledOut("Kubernetes says that the node was out of memory, not the container")
    return _exit_code_beside_a_limit(crash)


def _by_the_kernel(crash: Crash, kill: KernelKill) -> Finding:
    where = f"the memory limit of {kill.cgroup}" if kill.cgroup else "the memory limit of a control group"
    figures = ""
    if kill.used_bytes is not None and kill.limit_bytes is not None:
        figures = f": {show(kill.used_bytes)} in use, {show(kill.limit_bytes)} allowed"
    held = f", which held {show(kill.anon_rss_bytes)} (anon-rss)" if kill.anon_rss_bytes else ""
    figures += _shared(kill)
    victim = f" It killed {kill.process.name} (PID {kill.process.pid} of the host){held}." if kill.process.name else ""
    return Finding(
        weight=0.94 if figures else 0.9,
        why=f"The kernel hit {where}{figures}; the machine itself may have memory left.{victim}",
        evidence=(kill, *_others(crash, kill)),
        pool="cgroup",
    )


def _shared(kill: KernelKill) -> str:
    """Shared memory counts against the limit and belongs to no process: killing one frees none of it."""
    shared, used = kill.group_shmem_bytes, kill.used_bytes
    if not shared or not used or shared < MUCH_SHARED * used:
        return ""
    return f"; {show(shared)} of it are shared memory (/dev/shm, tmpfs, Ray's object store)"


def _over_the_limit(crash: Crash) -> Iterator[LimitKill]:
    """What stands for a limit on memory in use; a limit on address space is another cause."""
    told = [kill for kill in crash.every(LimitKill) if not kill.virtual and kill.manager in _WHO]
    yield from sorted(told, key=lambda kill: -kill.strength)


def _by_the_manager(crash: Crash, kill: LimitKill) -> Finding:
    who = _WHO[kill.manager]
    job = f" of job {kill.job}" if kill.job else ""
    limit = kill.limit_bytes or kill.requested_bytes or _stated(crash)
    used = kill.used_bytes or kill.peak_bytes
    figures = f", limit {show(limit)}" if limit else ""
    if limit and used and used <= limit:
        figures += f"; the {show(used)} printed as in use were measured at another moment"
    elif used:
        figures += f", {show(used)} in use"
    peak = max((event.anon_rss_bytes or 0 for event in crash.every(KernelKill)), default=0)
    if peak:
        figures += f"; the process that the kernel killed held {show(peak)} (anon-rss)"
    many = f" {kill.kills} processes were killed." if kill.kills and kill.kills > 1 else ""
    return Finding(
        weight=0.85 if kill.strength >= 3 else 0.75,
        why=f"{who} reports that the memory limit{job} was hit{figures}.{many}",
        evidence=(kill, *_others(crash, kill)),
        against=_may_be_harmless(kill),
        pool="cgroup",
    )


def _may_be_harmless(kill: LimitKill) -> tuple[str, ...]:
    if kill.manager == "slurm" and kill.kills is not None:
        return ("Slurm counts every killed process of the step, a helper's too; the job may have gone on",)
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
        f"the kernel's or the engine's record of a kill at the limit of {show(limit)}",
        ("kubectl describe pod | grep -A8 -E 'Last State|Limits'", "cat /sys/fs/cgroup/memory.events"),
    )


CAUSE = Cause(
    id="container-limit",
    title="A memory limit of the container or job is hit while the machine may have memory left",
    pools=("cgroup", "host_ram", "shm", "none"),
    knobs=("raise-container-limit", "fewer-workers", "smaller-buffers", "stream-data", "less-offload"),
    judge=judge,
)
