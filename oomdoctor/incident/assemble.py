"""From the events of a log to crashes: repeats merged, each crash's root found, the rest told what they are to it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from oomdoctor.families.event import PROOF, SIDES, Event, Lookalike, Process, Read, Role
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import RankFailure
from oomdoctor.families.pip_show import InstalledPackage
from oomdoctor.families.surroundings import Neighbourhood
from oomdoctor.families.unfamiliar import in_other_words
from oomdoctor.incident.era import day_of, releases_of
from oomdoctor.incident.joins import explains, kills_one_of, long_apart, program_of, seconds_apart
from oomdoctor.incident.ledger import ledgers
from oomdoctor.incident.model import Crash
from oomdoctor.incident.timeline import earliest
from oomdoctor.job.doing import doing_of
from oomdoctor.job.job import job_of
from oomdoctor.job.model import Context, Trajectory
from oomdoctor.job.origins import writer_of
from oomdoctor.job.roles import role_of
from oomdoctor.streams import Page

ContextOf = Callable[[str], Context]  # what is known of the job that this file belongs to

# Two failures of one side further apart than this, at different stages, are two crashes.
LINES_OF_ONE_CRASH: Final = 400

# Prints of a figure that show that it does not grow
ENOUGH_POINTS: Final = 8

# A log that repeats one kind of figure for days is kept at its beginning and its end.
MOST_OF_A_KIND: Final = 400


# Failures of the process that prints them; the others are told of another's.
OF_THE_WRITER: Final = frozenset(
    {"cuda", "cuda_error", "gpu_library", "host_alloc", "data_loader", "jax_tf", "memory_snapshot"}
)


# Families of what somebody looks up afterwards
OF_RECORDS: Final = frozenset({"kernel", "container", "cgroup", "proc_vmstat", "systemd_unit", "flight_record"})


class Gathered(Struct):
    """Events as the street hands them over, repeats counted instead of kept."""

    events: dict[str, Event] = field(default_factory=dict)
    lookalikes: dict[str, Lookalike] = field(default_factory=dict)
    kinds: dict[tuple[str, str], list[str]] = field(default_factory=dict)  # the identities of each kind
    fresh: dict[str, int] = field(default_factory=dict)  # those of the page at hand, and the indexes of their lines

    def add(self, read: Read, index: int | None = None) -> None:
        """Take what was read, at the line with this index of the page at hand where nobody has looked around yet."""
        if isinstance(read, Lookalike):
            self.lookalikes.setdefault(read.why, read)
            return
        identity = read.identity()
        known = self.events.get(identity)
        if known is not None:
            self.events[identity] = merged = _merged(known, read)
            if index is not None and merged.at is read.at:
                self.fresh[identity] = index
            return
        alike = self.kinds.setdefault((read.family, read.kind), [])
        if len(alike) == MOST_OF_A_KIND:
            del self.events[alike.pop(MOST_OF_A_KIND // 2)]
        alike.append(identity)
        self.events[identity] = read
        if index is not None:
            self.fresh[identity] = index

    def copy(self) -> Gathered:
        """What may be told of now, while the log goes on."""
        kinds = {kind: list(identities) for kind, identities in self.kinds.items()}
        return Gathered(dict(self.events), dict(self.lookalikes), kinds, dict(self.fresh))

    def without_failures(self) -> Gathered:
        """What a next failure of the same log may need: the job's figures, and nothing of the failure before it."""
        rest = Gathered()
        for event in self.events.values():
            if event.role == "context":
                rest.add(event)
        return rest

    def join(self, later: Gathered) -> None:
        """Take what was gathered of other logs."""
        for event in later.events.values():
            self.add(event)
        self.lookalikes = later.lookalikes | self.lookalikes

    def look_around(self, page: Page) -> None:
        """Look up what stands around the events of this page that are kept so far."""
        neighbourhood = Neighbourhood(page)
        for identity, index in self.fresh.items():
            if event := self.events.get(identity):
                self.events[identity] = neighbourhood.of(event, index)
        self.fresh.clear()


def _said(event: Event) -> tuple[int, int]:
    """How much a print says: first whether it shows a failure at all, which Ray's event files say of every worker."""
    return event.strength, sum(len(str(event.figures(part))) for part in ("usage", "threshold", "fields"))


def _merged(first: Event, again: Event) -> Event:
    """The print that says more stands for both, at its own place and with the time of the first."""
    if _said(again) > _said(first):
        told = again.complement(first)
        return replace(told, repeats=first.repeats + again.repeats, time=first.time or again.time)
    return replace(first.complement(again), repeats=first.repeats + again.repeats)


def crashes(
    gathered: Gathered,
    context: Context,
    trajectories: Sequence[Trajectory] = (),
    context_of: ContextOf | None = None,
) -> tuple[Crash, ...]:
    """The crashes of the log: those that show a memory failure first, each group in the order of the log.

    `context_of` says what is known of the job that a file belongs to, where several are read.
    """
    context_of = cache(context_of or (lambda _: context))
    _set_apart(gathered)
    events = [_placed(event) for event in _familiar(gathered.events.values())]
    lookalikes = tuple(gathered.lookalikes.values())
    groups = _groups(events, context_of)
    built = [_crash(group, events, groups, context_of, trajectories, lookalikes) for group in groups]
    others = _of_others(built, events)
    return tuple(sorted(built, key=lambda crash: (*_severity(crash), id(crash) in others)))


def _set_apart(gathered: Gathered) -> None:
    """Take out what records say of other failures, and what they explain."""
    if not OF_RECORDS & {event.family for event in gathered.events.values()}:
        return
    from oomdoctor.incident.flight import with_memory_left  # noqa: PLC0415  (few logs come with a record)
    from oomdoctor.incident.records import set_apart  # noqa: PLC0415

    told = tuple(gathered.events.values())
    for foreign, why in (*set_apart(told), *with_memory_left(told)):
        gathered.events.pop(foreign.identity(), None)
        if why is not None:
            gathered.add(why)


def _familiar(events: Collection[Event]) -> Iterable[Event]:
    """The events without those in unknown words, where a known message of the same file tells of a memory failure.

    What stands before the known message and tells of another one is another failure, or the reason for this one.
    """
    known = [event for event in events if event.proves and not in_other_words(event)]
    first: dict[str, Event] = {}
    for event in known:
        if event.at.file not in first or event.at.line < first[event.at.file].at.line:
            first[event.at.file] = event
    return (event for event in events if event.at.file not in first or event.is_another(first[event.at.file]))


def _placed(event: Event) -> Event:
    """The event with the stage and the role that its surroundings and its process's name tell."""
    stage = event.stage if event.stage != "unknown" else doing_of(event).stage
    process = _writer(event) if event.family in OF_THE_WRITER else event.process
    if process.name and process.role is None:
        process = replace(process, role=role_of(process.name))
    if stage == event.stage and process is event.process:
        return event
    return replace(event, stage=stage, process=process)


def _writer(event: Event) -> Process:
    """The process of the event; what its lines do not tell, the name of its file may."""
    told, named = event.process, writer_of(event.at.file)
    pid, rank = told.pid or named.pid, told.rank if told.rank is not None else named.rank
    return told if (pid, rank) == (told.pid, told.rank) else replace(told, pid=pid, rank=rank)


def _groups(events: Sequence[Event], context_of: ContextOf) -> list[list[Event]]:
    """The failures of the log, those of one crash together."""
    failures = [event for event in events if event.role == "root" and event.strength >= 1]
    proven = [event for event in failures if event.strength >= PROOF]
    groups: list[list[Event]] = []
    for event in proven:
        home = next((g for g in groups if _is_home(g, event, context_of)), None)
        if home is None:
            groups.append([event])
        else:
            home.append(event)
    hints = [event for event in failures if event.strength < PROOF]
    for event in hints:
        homes = [g for g in groups if _may_be_home(g, event) and _all_of_one_job(g, event, context_of)]
        if homes:
            _nearest(homes, event).append(event)
        else:
            groups.append([event])
    return groups


def _is_home(group: Sequence[Event], event: Event, context_of: ContextOf) -> bool:
    """Whether the failure is of this crash."""
    if not _one_crash(group[-1], event, context_of) or not _all_of_one_job(group, event, context_of):
        return False
    return _kills_allow(group, event)


def _kills_allow(group: Sequence[Event], event: Event) -> bool:
    """Whether no kill of the machine's tells that they are two incidents."""
    if not OF_RECORDS & {event.family, *(each.family for each in group)}:
        return True
    from oomdoctor.incident.records import may_be_of_one_crash  # noqa: PLC0415  (few logs come with a record)

    return may_be_of_one_crash(group, event)


def _may_be_home(group: Sequence[Event], death: Event) -> bool:
    """Whether the death may be of this crash: not of a request that waits, nor of other processes at another time."""
    if (group[0].pool == "scheduling") != (death.pool == "scheduling") or not _kills_allow(group, death):
        return False
    return not all(explains(event, death) is False and long_apart(event, death) for event in group)


def _one_crash(one: Event, other: Event, context_of: ContextOf) -> bool:
    if SIDES[one.pool] != SIDES[other.pool] or not _of_one_job(one.at.file, other.at.file, context_of):
        return False
    if one.at.file != other.at.file or "unknown" in (one.stage, other.stage) or one.stage == other.stage:
        return True
    return abs(one.at.line - other.at.line) <= LINES_OF_ONE_CRASH


def _of_one_job(one: str, other: str, context_of: ContextOf) -> bool:
    files = context_of(one).files
    return one == other or not files or other in files


def _all_of_one_job(group: Iterable[Event], event: Event, context_of: ContextOf) -> bool:
    """Whether the event may be of the same job as each of these, of which some may say nothing of theirs."""
    return all(_of_one_job(file, event.at.file, context_of) for file in {each.at.file for each in group})


def _nearest(groups: list[list[Event]], event: Event) -> list[Event]:
    """The crash a bare kill belongs to: whose kill names its process, else one of the host's memory if there is one,
    of the program that its log shows, else the nearest by time, else by line."""
    named = [g for g in groups if any(explains(each, event) for each in g)]
    same_side = named or [g for g in groups if SIDES[g[0].pool] == "host"] or groups
    program = program_of(event) if len(same_side) > 1 else None
    return min(same_side, key=lambda g: _distance(g, event, program))


def _distance(group: Sequence[Event], event: Event, program: str | None) -> tuple[bool, bool, float, int]:
    other = all(explains(each, event) is False for each in group)
    another_program = not any(kills_one_of(each, (program,)) for each in group)
    first = group[0]
    if first.at.file == event.at.file:
        return other, another_program, 0, abs(first.at.line - event.at.line)
    return other, another_program, min(seconds_apart(each, event) for each in group), 0


def _root(group: Sequence[Event], events: Sequence[Event]) -> Event:
    """The strongest evidence; among equals that of the rank which its launcher saw fail first, else the earliest."""
    strength = max(event.strength for event in group)
    strongest = [event for event in group if event.strength == strength]
    ranks = {event.process.rank for event in events if isinstance(event, RankFailure) and event.reporter == "torchrun"}
    first = next(iter(ranks)) if len(ranks) == 1 else None  # one table for each node says several
    named = next((event for event in strongest if first is not None and event.process.rank == first), None)
    return named or earliest(strongest, events)


def _crash(
    group: list[Event],
    events: Sequence[Event],
    groups: list[list[Event]],
    context_of: ContextOf,
    trajectories: Sequence[Trajectory],
    lookalikes: tuple[Lookalike, ...],
) -> Crash:
    root = _root(group, events)
    mine = {id(event) for event in group}
    others = {id(event) for g in groups for event in g} - mine
    told = tuple(
        replace(event, role=_role(event, root)) if id(event) in mine else event
        for event in events
        if id(event) not in others and (id(event) in mine or _of_one_job(root.at.file, event.at.file, context_of))
    )
    stage = next((e.stage for e in (root, *group) if e.stage != "unknown"), "unknown")
    root = next(event for event in told if event.role == "root" and event.identity() == root.identity())
    side = SIDES[root.pool]
    context = _with_packages(context_of(root.at.file), told)
    context = replace(context, day=day_of(root, told), releases=releases_of(told))
    figures = [t for t in trajectories if _of_one_job(root.at.file, t.file, context_of)]
    return Crash(
        events=told,
        root=root,
        pool=root.pool,
        stage=stage,
        context=context,
        job=job_of(root, told, context, stage),
        ledgers=tuple(ledger for ledger in ledgers(told) if SIDES.get(ledger.pool) == side),
        trajectory=_telling([t for t in figures if _of_pool(t.pool, root.pool)]),
        lookalikes=lookalikes,
    )


def _with_packages(context: Context, told: Sequence[Event]) -> Context:
    """The releases that `pip show` prints, where the log itself prints none."""
    installed = {event.name: event.version for event in told if isinstance(event, InstalledPackage)}
    if not installed:
        return context
    printed = {name: version for name, version in context.frameworks.items() if version is not None}
    return replace(context, frameworks={**context.frameworks, **installed, **printed})


def _of_pool(figure: str, pool: str) -> bool:
    """Whether a figure of that pool can tell of this one. The object store is filled on purpose: only of itself."""
    return figure == pool or (figure != "object_store" and SIDES.get(figure) == SIDES[pool])


def _telling(figures: Sequence[Trajectory]) -> Trajectory | None:
    """The figure that grows most, else the one that is printed most often and shows that nothing does."""
    grown = next((figure for figure in figures if figure.growth_bytes), None)
    if grown is not None:
        return grown
    others = [figure for figure in figures if len(figure.points) >= ENOUGH_POINTS and figure.shows_a_whole]
    return max(others, key=lambda figure: len(figure.points), default=None)


def _role(event: Event, root: Event) -> Role:
    if event is root:
        return "root"
    if event.strength >= PROOF and SIDES[event.pool] == SIDES[root.pool]:
        return "confirmation"
    return "cascade"


def _of_others(built: Sequence[Crash], events: Iterable[Event]) -> set[int]:
    """The kills by the kernel of other programs than the job's, where one is of the job's: such a log is of the whole
    machine."""
    kills = [crash for crash in built if isinstance(crash.root, KernelKill)]
    programs = {program_of(event) for event in events} if len(kills) > 1 else set()
    own = [crash for crash in kills if kills_one_of(crash.root, programs)]
    return {id(crash) for crash in kills if crash not in own} if own else set()


def _severity(crash: Crash) -> tuple[bool, bool]:
    """Proven memory failures before bare kills, and both before requests that wait: such lines are also printed by
    jobs that go on and fail of something else. Sorting is stable, so equals keep the order of the log."""
    return crash.pool == "scheduling", crash.root.strength < PROOF
