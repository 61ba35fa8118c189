"""Which kill belongs to which failure: one of another process at another time explains nothing of it.

Ids tell before process numbers, which every node gives anew, and both before times, which are each node's own.

Two kills of the kernel are of one incident where one limit was hit, or else at one moment: what a machine's log tells
of another container or another hour is another incident.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.job.launch import command_of
from oomdoctor.job.moments import moment, seconds_between, seconds_since, since_boot
from oomdoctor.language import say
from oomdoctor.patterns import late

# What reports a kill polls, and `dmesg -T` is a little wrong after a suspend.
SAME_MOMENT: Final = 120
ZONE_STEP: Final = 1800
FURTHEST_ZONES: Final = 26 * 3600
# What Ray kills on a busy node, it may report minutes later.
LATE: Final = 600
_CUT: Final = 15  # characters of a name that the kernel keeps

# Who kills of the machine's: the kernel, and the guards beside it
OF_THE_MACHINE: Final = (KernelKill, UserspaceKill)
# A pod or a Slurm job, whose containers and steps are groups of their own and new at each start
_WHOLE: Final = late(r"pod[0-9a-f]{8}[-_][0-9a-f_-]{27}|/job_\d{1,12}(?=/|$)")
# Groups that many jobs share: the kubelet's for all pods, systemd's for all services, a user's for all logins
_SHARED: Final = late(
    r"/?(?:kubepods(?:\.slice)?(?:/(?:kubepods-)?(?:burstable|besteffort)(?:\.slice)?)?|user\.slice(?:/user-\d{1,10}\.slice)?"
    r"|system\.slice|docker|slurm)?\Z"
)


def explains(kill: Event, death: Event) -> bool | None:
    """Whether this kill is what ended that process; None where nothing tells."""
    if isinstance(kill, OF_THE_MACHINE) and isinstance(death, Kill):
        return True if kill.process.pid is not None and kill.process.pid == death.process.pid else None
    if not isinstance(kill, NodeOutOfMemory) or not kill.victims or not isinstance(death, WorkerDeath):
        return None
    answers = {_is_victim(victim, death) for victim in kill.victims}
    if True in answers:
        return not _of_two_nodes(kill, death)
    if _of_two_nodes(kill, death):
        return False
    return None if None in answers else False


def program_of(death: Event) -> str | None:
    """The program of the command that stands above a bare death, as the kernel names it."""
    if not isinstance(death, Kill):
        return None
    command = next((words for line in reversed(death.around.before) if (words := command_of(line))), None)
    return command[0].rpartition("/")[2][:_CUT] if command else None


def kills_one_of(kill: Event, programs: Collection[str | None]) -> bool:
    """Whether the kernel killed a process by one of these names."""
    return isinstance(kill, KernelKill) and kill.process.name is not None and kill.process.name in programs


def _is_victim(victim: Victim, death: WorkerDeath) -> bool | None:
    """By the first of the ids that both tell of."""
    ids = ((victim.worker_id, death.worker_id), (victim.actor_id, death.actor_id), (victim.pid, death.process.pid))
    return next((one == other for one, other in ids if one and other), None)


def _of_two_nodes(kill: NodeOutOfMemory, death: WorkerDeath) -> bool:
    if kill.node_id and death.node_id:
        return kill.node_id != death.node_id
    one, other = kill.process.node, death.process.node
    return bool(one and other) and one != other and kill.node_id not in (one, other)  # else an address and an id


def are_at_two_limits(one: Event, other: Event) -> bool:
    """Whether the kernel killed in two groups, each at a limit of its own; one of another limit is another one."""
    mine, others = _limit_of(one), _limit_of(other)
    if mine is None or others is None:
        return False
    (group, limit), (another, other_limit) = mine, others
    return group != another or bool(limit and other_limit and limit != other_limit)


def are_at_one_limit(one: Event, other: Event) -> bool:
    """Whether the kernel killed twice in one group: again and again, however long it takes."""
    return None not in (_limit_of(one), _limit_of(other)) and not are_at_two_limits(one, other)


def _limit_of(kill: Event) -> tuple[str, int | None] | None:
    """The group of a job's own whose limit was hit, and the limit where it is printed. A flight record names groups as
    a container sees them."""
    if not isinstance(kill, KernelKill) or kill.family != KernelKill.family or kill.pool != "cgroup":
        return None
    if kill.cgroup is None or _SHARED.match(kill.cgroup):
        return None
    whole = _WHOLE.search(kill.cgroup)
    return (whole[0].replace("_", "-") if whole is not None else kill.cgroup), kill.limit_bytes


def are_of_two_moments(one: Event, other: Event) -> bool:
    """Whether their times tell that one machine killed twice, by one clock of its own where both are of one log."""
    if one.at.file != other.at.file:
        return long_apart(one, other)
    mine, others = since_boot(one.time), since_boot(other.time)
    if mine is not None and others is not None:
        return abs(mine - others) > SAME_MOMENT
    return SAME_MOMENT < seconds_apart(one, other) < float("inf")


def are_of_one_incident(kills: Sequence[Event], kill: Event) -> bool:
    """Whether this kill of the machine's may be of the incident that these are of."""
    if any(are_at_two_limits(each, kill) for each in kills):
        return False
    return any(are_at_one_limit(each, kill) or not are_of_two_moments(each, kill) for each in kills)


def clocks_apart(events: Iterable[Event]) -> list[str]:
    """What to say of logs that print one death at different times."""
    notes = {
        (kill.at.file, death.at.file): say(
            "the clocks of {file} and {other} differ: they print {time} and {other_time} for one death; the order of "
            "events allows for it",
            file=kill.at.file, other=death.at.file, time=kill.time, other_time=death.time,
        )
        for kill, death, _ in reversed(_dated_twice(events))
    }  # fmt: skip
    return list(reversed(notes.values()))


def clocks_ahead(events: Iterable[Event], file: str) -> dict[str, float]:
    """How many seconds the clocks of other logs, and of all logs of other folders, are ahead of this log's, where one
    death tells: what lies in one folder is of one node."""
    ahead: dict[str, float] = {}
    mine = {file, _folder(file)}
    for kill, death, seconds in _dated_twice(events):
        one, other = kill.at.file, death.at.file
        for here, there in ((one, other), (_folder(one), _folder(other))):
            if here in mine and there not in mine:
                ahead.setdefault(there, seconds)
            elif there in mine and here not in mine:
                ahead.setdefault(here, -seconds)
    return ahead


def clock_of(file: str, ahead: Mapping[str, float]) -> float | None:
    """How many seconds this log's clock is ahead by `clocks_ahead`; None where nothing tells."""
    return ahead.get(file, ahead.get(_folder(file)))


def _folder(file: str) -> str:
    return f"{file.rpartition('/')[0]}/"


def _dated_twice(events: Iterable[Event]) -> list[tuple[NodeOutOfMemory, Event, float]]:
    """Kills and the deaths that two logs print of them, and by how many seconds the second clock is ahead."""
    told = list(events)
    found = []
    for kill in (event for event in told if isinstance(event, NodeOutOfMemory)):
        mine = moment(kill.time)
        for death in told if mine else ():
            others = moment(death.time)
            if mine and others and kill.at.file != death.at.file and explains(kill, death):
                seconds = seconds_since(mine, others)
                if abs(seconds) > SAME_MOMENT:
                    found.append((kill, death, seconds))
    return found


def long_apart(one: Event, other: Event) -> bool:
    """Whether both print a time and these cannot be of one moment, whatever zones their clocks are in."""
    mine, others = moment(one.time), moment(other.time)
    if mine is None or others is None:
        return False
    seconds = seconds_between(mine, others)
    if one.at.file == other.at.file:
        return seconds > LATE
    return seconds > FURTHEST_ZONES + LATE or LATE < seconds % ZONE_STEP < ZONE_STEP - LATE


def seconds_apart(one: Event, other: Event) -> float:
    """How long one is from the other; without end where it is not known."""
    mine, others = moment(one.time), moment(other.time)
    return float("inf") if mine is None or others is None else seconds_between(mine, others)
