"""Records that look back at the death: what they prove of the limit, and what they deny."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families.cgroup import FIRST, GroupCounters, KillOutsideLimit
from oomdoctor.families.container import EndRecord
from oomdoctor.families.event import Event
from oomdoctor.families.kill import Kill
from oomdoctor.families.proc_vmstat import MachineKills
from oomdoctor.families.refusal import Refusal
from oomdoctor.incident.model import Crash
from oomdoctor.incident.records import MANAGERS, Trace, is_of_the_dead, reason_of, traces_among, unproven
from oomdoctor.language import counted, joined, mark, say
from oomdoctor.signs import Seen, sign
from oomdoctor.units import show

REACHED: Final = 0.98  # of the limit
USED_UP: Final = 0.95  # of a request: the peak is sampled
SIGKILLED: Final = 9


def traces(crash: Crash) -> tuple[Trace, ...]:
    """What the job's own lines say of its failures, looked up once for all signs."""
    if traces_among not in crash.seen:
        crash.seen[traces_among] = traces_among(crash.events)
    found: tuple[Trace, ...] = crash.seen[traces_among]
    return found


def is_untied(crash: Crash, record: Event) -> bool:
    """Whether nothing ties this record to the failure."""
    return unproven(record, traces(crash))


@sign
def killed_outside_its_limit(crash: Crash) -> Seen | None:
    """A cgroup counts OOM kills, and its own limit was not hit: a limit above it, or the node."""
    kill = crash.first(KillOutsideLimit)
    if kill is None:
        return None
    kills = counted(kill.kills, mark("{count} OOM kill"), mark("{count} OOM kills"))
    words = say(
        "The cgroup counts {kills}, but its own limit was not hit{figures}.", kills=kills, figures=_figures(kill)
    )
    where = say("Either the node ran out of RAM or a parent cgroup hit its limit (pod, job, service).")
    return Seen(
        words=joined((words, where)),
        evidence=(kill, *crash.every(Kill)[:1]),
        against=tuple(doubts(crash, kill)),
        shows_memory=True,
    )


def _figures(kill: KillOutsideLimit) -> str:
    if kill.limit_bytes and kill.peak_bytes:
        return say(": peak {peak}, limit {limit}", peak=show(kill.peak_bytes), limit=show(kill.limit_bytes))
    return say(": limit {limit}", limit=show(kill.limit_bytes)) if kill.limit_bytes else ""


@sign
def peak_reached_the_limit(crash: Crash) -> Seen | None:
    """A kill is unexplained, no counter denies an OOM kill, and the cgroup's peak is 98% of its limit or more; or Slurm
    recorded SIGKILL and a peak of 95% of the request or more."""
    if not isinstance(crash.root, Kill):
        return None
    return _of_the_cgroup(crash) or _of_the_request(crash)


def _of_the_cgroup(crash: Crash) -> Seen | None:
    groups = crash.every(GroupCounters)
    full = next((each for each in groups if _reaches(each.peak_bytes, REACHED, each.limit_bytes)), None)
    if full is None or denied(crash):
        return None
    words = say(
        "The cgroup used up to {peak} of its limit of {limit}.",
        peak=show(full.peak_bytes or 0),
        limit=show(full.limit_bytes or 0),
    )
    return _full(crash, full, words, say("page cache can fill a cgroup to its limit without an OOM kill"))


def _of_the_request(crash: Crash) -> Seen | None:
    records = (each for each in crash.every(EndRecord) if each.manager == "slurm" and each.signal == SIGKILLED)
    full = next((each for each in records if _reaches(each.peak_bytes, USED_UP, each.requested_bytes)), None)
    if full is None:
        return None
    words = say(
        "Slurm recorded a peak of {peak} of the {limit} that the job requested.",
        peak=show(full.peak_bytes or 0),
        limit=show(full.requested_bytes or 0),
    )
    return _full(crash, full, words, say("Slurm recorded SIGKILL (0:9), not an OOM kill (0:125)"))


def _reaches(peak: int | None, share: float, whole: int | None) -> bool:
    return bool(peak and whole and peak >= share * whole)


def _full(crash: Crash, record: Event, words: str, doubt: str) -> Seen:
    return Seen(words=words, evidence=(record, crash.root), against=(doubt, *doubts(crash, record)), pool="cgroup")


@sign
def a_record_denies_the_limit(crash: Crash) -> Seen | None:
    """The counters of the cgroup that died, or its engine's record, show that its own limit did not kill it."""
    if isinstance(crash.root, KillOutsideLimit):
        return Seen(words=say("the cgroup's own limit was not hit"))
    if not isinstance(crash.root, Kill):
        return None
    found = next(iter(denied(crash)), None)
    return Seen(words=found[1]) if found is not None else None


def denied(crash: Crash) -> list[tuple[Event, str]]:
    """The records that deny a kill at the limit, with what each says: only of what died, by its ids or its time."""
    return [(event, words) for event, words in _denials(crash) if is_of_the_dead(event, traces(crash))]


def _denials(crash: Crash) -> Iterator[tuple[Event, str]]:
    for group in crash.every(GroupCounters):
        if group.kills == 0 and group.turn != FIRST:
            yield group, say("the cgroup's counters show no OOM kill")
    for record in crash.every(EndRecord):
        who = MANAGERS.get(record.manager, record.manager)
        if record.oom_killed is False:
            yield record, say("{who} reports no OOM kill at the container's own limit", who=who)
        elif record.manager == "systemd" and reason_of(record) is None:
            yield record, say("systemd reports the result {state}, not an OOM kill", state=record.state or "")
    for machine in crash.every(MachineKills):
        if machine.kills == 0:
            yield machine, say("/proc/vmstat counts no OOM kill since the machine started")


@sign
def no_kernel_kill(crash: Crash) -> Seen | None:
    """Counters of the cgroup that died, or of its machine, show that the kernel's OOM killer did not kill it."""
    counters = [event for event, _ in denied(crash) if isinstance(event, GroupCounters | MachineKills)]
    if not counters or not isinstance(crash.root, Kill):
        return None
    words = say(
        "The kernel's counters show no OOM kill. Another process sent SIGKILL: systemd-oomd, earlyoom, Ray, the "
        "kubelet or a user."
    )
    return Seen(words=words, evidence=tuple(counters[:2]))


def remarks(crash: Crash) -> Iterator[str]:
    """What records say of an unexplained kill that does not decide it."""
    certain = {id(event) for event, _ in denied(crash)}
    for event, words in _denials(crash):
        if id(event) in certain or _tells_of(event, crash.root):
            yield words
        elif isinstance(event, GroupCounters):
            yield say("{words}; a cgroup created after the failure has zero counters, too", words=words)
        else:
            yield say("{words}; no ID, name or time ties this record to the failed process", words=words)
    for machine in crash.every(MachineKills):
        if machine.more:
            kills = counted(machine.more, mark("{count} OOM kill"), mark("{count} OOM kills"))
            yield say("/proc/vmstat rose by {kills}; the victim may be another process", kills=kills)

    for tool in dict.fromkeys(refusal.tool for refusal in crash.every(Refusal)):
        yield say("{tool} gave no answer, so an OOM kill is neither shown nor excluded", tool=tool)


def _tells_of(record: Event, root: Event) -> bool:
    """Whether the end is read from a line of the record itself."""
    return record.at.file == root.at.file and record.at.line <= root.at.line <= record.at.end_line


def doubts(crash: Crash, record: Event) -> Iterator[str]:
    """What to say of a record that no id and no time ties to the failure."""
    if is_untied(crash, record):
        yield say("no ID, name or time ties this record to the failed process")
