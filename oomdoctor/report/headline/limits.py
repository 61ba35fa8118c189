"""Slots about limits of containers, pods and jobs, and about pods that Kubernetes evicted."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.cgroup import KillOutsideLimit
from oomdoctor.families.container import ANY_MANAGER, LimitKill, NodePressure
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import HOG
from oomdoctor.language import counted, listed, mark, say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import beside, brief, briefly
from oomdoctor.report.headline.ray import store_requested
from oomdoctor.report.headline.slot import about, first
from oomdoctor.report.headline.victims import heaviest, held_by, in_container, name_of
from oomdoctor.signs.kills import as_reported, program_of
from oomdoctor.signs.limits import (
    MANAGERS,
    asked_by_its_rule,
    dockers_last_print,
    evicted_far_over_its_request,
    in_no_process,
    job_and_step,
    kill_at_a_limit,
    limit_of,
    much_shared,
    store_exceeds_the_limit,
)
from oomdoctor.signs.pods import pod

_LONG_ID: Final = late(r"([0-9a-f]{12})[0-9a-f]{20,}")
_SPAN: Final = late(r"(\d{1,6})(?:-(\d{1,6}))?")
_STEP: Final = late(r"(?i)\bepoch:? ?\[ {0,6}(\d{1,6})\] ?\[ {0,9}(\d{1,9})/ {0,9}(\d{1,9})\]")
# The kubelet's event of a pod that it ends, with the container's name behind its runtime's
_EVICTS: Final = late(
    r"\bKilling container with id [a-z-]{1,12}://(?P<name>[a-z0-9][a-z0-9-]{0,62}): ?Need to kill Pod"
)
_SCHEDULERS: Final = ("slurm", "lsf", "pbs", "sge", "htcondor")


def _at_its_group(crash: Crash) -> KernelKill | None:
    """Of the kernel's kills at the limit of a control group the one whose process held most."""
    return heaviest(kill for kill in crash.every(KernelKill) if kill.pool == "cgroup")


@about(_at_its_group)
def kernel_limit(kill: KernelKill) -> str | None:
    """The limit of a control group that the kernel names: "The container's memory limit of 60 GiB"."""
    if kill.limit_bytes:
        limit = brief(kill.limit_bytes)
        return (
            say("The container's memory limit of {limit}", limit=limit)
            if in_container(kill)
            else say("A memory limit of {limit}", limit=limit)
        )
    group = _LONG_ID.sub(r"\1", kill.cgroup.rsplit("/", 1)[-1]) if kill.cgroup else ""
    if not group:
        return say("The memory limit of a control group")
    if in_container(kill):
        return say("The memory limit of container {group}", group=group)
    return say("The memory limit of {group}", group=group)


@about(_at_its_group)
def kernel_shared(kill: KernelKill) -> str | None:
    """How much of that limit is shared memory, where it is much."""
    return briefly(much_shared(kill))


@about(_at_its_group)
def kernel_unheld(kill: KernelKill) -> str | None:
    """How much of it is in no process, where that is most of it."""
    return briefly(in_no_process(kill))


@about(_at_its_group)
def limit_killed(kill: KernelKill) -> str | None:
    """Whom the kernel killed at the limit of a control group."""
    return name_of(kill)


@about(_at_its_group)
def limit_killed_size(kill: KernelKill) -> str | None:
    """What that process held."""
    return briefly(held_by(kill))


@about(_at_its_group)
def limit_killed_most(kill: KernelKill) -> str | None:
    """The same, where it is 40 % of the limit."""
    size, limit = held_by(kill), kill.limit_bytes
    return briefly(size) if size and limit and HOG * limit <= size <= limit else None


def limited_job(crash: Crash) -> str | None:
    """The job or the container that a scheduler or a container engine ended at its limit, as it is called there."""
    kill = kill_at_a_limit(crash)
    if kill is None:
        return None
    if kill.manager == ANY_MANAGER:
        return say("The job")
    manager = MANAGERS[kill.manager]
    manager = manager[:1].upper() + manager[1:]
    if kill.job:
        return say("{manager} job {job}", manager=manager, job=job_and_step(kill.job))
    if kill.container:
        return say("Container {name}", name=kill.container)
    if kill.manager == "kubernetes" and (name := pod(crash).name) is not None:
        return say("A container of pod {pod}", pod=name)
    if kill.manager == "yarn" and kill.process.name:
        return say("The YARN container of Spark's {executor}", executor=kill.process.name)
    if kill.tasks and kill.host:
        return say("{manager} task {task} on {host}", manager=manager, task=kill.tasks, host=kill.host)
    if kill.manager in _SCHEDULERS and (asked := asked_by_its_rule(crash)) is not None:
        return say("The {manager} job of rule {rule} ({asked})", manager=manager, rule=asked.rule, asked=asked.stated)
    if kill.manager in _SCHEDULERS:
        return say("The {manager} job", manager=manager)
    return None if kill.manager == "kernel" else say("The {manager} container", manager=manager)


def store_beyond(crash: Crash) -> str | None:
    """Ray's object store, where it alone is larger than that limit."""
    return store_requested(crash) if store_exceeds_the_limit(crash) is not None else None


@about(limit_of)
def job_limit(size: int) -> str | None:
    """The limit of that job or container, as its own record or another line has it."""
    return briefly(size)


@about(kill_at_a_limit)
def limit_exit(kill: LimitKill) -> str | None:
    """The exit code of what was ended there, and what its record says that it used."""
    code = say("exit code {code}", code=kill.exit_code) if kill.exit_code is not None else None
    used = say("{used} in use", used=brief(kill.used_bytes)) if kill.used_bytes else None
    return listed(filter(None, (code, used))) or None


def oom_kills(crash: Crash) -> str | None:
    """How many processes were killed there."""
    kill = kill_at_a_limit(crash)
    if kill is None:
        return None
    tasks = sum(_count_of(each) for each in {one.tasks for one in crash.every(LimitKill) if one.tasks})
    if tasks and tasks >= (kill.kills or 0):
        return counted(tasks, mark("{count} task out of memory"), mark("{count} tasks out of memory"))
    if not kill.kills:
        return None
    return counted(kill.kills, mark("{count} process OOM-killed"), mark("{count} processes OOM-killed"))


@about(first(KillOutsideLimit))
def outside_kills(kill: KillOutsideLimit) -> str | None:
    """How many processes a control group counts as killed, where its own limit was not hit."""
    return counted(kill.kills, mark("{count} process OOM-killed"), mark("{count} processes OOM-killed"))


def limit_command(crash: Crash) -> str | None:
    """The command that a shell says was killed, where it names one alone."""
    commands = {each.process.pid: as_reported(each) for each in crash.every(Kill) if program_of(each) is not None}
    kill = kill_at_a_limit(crash)
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


@about(dockers_last_print)
def docker_used(last: MachineMemory) -> str | None:
    """What docker's last print before the kill shows of the container's memory in use."""
    return beside(last.used_bytes, last.total_bytes)


def evicted(crash: Crash) -> str | None:
    """The pod or container that Kubernetes evicted for the node's memory."""
    pressure = crash.first(NodePressure)
    if pressure is None or pressure.reason != "Evicted":
        return None
    line = crash.mentions(_EVICTS.pattern)
    killed = _EVICTS.search(line) if line is not None else None
    name = pressure.container or (killed["name"] if killed is not None else None)
    return say("container {name}", name=name) if name else say("a pod")


@about(evicted_far_over_its_request)
def evicted_holder(evicted: NodePressure) -> str | None:
    """The container that Kubernetes evicted, most of whose use was beyond its request."""
    return say("container {name}", name=evicted.container) if evicted.container else None


@about(evicted_far_over_its_request)
def evicted_use(evicted: NodePressure) -> str | None:
    """What it used."""
    return briefly(evicted.used_bytes)


@about(evicted_far_over_its_request)
def evicted_request(evicted: NodePressure) -> str | None:
    """What it had requested."""
    return brief(evicted.requested_bytes or 0)


@about(first(NodePressure))
def evicted_free(pressure: NodePressure) -> str | None:
    """What was available on the node then."""
    return briefly(pressure.available_bytes)


@about(first(NodePressure))
def evicted_held(pressure: NodePressure) -> str | None:
    """What the evicted container used."""
    return briefly(pressure.used_bytes)
