"""Does this record speak of this crash, and what follows from it?

Records look back: the kernel's log, the counters of a control group, what a scheduler or an engine keeps of a job. They
are read beside a log or pasted below it, and may be of another job, another node, another day. Ids tell before times,
and times only as far as their clocks compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct

from oomdoctor.families.cgroup import AGAIN, GroupCounters, KillOutsideLimit
from oomdoctor.families.container import EndRecord, LimitKill, NodePressure
from oomdoctor.families.ended import CANCELLED, NODE_FAILED, PREEMPTION, SUPERVISOR, TIME_LIMIT
from oomdoctor.families.event import Event, Lookalike
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import Kill
from oomdoctor.families.proc_vmstat import MachineKills
from oomdoctor.families.ray_kill import NodeOutOfMemory
from oomdoctor.families.systemd_unit import CoreDump
from oomdoctor.incident.joins import (
    FURTHEST_ZONES,
    OF_THE_MACHINE,
    SAME_MOMENT,
    ZONE_STEP,
    are_of_one_incident,
    are_of_two_moments,
)
from oomdoctor.job.moments import Moment, moment, seconds_since
from oomdoctor.language import mark, say, translated
from oomdoctor.patterns import late

_SYSTEMD: Final = "systemd"  # a reporter
# A job may print nothing for so long before it dies.
SILENT: Final = 6 * 3600
# Ray prints gigabytes to two digits.
SAME_LIMIT: Final = 0.98

ANOTHER_TIME: Final = mark("the kernel killed this program at another time, so the kill does not explain this failure")
ANOTHER_JOB: Final = mark("this record belongs to another job")
ANOTHER_CONTAINER: Final = mark("this record belongs to another container")
ANOTHER_NODE: Final = mark("this record belongs to another node")
ANOTHER_PROGRAM: Final = mark("the kernel killed another program, so the kill does not explain this failure")
ANOTHER_DAY: Final = mark("this record is from another time than the failure")
CRASHED: Final = mark("its core dump shows a crash in native code")
ONE_OF_SEVERAL: Final = mark("several kills are recorded, and nothing shows which one belongs to this failure")
NAMED_ANOTHER: Final = mark("the kernel killed more than once, and the job's log names the process of another kill")
ANOTHER_LIMIT: Final = mark("the kernel killed at a limit below the one that Ray's node has")
STARTED_LATER: Final = mark("this record belongs to a process that started after the failure")

# As the kernel knows a job's processes, cut after 15 characters. Any other name is compared by time alone.
_OF_A_JOB = late(
    r"^(?:python|pt_|ray\b|ray::|raylet|VLLM|vllm|sglang|torchrun|deepspeed|accelerate|jupyter|ipython|trtllm|text-gen"
    r"|llama|ollama|lmdeploy|mpirun|dask|datasets|java)"
)
_JOB: Final = late(
    r"(?:SLURM_JOB_?ID[=: ]{1,3}|[Ss]lurm job (?:id )?|\bJOB |\bSTEP |\bJobId=|StepId=|/slurmd/job0{0,11}|/job_)"
    r"(\d{1,12})\b"
)
_JOB_OF_A_FILE: Final = late(r"\bslurm-(\d{1,12})(?:_\d{1,6})?\.(?:out|err|log)\b")
_NUMBER: Final = late(r"^(\d{1,12})")
_COMPOSE: Final = late(r"^\[?([A-Za-z0-9][\w.-]{0,60})\]? exited with code \d")
# What slurmd starts runs in groups of slurmd's own; a login's session and docker's containers are none of them
_BY_SLURMD: Final = late(r"/slurmd/job\d|\bStepId=\d|\bSTEP \d{1,12}\.\S{1,12} ON ")
_OUTSIDE_SLURM: Final = late(r"(?!.{0,400}slurm).{0,400}(?:/session-\w{1,12}\.scope\Z|/docker[/-][0-9a-f])")
_HOST: Final = late(
    r"^\s{0,8}host(?:name)?\s{0,8}[:=]\s{0,4}([\w.-]{1,253})\s{0,4}$|\bon node ([\w.-]{1,253}) exited\b"
)
_LONG_ID: Final = late(r"\b([0-9a-f]{64})\b|(?:docker|libpod|crio|containerd)[-/]([0-9a-f]{12,64})\b")
_ID: Final = late(r"^[0-9a-f]{12,64}$")
SHORT_ID: Final = 12
_COMMAND: Final = late(r"\bKilled:?\s{1,40}(\S.{0,200})")

RECORDS: Final = (
    *OF_THE_MACHINE, KillOutsideLimit, GroupCounters, MachineKills, EndRecord, NodePressure, CoreDump,
)  # fmt: skip
# What a manager's own record says in place of a reason for the kill
_REASONS: Final = tuple(
    (late(pattern), why)
    for pattern, why in (
        (r"^(?:TIMEOUT|DEADLINE|DeadlineExceeded)\b", TIME_LIMIT),
        (r"^(?:PREEMPTED|Preempt\w{1,10})\b", PREEMPTION),
        (r"^(?:NODE_FAIL|BOOT_FAIL|NodeLost|NodeShutdown|Shutdown|ContainerStatusUnknown)\b", NODE_FAILED),
        (r"^CANCELLED\b", CANCELLED),
        (r"^(?:timeout|watchdog)$", SUPERVISOR),
    )
)
MANAGERS: Final = {"slurm": "Slurm", "kubernetes": "Kubernetes", "docker": "docker", "systemd": "systemd"}


class Trace(Struct, frozen=True):
    """What a failure's own lines say of who died, where and when."""

    file: str
    jobs: frozenset[str]
    containers: frozenset[str]
    hosts: frozenset[str]
    pids: frozenset[int]
    by_slurmd: bool  # by the line itself
    programs: str  # the command that died, in words
    total: int  # bytes that its node may use, where Ray's monitor measured them
    exact: Moment | None
    above: Moment | None  # of the last line before that has a time


class Claim(Struct, frozen=True):
    """What a record says of whom it is about."""

    record: Event
    jobs: frozenset[str]
    containers: frozenset[str]
    host: str | None
    started: Moment | None
    ended: Moment | None


class Bond(Struct, frozen=True):
    """Whether a record speaks of a failure: None where nothing tells."""

    holds: bool | None
    why: str = ""  # where it does not


UNKNOWN: Final = Bond(None)
HOLDS: Final = Bond(True)


def is_record(event: Event) -> bool:
    """Whether it is what somebody looked up afterwards, or a log of the machine's, rather than the job's own line."""
    if isinstance(event, LimitKill):
        return event.tool is not None
    return isinstance(event, RECORDS)


def set_apart(events: Iterable[Event]) -> list[tuple[Event, Lookalike | None]]:
    """The records that belong to no failure of the job, the kills for which a record has another reason, and what
    records repeat of the job's own failure."""
    told = list(events)
    records = [event for event in told if is_record(event)]
    failures = failures_among(told, records)
    if not failures:
        return []
    traces = traces_of(failures)
    foreign: list[tuple[Event, Lookalike | None]] = []
    untied: list[Event] = []
    for record in records:
        claim = claim_of(record)
        bonds = [bond(claim, trace) for trace in traces]
        if all(one.holds is False for one in bonds):
            foreign.append((record, Lookalike(record.at, bonds[0].why)))
        elif isinstance(record, OF_THE_MACHINE) and not any(one.holds for one in bonds):
            untied.append(record)
        elif isinstance(record, (EndRecord, CoreDump)):
            foreign += _ended_otherwise(record, failures, bonds)
        foreign += [(each, None) for each in _within(record, told)]
    named = [record for record in records if isinstance(record, OF_THE_MACHINE) and _is_named(record, traces)]
    others = [record for record in untied if named and not are_of_one_incident(named, record)]
    if others:
        foreign += [(record, Lookalike(record.at, NAMED_ANOTHER)) for record in others]
    elif any(are_of_two_moments(untied[0], record) for record in untied[1:]):
        # A machine's log of a week: any of its kills may be the one, so none is.
        foreign += [(record, Lookalike(record.at, ONE_OF_SEVERAL)) for record in untied]
    return foreign


def _is_named(kill: Event, traces: Iterable[Trace]) -> bool:
    """Whether the job's own lines name the process that was killed."""
    return any(kill.process.pid in trace.pids for trace in traces)


def may_be_of_one_crash(crash: Sequence[Event], event: Event) -> bool:
    """Whether this failure may be of that crash, as far as the kills of the machine among them tell."""
    kills = [each for each in crash if isinstance(each, OF_THE_MACHINE)]
    if not isinstance(event, OF_THE_MACHINE):
        return not kills or _may_speak(kills, traces_of([event]))
    if kills and not are_of_one_incident(kills, event):
        return False
    return _may_speak([event], traces_of([each for each in crash if not is_record(each)]))


def _may_speak(kills: Iterable[Event], traces: Sequence[Trace]) -> bool:
    """Whether one of the kills may be what one of the failures was."""
    claims = [claim_of(kill) for kill in kills]
    return not traces or any(bond(claim, trace).holds is not False for claim in claims for trace in traces)


def failures_among(events: Sequence[Event], records: Sequence[Event]) -> list[Event]:
    """What the job's own lines say of its failure: not what a record repeats of it."""
    repeated = {id(event) for record in records for event in _within(record, events)}
    return [
        event
        for event in events
        if event.role != "context"
        and event.strength >= 1
        and not is_record(event)
        and id(event) not in repeated
        and not _is_of_the_journal(event, records)
    ]


def _is_of_the_journal(event: Event, records: Sequence[Event]) -> bool:
    """Whether it is systemd's word on a unit, in the file that has the kernel's kills: the machine's own log."""
    told = isinstance(event, Kill) and event.reporter == _SYSTEMD
    return told and any(isinstance(each, KernelKill) and each.at.file == event.at.file for each in records)


def _within(record: Event, events: Iterable[Event]) -> Iterator[Event]:
    """The deaths that the record's own lines tell of: an exit code, a state."""
    for event in events:
        inside = event.at.file == record.at.file and record.at.line <= event.at.line <= record.at.end_line
        if isinstance(event, Kill) and inside:
            yield event


def _ended_otherwise(
    record: EndRecord | CoreDump, failures: Sequence[Event], bonds: Sequence[Bond]
) -> Iterator[tuple[Event, Lookalike]]:
    reason = reason_of(record)
    if reason is None:
        return
    for failure, one in zip(failures, bonds, strict=True):
        if one.holds and isinstance(failure, Kill) and not (isinstance(record, CoreDump) and failure.signal):
            yield failure, Lookalike(failure.at, say("killed, but {reason}", reason=translated(reason)))
            yield failure, Lookalike(record.at, of_state(record))


def reason_of(record: EndRecord | CoreDump) -> str | None:
    """What else than memory ended it, by the manager's state or the signal that a core was dumped for."""
    if isinstance(record, CoreDump):
        return CRASHED if record.signal in ("SIGSEGV", "SIGILL", "SIGFPE") else None
    return next((why for pattern, why in _REASONS if pattern.match(record.state or "")), None)


def of_state(record: EndRecord | CoreDump) -> str:
    """The record in words."""
    if isinstance(record, CoreDump):
        return say("systemd-coredump kept a core of {program} ({signal})", program=record.program, signal=record.signal)
    who = MANAGERS.get(record.manager, record.manager)
    return say("{who} recorded the state {state}", who=who, state=record.state or "")


def bond(claim: Claim, trace: Trace) -> Bond:
    """Whether the record speaks of this failure."""
    if claim.jobs and trace.jobs:
        return HOLDS if claim.jobs & trace.jobs else Bond(False, ANOTHER_JOB)
    if claim.record.process.pid is not None and claim.record.process.pid in trace.pids:
        return HOLDS
    if trace.by_slurmd and any(_OUTSIDE_SLURM.match(group) for group in _groups_of(claim.record)):
        return Bond(False, ANOTHER_JOB)
    container = _same_container(claim.containers, trace.containers)
    if container is False:
        return Bond(False, ANOTHER_CONTAINER)
    if isinstance(claim.record, KernelKill) and (claim.record.limit_bytes or trace.total) < trace.total * SAME_LIMIT:
        return Bond(False, ANOTHER_LIMIT)
    host = claim.host
    if host is not None and any(_are_siblings(host, other) for other in trace.hosts):
        return Bond(False, ANOTHER_NODE)
    timely = _timely(claim, trace)
    if timely.holds is False:
        return timely
    if container or (host is not None and host in trace.hosts):
        return HOLDS
    if timely.holds is None and _is_of_another_program(claim.record, trace):
        return Bond(False, ANOTHER_PROGRAM)
    return timely


def claim_of(record: Event) -> Claim:
    host: str | None = getattr(record, "host", None)
    return Claim(
        record=record,
        jobs=_jobs_of(record),
        containers=_containers_of(record),
        host=host.split(".")[0] if host else None,
        started=moment(getattr(record, "started", None)),
        ended=moment(record.time),
    )


def traces_of(failures: Sequence[Event]) -> list[Trace]:
    totals = [event.total_bytes for event in failures if isinstance(event, NodeOutOfMemory) and event.total_bytes]
    return [_trace(failure, max(totals, default=0)) for failure in failures]


def _trace(failure: Event, total: int) -> Trace:
    near = (failure.at.text, *failure.around.before, *failure.around.after)
    figures = failure.figures("fields")
    own = {str(figures[name]) for name in ("job",) if figures.get(name)}
    jobs = own | {match[1] for text in near for match in [_JOB.search(text)] if match}
    if named := _JOB_OF_A_FILE.search(failure.at.file):
        jobs = {named[1]}
    hosts = {host for text in near for match in [_HOST.match(text)] if match for host in match.groups() if host}
    hosts |= {name for name in (figures.get("host"), failure.process.node) if name}
    containers = {match[1] for match in map(_COMPOSE.match, near) if match}
    containers |= {host[:SHORT_ID] for host in hosts if _ID.match(host)}
    command = _COMMAND.search(failure.at.text)
    return Trace(
        file=failure.at.file,
        jobs=frozenset(match[1] for job in jobs for match in [_NUMBER.match(job)] if match),
        containers=frozenset(containers),
        hosts=frozenset(host.split(".")[0] for host in hosts),
        pids=frozenset(pid for pid in (failure.process.pid, *figures.get("pids", ())) if pid is not None),
        by_slurmd=_BY_SLURMD.search(failure.at.text) is not None,
        programs=command[1] if command else "",
        total=total,
        exact=moment(failure.time),
        above=moment(failure.around.time),
    )


def _jobs_of(record: Event) -> frozenset[str]:
    said = [getattr(record, "job", None) or "", *_groups_of(record)]
    own = _NUMBER.match(said[0])
    found = {own[1]} if own else set()
    return frozenset(found | {match[1] for text in said[1:] for match in [_JOB.search(text)] if match})


def _groups_of(record: Event) -> list[str]:
    names = (getattr(record, name, None) for name in ("group", "cgroup", "task_cgroup", "unit"))
    return [name for name in names if name]


def _containers_of(record: Event) -> frozenset[str]:
    """By name and by the first twelve characters of the id."""
    found = {name for name in (getattr(record, "container", None), getattr(record, "host", None)) if name}
    ids = (match[1] or match[2] for text in _groups_of(record) for match in _LONG_ID.finditer(text))
    return frozenset({name[:SHORT_ID] if _ID.match(name) else name for name in found} | {one[:SHORT_ID] for one in ids})


def _same_container(record: frozenset[str], failure: frozenset[str]) -> bool | None:
    """By ids where both have some, else by names: compose puts a project before a service and a number behind it."""
    if not record or not failure:
        return None
    if any(_alike(one, other) for one in record for other in failure):
        return True
    for kind in (True, False):
        one, other = ({name for name in names if bool(_ID.match(name)) is kind} for names in (record, failure))
        if one and other:
            return False
    return None


def _alike(one: str, other: str) -> bool:
    one, other = (re.sub(r"[-_.]\d{1,4}$", "", name.replace("_", "-")) for name in (one, other))
    return one == other or one.endswith(f"-{other}") or other.endswith(f"-{one}")


def _are_siblings(one: str, other: str) -> bool:
    """Whether two names are of one scheme and differ: node4 and node7. A pod's name says nothing of its node's."""
    return one != other and re.sub(r"\d{1,9}", "0", one) == re.sub(r"\d{1,9}", "0", other)


def _is_of_another_program(record: Event, trace: Trace) -> bool:
    name = record.process.name if isinstance(record, KernelKill) else None
    if not name or not trace.programs or _OF_A_JOB.match(name):
        return False
    return name not in trace.programs


def _timely(claim: Claim, trace: Trace) -> Bond:
    record, started, ended = claim.record, claim.started, claim.ended
    died = trace.exact or trace.above
    late_at_most = SAME_MOMENT if trace.exact else SILENT
    if died is not None and started is not None and _is_later(started, died, late_at_most):
        return Bond(False, STARTED_LATER)
    if ended is None or died is None:
        return UNKNOWN
    why = ANOTHER_TIME if isinstance(record, OF_THE_MACHINE) else ANOTHER_DAY
    after = seconds_since(died, ended)
    if -SAME_MOMENT <= after <= late_at_most:
        return HOLDS if ended.clock == died.clock else UNKNOWN
    if _is_of_one_clock(record, ended, died) or _is_no_job(record):
        return Bond(False, why)
    # The host may be in another zone than the job's container.
    if not -FURTHEST_ZONES - SAME_MOMENT <= after <= FURTHEST_ZONES + late_at_most:
        return Bond(False, why)
    of_a_zone = not SAME_MOMENT < abs(after) % ZONE_STEP < ZONE_STEP - SAME_MOMENT
    return UNKNOWN if of_a_zone or trace.exact is None else Bond(False, why)


def _is_later(started: Moment, died: Moment, seconds: float) -> bool:
    further = seconds if started.clock == died.clock else FURTHEST_ZONES
    return seconds_since(died, started) > further


def _is_of_one_clock(record: Event, ended: Moment, died: Moment) -> bool:
    """Whether the times compare as they stand: a scheduler prints its cluster's, a program in a container its own."""
    if ended.clock != died.clock:
        return False
    return ended.clock == "utc" or isinstance(record, OF_THE_MACHINE)


def _is_no_job(record: Event) -> bool:
    """Whether the kernel names a program that no job runs: a zone that would explain the time is not looked for."""
    named = isinstance(record, OF_THE_MACHINE) and record.process.name
    return bool(named) and _OF_A_JOB.match(record.process.name or "") is None


def traces_among(events: Sequence[Event]) -> tuple[Trace, ...]:
    """What each of the job's own failures says."""
    return tuple(traces_of(failures_among(events, [event for event in events if is_record(event)])))


def unproven(record: Event, traces: Sequence[Trace]) -> bool:
    """Whether nothing tells that this record is of the failure beside it."""
    return is_record(record) and bool(traces) and not any(bond(claim_of(record), trace).holds for trace in traces)


def is_of_the_dead(record: Event, traces: Sequence[Trace]) -> bool:
    """Whether an id tells that the record is of what died: a new container has new counters, all zero. Of the record
    of an end its time tells it, too; and counters that are printed before the job, too, are those of its group."""
    claim = claim_of(record)
    return any(
        (isinstance(record, GroupCounters) and record.turn == AGAIN and record.at.file == trace.file)
        or bool(claim.jobs & trace.jobs)
        or _same_container(claim.containers, trace.containers) is True
        or claim.host in trace.hosts
        or (isinstance(record, EndRecord) and bool(bond(claim, trace).holds))
        for trace in traces
    )
