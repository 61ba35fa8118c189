"""Which record of the kernel belongs to which failure: one that is about another program at another time explains
nothing of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.incident.moments import moment, seconds_between
from oomdoctor.language import mark
from oomdoctor.patterns import late

# What reports a kill polls, and `dmesg -T` is a little wrong after a suspend.
SAME_MOMENT: Final = 120
ZONE_STEP: Final = 1800
FURTHEST_ZONES: Final = 26 * 3600

WHY: Final = mark("the kernel killed this program at another time than the failure here, which it does not explain")
# As the kernel knows a job's processes, cut after 15 characters. Any other name is compared by time alone.
_OF_A_JOB = late(
    r"^(?:python|pt_|ray\b|ray::|raylet|VLLM|vllm|sglang|torchrun|deepspeed|accelerate|jupyter|ipython|trtllm|text-gen"
    r"|llama|ollama|lmdeploy|mpirun|dask|datasets|java)"
)


def set_apart(events: Iterable[Event]) -> list[tuple[Event, Lookalike]]:
    """The kernel's records that belong to no failure of the job, where the log holds one."""
    failures = [event for event in events if event.role == "root" and event.strength >= 1]
    of_the_job = [event for event in failures if event.family != "kernel"]
    if not of_the_job:
        return []
    return [
        (event, Lookalike(event.at, WHY))
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
