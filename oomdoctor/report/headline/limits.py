"""Slots about limits of containers, pods and jobs, and about pods that Kubernetes evicted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.families.cgroup import KillOutsideLimit
from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import HOG, machine_before
from oomdoctor.language import counted, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief
from oomdoctor.report.headline.kills import held_by, name_of
from oomdoctor.signs.kills import as_reported, program_of
from oomdoctor.signs.limits import MANAGERS, MUCH_SHARED, job_and_step

_CONTAINER: Final = late(r"docker|kubepods|containerd|libpod|crio|/pod[0-9a-f]")
_LONG_ID: Final = late(r"([0-9a-f]{12})[0-9a-f]{20,}")
_SPAN: Final = late(r"(\d{1,6})(?:-(\d{1,6}))?")
_STEP: Final = late(r"(?i)\bepoch:? ?\[ {0,6}(\d{1,6})\] ?\[ {0,9}(\d{1,9})/ {0,9}(\d{1,9})\]")
_SCHEDULERS: Final = ("slurm", "lsf", "pbs", "sge", "htcondor")


def kernel_limit(crash: Crash) -> str | None:
    """The limit of a control group that the kernel names: "The container's memory limit of 60 GiB"."""
    kill = _kernel_kill(crash)
    if kill is None:
        return None
    of_container = is_container(kill.cgroup)
    if kill.limit_bytes:
        limit = brief(kill.limit_bytes)
        return (
            say("The container's memory limit of {limit}", limit=limit)
            if of_container
            else say("A memory limit of {limit}", limit=limit)
        )
    group = _LONG_ID.sub(r"\1", kill.cgroup.rsplit("/", 1)[-1]) if kill.cgroup else ""
    if not group:
        return say("The memory limit of a control group")
    if of_container:
        return say("The memory limit of container {group}", group=group)
    return say("The memory limit of {group}", group=group)


def kernel_shared(crash: Crash) -> str | None:
    """How much of that limit is shared memory, where it is much."""
    kill = _kernel_kill(crash)
    if kill is None or not kill.group_shmem_bytes or not kill.used_bytes:
        return None
    return brief(kill.group_shmem_bytes) if kill.group_shmem_bytes >= MUCH_SHARED * kill.used_bytes else None


def limited_job(crash: Crash) -> str | None:
    """The job or the container that a scheduler or a container engine ended at its limit, as it is called there."""
    kill = _limit_kill(crash)
    if kill is None:
        return None
    manager = MANAGERS[kill.manager]
    manager = manager[:1].upper() + manager[1:]
    if kill.job:
        return say("{manager} job {job}", manager=manager, job=job_and_step(kill.job))
    if kill.container:
        return say("Container {name}", name=kill.container)
    if kill.tasks and kill.host:
        return say("{manager} task {task} on {host}", manager=manager, task=kill.tasks, host=kill.host)
    if kill.manager in _SCHEDULERS:
        return say("The {manager} job", manager=manager)
    return None if kill.manager == "kernel" else say("The {manager} container", manager=manager)


def job_limit(crash: Crash) -> str | None:
    """The limit of that job or container, as its own record or another line has it."""
    kill = _limit_kill(crash)
    own = (kill.limit_bytes or kill.requested_bytes) if kill is not None else None
    limit = own or next((event.limit_bytes for event in crash.every(MemoryLimit) if event.limit_bytes), None)
    return brief(limit) if limit else None


def limit_exit(crash: Crash) -> str | None:
    """The exit code of the container that was ended there."""
    kill = _limit_kill(crash)
    return say("exit code {code}", code=kill.exit_code) if kill is not None and kill.exit_code is not None else None


def limit_killed(crash: Crash) -> str | None:
    """Whom the kernel killed at the limit of a control group."""
    kill = _kernel_kill(crash)
    return name_of(kill) if kill is not None else None


def limit_killed_size(crash: Crash) -> str | None:
    """What that process held."""
    kill = _kernel_kill(crash)
    size = held_by(kill) if kill is not None else None
    return brief(size) if size else None


def limit_killed_most(crash: Crash) -> str | None:
    """The same, where it is 40 % of the limit."""
    kill = _kernel_kill(crash)
    size = held_by(kill) if kill is not None else None
    if kill is None or not size or not kill.limit_bytes or not HOG * kill.limit_bytes <= size <= kill.limit_bytes:
        return None
    return brief(size)


def oom_kills(crash: Crash) -> str | None:
    """How many processes were killed there."""
    kill = _limit_kill(crash)
    if kill is None:
        return None
    tasks = sum(_count_of(each) for each in {one.tasks for one in crash.every(LimitKill) if one.tasks})
    if tasks and tasks >= (kill.kills or 0):
        return counted(tasks, mark("{count} task out of memory"), mark("{count} tasks out of memory"))
    if not kill.kills:
        return None
    return counted(kill.kills, mark("{count} process OOM-killed"), mark("{count} processes OOM-killed"))


def outside_kills(crash: Crash) -> str | None:
    """How many processes a control group counts as killed, where its own limit was not hit."""
    kill = crash.first(KillOutsideLimit)
    if kill is None:
        return None
    return counted(kill.kills, mark("{count} process OOM-killed"), mark("{count} processes OOM-killed"))


def limit_command(crash: Crash) -> str | None:
    """The command that a shell says was killed, where it names one alone."""
    commands = {each.process.pid: as_reported(each) for each in crash.every(Kill) if program_of(each) is not None}
    kill = _limit_kill(crash)
    if len(commands) != 1 or kill is None or (kill.kills or 1) != 1:
        return None
    return next(iter(commands.values()))


def last_step(crash: Crash) -> str | None:
    """The last step that lines near the failure print, with its epoch."""
    around = crash.root.around
    lines = (*reversed(around.after), *reversed(around.before))
    found = next((match for match in map(_STEP.search, lines) if match is not None), None)
    if found is None:
        return None
    return say("{step} of {total}, epoch {epoch}", epoch=found[1], step=found[2], total=found[3])


def _count_of(tasks: str) -> int:
    """How many a list of Slurm's names: "0,4-7" are five."""
    spans = (_SPAN.fullmatch(each) for each in tasks.strip("[]").split(","))
    return sum(int(span[2] or span[1]) - int(span[1]) + 1 for span in spans if span is not None)


def docker_used(crash: Crash) -> str | None:
    """What docker's last print before the kill shows of the container's memory in use."""
    prints = [event for event in machine_before(crash) if event.tool == "docker"]
    if not prints or not prints[-1].used_bytes or not prints[-1].total_bytes:
        return None
    return beside(prints[-1].used_bytes, prints[-1].total_bytes)


def evicted(crash: Crash) -> str | None:
    """The pod or container that Kubernetes evicted for the node's memory."""
    pressure = crash.first(NodePressure)
    if pressure is None or pressure.reason != "Evicted":
        return None
    return say("container {name}", name=pressure.container) if pressure.container else say("a pod")


def evicted_free(crash: Crash) -> str | None:
    """What was available on the node then."""
    pressure = crash.first(NodePressure)
    return brief(pressure.available_bytes) if pressure is not None and pressure.available_bytes else None


def evicted_held(crash: Crash) -> str | None:
    """What the evicted container used."""
    pressure = crash.first(NodePressure)
    return brief(pressure.used_bytes) if pressure is not None and pressure.used_bytes else None


def _limit_kill(crash: Crash) -> LimitKill | None:
    kills = [kill for kill in crash.every(LimitKill) if not kill.virtual and kill.manager in MANAGERS]
    return max(kills, key=lambda kill: kill.strength, default=None)


def _kernel_kill(crash: Crash) -> KernelKill | None:
    """Of the kernel's kills at the limit of a control group the one whose process held most."""
    kills = [kill for kill in crash.every(KernelKill) if kill.pool == "cgroup"]
    return max(kills, key=lambda kill: (kill.process.name is not None, held_by(kill) or 0), default=None)


def is_container(group: str | None) -> bool:
    """Whether a control group is a container's, by its path."""
    return group is not None and _CONTAINER.search(group) is not None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot
    for slot in (
        kernel_limit, kernel_shared, limited_job, job_limit, limit_exit, limit_killed, limit_killed_size,
        limit_killed_most, oom_kills, outside_kills, limit_command, last_step, docker_used,
        evicted, evicted_free, evicted_held,
    )
}  # fmt: skip
