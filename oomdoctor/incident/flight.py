"""Does this flight record speak of this kill? It does by the process, the machine and the time of the recorded job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.kill import SIGKILL, Kill
from oomdoctor.families.recorded import FlightRecord
from oomdoctor.incident.joins import FURTHEST_ZONES, SAME_MOMENT, ZONE_STEP
from oomdoctor.job.moments import moment, seconds_since
from oomdoctor.language import mark, say
from oomdoctor.patterns import late

NOT_FOR_MEMORY: Final = mark("the flight record of this job shows no OOM kill and free memory to the end")
# No address, and no name of a domain.
_HOST_NAME = late(r"[A-Za-z][A-Za-z0-9-]{0,62}")


def with_memory_left(events: Iterable[Event]) -> list[tuple[Event, Lookalike]]:
    """The kills that a recorder saw happen with memory left."""
    told = list(events)
    records = [event for event in told if isinstance(event, FlightRecord)]
    if not any(record.memory_was_left for record in records) or any(event.proves for event in told):
        return []
    return [
        (event, Lookalike(event.at, NOT_FOR_MEMORY))
        for event in told
        if isinstance(event, Kill)
        and event.signal == SIGKILL
        and any(record.memory_was_left and is_of_job(record, event) for record in records)
    ]


def without_its_output(events: Iterable[Event]) -> dict[tuple[str, int], Lookalike]:
    """What to say of jobs that ended with an error, by the places of their records, where no other log is there."""
    return {
        (event.at.file, event.at.line): Lookalike(
            event.at,
            say(
                "the job ended with exit code {status}: the kernel counted no OOM kill; what the job printed is not in "
                "the record: give its output beside it",
                status=event.status,
            ),
        )
        for event in events
        if isinstance(event, FlightRecord) and event.failed_by_itself
    }


def is_of_job(record: FlightRecord, kill: Kill) -> bool:
    """Whether the kill may be one of the recorded job, by its process, its machine and its time."""
    pid, node = kill.process.pid, kill.host or kill.process.node
    if pid is not None and record.pids and pid not in record.pids:
        return False
    if node and record.process.node and _HOST_NAME.fullmatch(node) and node != record.process.node:
        return False
    return lies_in(record, kill.time)


def lies_in(record: FlightRecord, time: str | None) -> bool:
    """Whether the time is one of the job's, in whatever zone; where none is printed, it may be."""
    end, then = moment(record.time), moment(time)
    if end is None or then is None:
        return True
    before = seconds_since(then, end)
    zoned = (before, before - ZONE_STEP * round(before / ZONE_STEP)) if then.clock == "program" else (before,)
    return any(-SAME_MOMENT <= seconds <= (record.seconds or 0) + SAME_MOMENT for seconds in zoned) and (
        abs(before) <= FURTHEST_ZONES + (record.seconds or 0)
    )


__all__ = ["is_of_job", "lies_in", "with_memory_left", "without_its_output"]
