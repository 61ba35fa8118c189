"""What `oomdoctor run` recorded beside a job: the lines of its record put together, and what they tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Struct

from oomdoctor.families import Family
from oomdoctor.families.df import ShmUsage
from oomdoctor.families.event import Lookalike, Place, Process, Read
from oomdoctor.families.gpu_table import Card, CardProcess, GpuTable
from oomdoctor.families.kernel import PAGE, Task
from oomdoctor.families.kill import SIGBUS, SIGKILL, Kill
from oomdoctor.families.machine_memory import MachineMemory, MachineProcess
from oomdoctor.families.recorded import FlightRecord, Growth, RecordedKill, signal_of
from oomdoctor.language import say
from oomdoctor.recorder import kernel_log
from oomdoctor.recorder.cgroup import Level
from oomdoctor.recorder.schema import TIME, End, Entry, Gone, Named, Packages, Sample, Start
from oomdoctor.streams import Line, Page
from oomdoctor.text import sanitize
from oomdoctor.units import show

START: Final = '{"flight":"start"'
END: Final = '{"flight":"end"'
NAMED: Final = '{"flight":"process"'
OF_A_GROUP: Final = "CONSTRAINT_MEMCG"
OF_THE_MACHINE: Final = "CONSTRAINT_NONE"
REPORTER: Final = "oomdoctor run"

NUMBER_OF_KILL: Final = 9
NUMBER_OF_BUS_ERROR: Final = 7
STOPS: Final = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}
CRASHES: Final = {4: "SIGILL", 6: "SIGABRT", 8: "SIGFPE", 11: "SIGSEGV"}

AT_LIMIT: Final = 0.98  # of a limit: version 1 also counts a page cache that was emptied in time
SHORT: Final = 0.9  # of a limit or the machine in use: a kill may have been for memory
SHOWN: Final = 80  # characters of a process's name


class Flight(Struct):
    """The lines of one record, put together."""

    start: Start | None = None
    end: End | None = None
    samples: list[Sample] = []
    names: dict[int, str] = {}

    @property
    def sample(self) -> Sample:
        """The last one, or the last before the kernel counted its last kill: then the killed process is still in it."""
        kills = self.kills or 0
        before = [sample for sample in self.samples if (sample.kills or 0) < kills]
        return next(reversed(before or self.samples), Sample(s=0))

    @property
    def levels(self) -> Sequence[tuple[Level, Level]]:
        """Each cgroup before and after, the job's own first."""
        if self.start is None or self.end is None:
            return ()
        return [pair for pair in zip(self.start.levels, self.end.levels, strict=False) if pair[0].path == pair[1].path]

    @property
    def kills(self) -> int | None:
        if self.end is not None:
            return self.end.kills
        return self.samples[-1].kills if self.samples else None

    @property
    def machine_kills(self) -> int | None:
        before = self.start.memory.kills if self.start is not None else None
        after = self.end.memory.kills if self.end is not None else None
        return after - before if before is not None and after is not None else None

    @property
    def total(self) -> int | None:
        return self.start.memory.total if self.start is not None else None

    @property
    def ended_by(self) -> int | None:
        """The signal that ended the job."""
        return signal_of(self.end.status, self.end.signal) if self.end is not None else None

    def name(self, pid: int) -> str | None:
        return sanitize(self.names[pid], SHOWN) if self.names.get(pid) else None

    def limit_that_was_hit(self) -> Level | None:
        """The innermost cgroup whose limit failed a request while the job ran."""
        for before, after in self.levels:
            rose = (after.hits or 0) > (before.hits or 0)
            if rose and after.limit and (after.peak is None or after.peak >= AT_LIMIT * after.limit):
                return after
        return None

    def is_short(self) -> bool:
        """Whether the job or the machine was near its end at the last sample, or would be by the time of the end."""
        sample = self.sample
        if sample.limit and self.held is not None and self.held + self._ahead() >= SHORT * sample.limit:
            return True
        return self.machine_is_short()

    @property
    def held(self) -> int | None:
        """What is used of the limit, without the cache of files."""
        return self.sample.used - (self.sample.cache or 0) if self.sample.used is not None else None

    def machine_is_short(self) -> bool:
        """The same of the machine alone."""
        available = self.sample.available
        if not self.total or available is None:
            return not self.samples
        return available - self._ahead() <= (1 - SHORT) * self.total

    def _ahead(self) -> float:
        """What may have come since the last sample, as fast as before it."""
        if len(self.samples) < 2 or self.end is None:
            return 0.0
        one, two = self.samples[-2:]
        seconds = max(two.s - one.s, 0.1)
        rise = max((one.available or 0) - (two.available or 0), (two.used or 0) - (one.used or 0), 0)
        return rise / seconds * max(0.0, self.end.s - two.s)


def read(page: Page, index: int) -> Iterator[Read]:
    """A record is read at its end; one without an end, at its start."""
    text = page.lines[index].text
    if text.startswith(END):
        flight = _flight(page, _start_of(page, index), index)
        if flight.end is not None:
            yield from _told(page, page.lines[index], flight)
    elif text.startswith(START) and page.ends and not _goes_on(page, index):
        yield from _told(page, page.lines[index], _flight(page, index, len(page.lines) - 1))


def command(text: str) -> str:
    """The job's command line, where this is the first line of a record."""
    entry = _entry(text)
    return entry.command if isinstance(entry, Start) else ""


def packages(text: str) -> tuple[str, ...]:
    """As `pip freeze` prints them, where this line of a record has them."""
    entry = _entry(text)
    return entry.packages if isinstance(entry, Packages) else ()


def samples(page: Page, index: int) -> tuple[Sample | None, Sample | None]:
    """The sample on this line, and the one on the line above."""
    here, above = (_entry(page.lines[at].text) if at >= 0 else None for at in (index, index - 1))
    return (here if isinstance(here, Sample) else None, above if isinstance(above, Sample) else None)


def names(page: Page) -> dict[int, str]:
    """What the processes of the records of this page are called."""
    entries = (_entry(line.text) for line in page.lines if line.text.startswith(NAMED))
    return {entry.pid: sanitize(entry.name, SHOWN) for entry in entries if isinstance(entry, Named) and entry.name}


def _start_of(page: Page, end: int) -> int:
    return next((at for at in range(end, -1, -1) if page.lines[at].text.startswith(START)), 0)


def _goes_on(page: Page, start: int) -> bool:
    """Whether the end of the record follows, or another record."""
    return any(line.text.startswith((START, END)) for line in page.lines[start + 1 :])


def _flight(page: Page, first: int, last: int) -> Flight:
    flight = Flight()
    for line in page.lines[first : last + 1]:
        entry = _entry(line.text)
        if isinstance(entry, Start):
            flight.start = entry
        elif isinstance(entry, Sample):
            flight.samples.append(entry)
        elif isinstance(entry, Named):
            flight.names[entry.pid] = entry.name
        elif isinstance(entry, End):
            flight.end = entry
    return flight


def _entry(text: str) -> Entry | None:
    """None for other lines, and for what only looks like one."""
    if not text.startswith('{"flight":"'):
        return None
    try:
        return _decoder().decode(text)
    except msgspec.MsgspecError:
        return None


@cache
def _decoder() -> msgspec.json.Decoder[Entry]:
    return msgspec.json.Decoder(Entry)


def _told(page: Page, line: Line, flight: Flight) -> Iterator[Read]:
    """What a record tells. One without an end is of a recorder that ended without a word, as it does when the kernel or
    a scheduler kills all of a group."""
    facts = _facts(_place(page, line, flight), flight)
    yield facts
    yield from _machine(facts, flight)
    yield from _cards(facts.at, flight)
    kill = _kill(facts, flight)
    if kill is not None:
        yield kill
    elif flight.end is not None:
        yield from _other_end(facts, flight)
    elif flight.is_short():
        yield Kill(at=facts.at, process=facts.process, reporter=REPORTER, signal=SIGKILL)


def _facts(at: Place, flight: Flight) -> FlightRecord:
    sample, end, start = flight.sample, flight.end, flight.start
    hit = flight.limit_that_was_hit()
    return FlightRecord(
        at=at,
        time=end.time if end is not None else start.time if start is not None else None,
        process=_job(flight),
        status=end.status if end is not None else None,
        signal=end.signal if end is not None else None,
        seconds=end.s if end is not None else sample.s,
        used_bytes=flight.held,
        peak_bytes=hit.peak if hit is not None else None,
        total_bytes=flight.total,
        available_bytes=sample.available,
        shm_used_bytes=sample.shm_used,
        shm_total_bytes=start.memory.shm_total if start is not None else None,
        limit_bytes=sample.limit,
        address_space_bytes=end.address_space if end is not None else None,
        kills=flight.kills,
        machine_kills=flight.machine_kills,
        sent=end.sent if end is not None else (),
        unfinished=end is None,
        memory_was_left=flight.kills == 0 and not flight.is_short(),
        pids=_pids(flight),
    )


def _pids(flight: Flight) -> tuple[int, ...]:
    samples = flight.samples
    if not samples or any((sample.count or 0) > len(sample.processes) for sample in samples):
        return ()
    return tuple(sorted(flight.names))


def _place(page: Page, line: Line, flight: Flight) -> Place:
    """The line with the figures that prove it instead of all."""
    before, after = flight.levels[0] if flight.levels else (None, None)
    hit = flight.limit_that_was_hit() or after
    told = {
        "signal": flight.end.signal if flight.end is not None else None,
        "status": flight.end.status if flight.end is not None else None,
        "oom_kill": f"{before.kills} -> {after.kills}" if before is not None and after is not None else None,
        "limit": hit.limit if hit is not None else flight.sample.limit,
        "peak": hit.peak if hit is not None else flight.sample.used,
        "MemAvailable": flight.sample.available,
        "MemTotal": flight.total,
    }
    words = ", ".join(f"{name}: {value}" for name, value in told.items() if value is not None)
    return Place(page.file, line.number, line.end, words)


def _job(flight: Flight) -> Process:
    if flight.start is None:
        return Process()
    pid = flight.start.pid
    return Process(pid=pid, name=flight.name(pid), node=sanitize(flight.start.host, SHOWN) or None)


def _machine(facts: FlightRecord, flight: Flight) -> Iterator[Read]:
    """The last sample, as other tools print it."""
    sample, start = flight.sample, flight.start
    if start is None or sample.available is None or not flight.total:
        return
    processes = tuple(
        MachineProcess(pid=one.pid, bytes=one.resident, command=flight.name(one.pid) or "") for one in sample.processes
    )
    yield MachineMemory(
        at=facts.at,
        time=facts.time,
        tool=REPORTER,
        total_bytes=flight.total,
        available_bytes=sample.available,
        processes=processes,
    )
    # A file in /dev/shm outlives who wrote it, and may be written between two samples.
    used = max(sample.shm_used or 0, (flight.end.memory.shm_used or 0) if flight.end is not None else 0)
    if start.memory.shm_total and sample.shm_used is not None:
        yield ShmUsage(at=facts.at, total_bytes=start.memory.shm_total, used_bytes=used)


def _cards(at: Place, flight: Flight) -> Iterator[Read]:
    """The last look at the GPUs, as nvidia-smi prints it."""
    cards = flight.sample.cards
    if cards:
        yield GpuTable(
            at=at,
            cards=tuple(Card(gpu=card.index, used_bytes=card.used, total_bytes=card.total) for card in cards),
            processes=tuple(
                CardProcess(gpu=card.index, pid=pid, name=flight.name(pid) or "", used_bytes=used)
                for card in cards
                for pid, used in card.processes
            ),
        )


# --- Kills


def _kill(facts: FlightRecord, flight: Flight) -> RecordedKill | None:
    """The kernel's, where its counters prove one."""
    if not flight.kills and not _is_of_the_machine(flight):
        return None
    said = _in_kernel_log(flight)
    level = flight.limit_that_was_hit()
    figures = _said_by_kernel(said, flight) if said is not None else _seen_before(flight)
    of_machine = _filled_machine(flight, said, level)
    return RecordedKill(
        at=facts.at,
        time=_time_of_kill(flight),
        pool="host_ram" if of_machine else "cgroup",
        constraint=OF_THE_MACHINE if of_machine else OF_A_GROUP,
        listed_bytes=_in_use(flight) if of_machine else flight.sample.used,
        tasks=tuple(_tasks(flight)),
        growth=_growth(flight),
        kills=flight.kills or None,
        **({"total_bytes": flight.total} if of_machine else _of_group(flight, said, level)),
        **figures,
    )


def _of_group(flight: Flight, said: kernel_log.Kill | None, level: Level | None) -> dict[str, Any]:
    """The group whose limit was hit: by its own count, by the kernel's word, else the job's at its last sample."""
    sample = flight.sample
    path: str | None
    limit: int | None
    used: int | None
    if level is None and said is not None and said.group is not None:
        path, limit, used = said.group, said.limit, said.used
    elif level is not None:
        path, limit, used = level.path, level.limit, level.peak or sample.used
    elif sample.limit and (flight.held or 0) >= SHORT * sample.limit:
        path, limit, used = _own_group(flight), sample.limit, sample.used
    else:
        path, limit, used = None, None, None  # one further up, which this machine does not show
    return {
        "cgroup": sanitize(path, SHOWN) if path is not None else None,
        "limit_bytes": limit,
        "used_bytes": _at_most(used, limit),
        "group_shmem_bytes": sample.shmem,
    }


def _own_group(flight: Flight) -> str | None:
    return flight.start.levels[0].path if flight.start is not None and flight.start.levels else None


def _time_of_kill(flight: Flight) -> str | None:
    """When a sample first counted it, else the end."""
    if flight.start is None:
        return None
    second = next((sample.s for sample in flight.samples if sample.kills), None)
    with suppress(ValueError, OverflowError):
        began = datetime.strptime(flight.start.time, TIME).replace(tzinfo=timezone.utc)
        if second is not None:
            return (began + timedelta(seconds=second)).strftime(TIME)
    return flight.end.time if flight.end is not None else None


def _is_of_the_machine(flight: Flight) -> bool:
    """Whether the kernel killed on this machine and the job ended by SIGKILL; its own cgroups count nothing."""
    return flight.kills is None and bool(flight.machine_kills) and flight.ended_by == NUMBER_OF_KILL


def _filled_machine(flight: Flight, said: kernel_log.Kill | None, level: Level | None) -> bool:
    """By the kernel's word, else by the counters; where no visible limit was hit and the machine had memory left, it
    was a limit further up."""
    if said is not None and said.constraint is not None:
        return said.constraint != OF_A_GROUP
    return level is None and flight.machine_is_short()


def _in_kernel_log(flight: Flight) -> kernel_log.Kill | None:
    """The kernel's own record of a process of the job; in a container its numbers are others than the job's."""
    kills = flight.end.kernel if flight.end is not None else ()
    own = {after.path for _, after in flight.levels[:1]} - {"/"}
    ours = [
        kill
        for kill in kills
        if kill.pid in flight.names or any((kill.task_group or "").endswith(path) for path in own)
    ]
    return max(ours, key=lambda kill: kill.own + (kill.shared or 0), default=None)


def _said_by_kernel(said: kernel_log.Kill, flight: Flight) -> dict[str, Any]:
    return {
        "by_kernel_log": True,
        "process": Process(pid=said.pid, name=flight.name(said.pid) or sanitize(said.name, SHOWN)),
        "anon_rss_bytes": said.own,
        "file_rss_bytes": said.files,
        "shmem_rss_bytes": said.shared,
    }


def _seen_before(flight: Flight) -> dict[str, Any]:
    """The largest process that was there at the last sample, and not after the kill."""
    gone = flight.end.gone if flight.end is not None else ()
    largest: Gone | None = max(gone, key=lambda one: one.resident, default=None)
    if largest is None:
        return {"process": _job(flight) if flight.ended_by == NUMBER_OF_KILL else Process()}
    name = sanitize(largest.name, SHOWN) or None
    return {
        "process": Process(pid=largest.pid, name=name),
        "anon_rss_bytes": largest.own,
    }


def _tasks(flight: Flight) -> Iterator[Task]:
    for one in flight.sample.processes:
        pages = one.resident // PAGE
        yield Task(pid=one.pid, name=flight.name(one.pid) or "", rss_pages=pages, rss_bytes=one.resident, swap_bytes=0)


def _growth(flight: Flight) -> tuple[Growth, ...]:
    first: dict[int, tuple[float, int]] = {}
    found: dict[int, Growth] = {}
    for sample in flight.samples:
        for one in sample.processes:
            began, size = first.setdefault(one.pid, (sample.s, one.resident))
            known = found.get(one.pid)
            if one.resident > (known.most_bytes if known is not None else size):
                found[one.pid] = Growth(
                    pid=one.pid,
                    name=flight.name(one.pid) or "",
                    first_bytes=size,
                    most_bytes=one.resident,
                    seconds=sample.s - began,
                )
    largest = max(found.values(), key=lambda growth: growth.bytes, default=None)
    return (largest,) if largest is not None else ()


def _in_use(flight: Flight) -> int | None:
    total, available = flight.total, flight.sample.available
    return total - available if total and available is not None else None


def _at_most(size: int | None, limit: int | None) -> int | None:
    return size if size is None or limit is None else min(size, limit)


# --- Other ends


def _other_end(facts: FlightRecord, flight: Flight) -> Iterator[Read]:
    """The kernel killed nobody of the job."""
    number = flight.ended_by
    if number == NUMBER_OF_BUS_ERROR:
        yield Kill(at=facts.at, time=facts.time, process=facts.process, reporter=REPORTER, signal=SIGBUS, pool="shm")
    elif number == NUMBER_OF_KILL and _may_be_memory(facts):
        yield Kill(at=facts.at, time=facts.time, process=facts.process, reporter=REPORTER, signal=SIGKILL)
    elif (why := _why_not(facts, number)) is not None:
        yield Lookalike(facts.at, why)


def _may_be_memory(facts: FlightRecord) -> bool:
    """Another killer than the kernel's leaves no count: where memory was short, nobody can tell."""
    return not facts.sent and not facts.memory_was_left


def _why_not(facts: FlightRecord, number: int | None) -> str | None:
    if facts.status == 0:
        return None
    left = show(facts.left_bytes) if facts.left_bytes is not None else ""
    if number in STOPS:
        return say("the job was told to stop ({signal}); it did not run out of memory", signal=STOPS[number])
    if number == NUMBER_OF_KILL and facts.sent:
        return say("the job was killed after a request to stop ({signal})", signal=facts.sent[0])
    if number == NUMBER_OF_KILL:
        return say("a process sent SIGKILL: the kernel counted no OOM kill, and {left} were left", left=left)
    if number in CRASHES:
        return say("the job crashed ({signal}): the kernel counted no OOM kill", signal=CRASHES[number])
    return say(
        "the job ended with exit code {status}: the kernel counted no OOM kill, and its output shows no memory failure",
        status=facts.status,
    )


FAMILY = Family(
    name="flight_record",
    anchors=('{"flight":"',),
    triggers=(START, END),
    read=read,
)
