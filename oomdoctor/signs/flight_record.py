"""What `oomdoctor run` recorded beside the job."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.kill import Kill
from oomdoctor.families.recorded import FlightRecord, RecordedKill
from oomdoctor.incident.flight import is_of_job, lies_in
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import NEARLY_FULL
from oomdoctor.language import say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show

ALONE: Final = 0.8  # of what all processes of the job held
ROOM: Final = 2.0  # times as much as was requested


def grown_in_words(kill: RecordedKill) -> str:
    """A sentence on the process that grew most while the job ran; empty where none was sampled twice."""
    for one in kill.growth:
        return say(
            "{name} (PID {pid}) grew from {first} to {last} within {seconds} s.",
            name=one.name, pid=one.pid, first=show(one.first_bytes), last=show(one.most_bytes),
            seconds=f"{one.seconds:.0f}" if one.seconds >= 1 else f"{one.seconds:.1f}",
        )  # fmt: skip
    return ""


@sign
def the_job_is_one_process(crash: Crash) -> Seen | None:
    """The recorded job hit a cgroup limit, and one process held at least 80% of what its processes held."""
    kill = next((kill for kill in crash.every(RecordedKill) if kill.pool == "cgroup"), None)
    sizes = [task.rss_bytes for task in kill.tasks] if kill is not None else []
    if not sizes or max(sizes) < ALONE * sum(sizes):
        return None
    return Seen(words=say("the limit applies to the job alone, and the job is one large process"))


@sign
def a_limit_on_address_space_was_recorded(crash: Crash) -> Seen | None:
    """The recorded job had a limit on its address space, an allocation failed, and memory was left."""
    records = [each for each in crash.every(FlightRecord) if lies_in(each, crash.root.time)]
    record = next((each for each in records if each.address_space_bytes), None)
    if record is None or record.left_bytes is None or record.kills or crash.pool not in ("host_ram", "cgroup"):
        return None
    tried = crash.root.figures("usage").get("tried_bytes") or 0
    if not crash.proven or record.left_bytes < ROOM * tried:
        return None
    words = say(
        "The job's address space was limited to {limit} (`ulimit -v`); {left} of memory were left.",
        limit=show(record.address_space_bytes or 0),
        left=show(record.left_bytes),
    )
    return Seen(words=words, evidence=(crash.root, record))


@sign
def recorded_use_was_near_the_limit(crash: Crash) -> Seen | None:
    """The record's last sample before an unexplained kill shows 90% of the cgroup's limit in use, file cache apart."""
    root = crash.root
    records = [each for each in crash.every(FlightRecord) if isinstance(root, Kill) and is_of_job(each, root)]
    record = next((each for each in records if each.limit_bytes and each.used_bytes is not None), None)
    if record is None or (record.used_bytes or 0) < NEARLY_FULL * (record.limit_bytes or 0):
        return None
    words = say(
        "The last sample before the kill shows {used} of the limit of {limit} in use, file cache not counted.",
        used=show(record.used_bytes or 0),
        limit=show(record.limit_bytes or 0),
    )
    doubt = say("the record ends before the kill: the recorder was killed too") if record.unfinished else ""
    return Seen(
        words=words,
        evidence=(crash.root,),
        against=(doubt or say("the kernel counted no OOM kill in the job's cgroup"),),
        shows_memory=True,
        used_bytes=record.used_bytes,
        pool="cgroup",
    )
