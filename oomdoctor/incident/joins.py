"""Which kill belongs to which failure: one of another process at another time explains nothing of it.

Ids tell before process numbers, which every node gives anew, and both before times, which are each node's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.flight_record import FlightRecord, RecordedKill
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import NodeOutOfMemory, Victim
from oomdoctor.job.moments import moment, seconds_between, seconds_since
from oomdoctor.language import mark, say
from oomdoctor.patterns import late

# What reports a kill polls, and `dmesg -T` is a little wrong after a suspend.
SAME_MOMENT: Final = 120
ZONE_STEP: Final = 1800
FURTHEST_ZONES: Final = 26 * 3600

WHY: Final = mark("the kernel killed this program at another time, so the kill does not explain this failure")
WHY_OF_RECORD: Final = mark("the flight record is of a job at another time, so its kill does not explain this failure")
NOT_FOR_MEMORY: Final = mark("the flight record of this job shows no OOM kill and free memory to the end")
# No address, and no name of a domain.
_HOST_NAME = late(r"[A-Za-z][A-Za-z0-9-]{0,62}")
# What Ray kills on a busy node, it may report minutes later.
LATE: Final = 600
# As the kernel knows a job's processes, cut after 15 characters. Any other name is compared by time alone.
_OF_A_JOB = late(
    r"^(?:python|pt_|ray\b|ray::|raylet|VLLM|vllm|sglang|torchrun|deepspeed|accelerate|jupyter|ipython|trtllm|text-gen"
    r"|llama|ollama|lmdeploy|mpirun|dask|datasets|java)"
)


def set_apart(events: Iterable[Event]) -> list[tuple[Event, Lookalike]]:
    """What explains no failure of the job: kernel's records of other moments, and kills that a recorder saw happen with
    memory left."""
    told = list(events)
    return [*_of_other_moments(told), *_with_memory_left(told)]


def _with_memory_left(events: Sequence[Event]) -> list[tuple[Event, Lookalike]]:
    records = [event for event in events if isinstance(event, FlightRecord)]
    if not any(record.memory_was_left for record in records) or any(event.proves for event in events):
        return []
    return [
        (event, Lookalike(event.at, NOT_FOR_MEMORY))
        for event in events
        if isinstance(event, Kill)
        and event.signal == SIGKILL
        and any(record.memory_was_left and is_of_job(record, event) for record in records)
    ]


def is_of_job(record: FlightRecord, kill: Kill) -> bool:
    """Whether the kill may be one of the recorded job, by its process, its machine and its time."""
    pid, node = kill.process.pid, kill.host or kill.process.node
    if pid is not None and record.pids and pid not in record.pids:
        return False
    if node and record.process.node and _HOST_NAME.fullmatch(node) and node != record.process.node:
        return False
    return _lies_in(record, kill.time)


def _lies_in(record: FlightRecord, time: str | None) -> bool:
    """Whether the time is one of the job's, in whatever zone; where none is printed, it may be."""
    end, then = moment(record.time), moment(time)
    if end is None or then is None:
        return True
    before = seconds_since(then, end)
    zoned = (before, before - ZONE_STEP * round(before / ZONE_STEP)) if then.clock == "program" else (before,)
    return any(-SAME_MOMENT <= seconds <= (record.seconds or 0) + SAME_MOMENT for seconds in zoned) and (
        abs(before) <= FURTHEST_ZONES + (record.seconds or 0)
    )


def _of_other_moments(events: Sequence[Event]) -> list[tuple[Event, Lookalike]]:
    """The kernel's records that belong to no failure of the job, where the log holds one."""
    failures = [event for event in events if event.role == "root" and event.strength >= 1]
    of_the_job = [event for event in failures if not isinstance(event, KernelKill | UserspaceKill)]
    if not of_the_job:
        return []
    return [
        (event, Lookalike(event.at, WHY_OF_RECORD if isinstance(event, RecordedKill) else WHY))
        for event in failures
        if isinstance(event, (KernelKill, UserspaceKill))
        and event.process.name
        and all(_apart(event, failure) for failure in of_the_job)
    ]


def _apart(kill: KernelKill | UserspaceKill, failure: Event) -> bool:
    pids = {failure.process.pid, *failure.figures("fields").get("pids", ())}
    if kill.process.pid is not None and kill.process.pid in pids:
        return False
    mine, other = moment(kill.time), moment(failure.time)
    if mine is None or other is None:
        return False
    seconds = seconds_between(mine, other)
    if seconds <= SAME_MOMENT:
        return False
    if mine.clock == other.clock or _OF_A_JOB.match(kill.process.name or "") is None:
        return True
    # The host may be in another zone than the job's container.
    return seconds > FURTHEST_ZONES + SAME_MOMENT or SAME_MOMENT < seconds % ZONE_STEP < ZONE_STEP - SAME_MOMENT


def explains(kill: Event, death: Event) -> bool | None:
    """Whether this kill is what ended that worker; None where nothing tells."""
    if not isinstance(kill, NodeOutOfMemory) or not kill.victims or not isinstance(death, WorkerDeath):
        return None
    answers = {_is_victim(victim, death) for victim in kill.victims}
    if True in answers:
        return not _of_two_nodes(kill, death)
    if _of_two_nodes(kill, death):
        return False
    return None if None in answers else False


def _is_victim(victim: Victim, death: WorkerDeath) -> bool | None:
    """By the first of the ids that both tell of."""
    ids = ((victim.worker_id, death.worker_id), (victim.actor_id, death.actor_id), (victim.pid, death.process.pid))
    return next((one == other for one, other in ids if one and other), None)


def _of_two_nodes(kill: NodeOutOfMemory, death: WorkerDeath) -> bool:
    if kill.node_id and death.node_id:
        return kill.node_id != death.node_id
    one, other = kill.process.node, death.process.node
    return bool(one and other) and one != other and kill.node_id not in (one, other)  # else an address and an id


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
