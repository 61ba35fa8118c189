"""Who held the node's memory, by what they run.

The process that was killed is the newest or the one that asked last, rarely the one that held the memory: the table of
memory users decides. Processes of one name count together, and what is in no row is the object store, shared memory or
somebody whom the table cannot see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from oomdoctor.families.container import MemoryLimit
from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.machine_memory import MachineMemory, MachineProcess
from oomdoctor.families.ray_kill import NodeOutOfMemory, Row
from oomdoctor.families.ray_schedule import ClusterStatus
from oomdoctor.families.ray_store import StoreUsage
from oomdoctor.families.recorded import RecordedKill
from oomdoctor.incident.model import Crash
from oomdoctor.job.moments import moment, seconds_since
from oomdoctor.job.roles import is_outside_ray, role_of, short_name
from oomdoctor.language import mark, say
from oomdoctor.patterns import late
from oomdoctor.units import GIB, MIB, percent, show

# A process holds the memory where it has this share of what was in use, or so much more than the next.
HOG: Final = 0.40
HOG_OF_FEW: Final = 0.25
TIMES_THE_NEXT: Final = 2.5
# Nearly as large as the largest: to name that one alone would be chance.
EQUAL: Final = 0.8
# Processes of one kind differ by less than these times.
FAR_SMALLER: Final = 4
# Processes of one name hold it together.
TOGETHER: Final = 0.40
# Nobody in the table holds it where less than this share stands in its rows.
EXPLAINED: Final = 0.50
# Ray kills at 95 % unless told otherwise: from here on down the node is not full when it does.
_BEFORE_2_2: Final = "System memory low at node with IP"  # src/ray/raylet/node_manager.cc of 2.0 and 2.1
LOW_LIMIT: Final = 0.9
# Of the machine's memory: where earlyoom kills with more available, it was told to. It acts at 10 % by itself (its man
# page, 1.0 to 1.8).
STILL_AVAILABLE: Final = 0.2
LITTLE_PRESSURE: Final = 0.3  # half of what systemd-oomd bears by itself: oomd.conf(5), DefaultMemoryPressureLimit=
# One request from which on a single process is the matter.
LARGE: Final = 1 * GIB
# Of what a process held: a part of shared memory that is worth a word.
SHARED: Final = 0.05

# A machine is as good as full from here on.
NEARLY_FULL: Final = 0.9
# What a tool printed longer before the failure, in time or in lines, tells nothing of it.
STALE_SECONDS: Final = 3600
STALE_LINES: Final = 2000
A_DAY: Final = 86_400

# Who is killed with less than this share of what was in use did not fill it.
BYSTANDER: Final = 0.05
HELD_ELSEWHERE: Final = mark("The killed process held little: the memory is elsewhere.")
SMALLEST: Final = 64 * MIB  # none of this size fills a machine
HELPER: Final = "ray"  # a role
IDLE: Final = "IDLE"
STORE: Final = "object_store"  # a role, of the store's process and of the workers that spill and restore
WORKER: Final = "Worker"

_ADDRESS = late(r"\d{1,3}(?:\.\d{1,3}){3}")


class Holder(Struct, frozen=True):
    """The processes of one name."""

    name: str
    sizes: tuple[int, ...]  # largest first
    pids: tuple[int | None, ...]
    role: str | None
    outside_ray: bool

    @property
    def bytes(self) -> int:
        return sum(self.sizes)

    @property
    def largest(self) -> int:
        return self.sizes[0]

    @property
    def is_a_helper(self) -> bool:
        """Whether the cluster started it for itself; an idle worker has run the job's code."""
        return self.role == HELPER and self.name != IDLE

    @property
    def is_a_worker(self) -> bool:
        """Whether Ray started it to run code: its workers that spill do, and neither its own services nor its store."""
        a_store = self.role == STORE and not self.name.endswith(WORKER)
        return not (self.outside_ray or self.is_a_helper or a_store)

    @property
    def who(self) -> str:
        """The largest process in words; a helper's script alone would pass for one of the job."""
        name = say("Ray's own {name}", name=self.name) if self.is_a_helper and "ray" not in self.name else self.name
        return f"{name} (PID {self.pids[0]})" if self.pids[0] is not None else name


class NodeMemory(Struct, frozen=True):
    """Who held the node's memory when somebody was killed for it."""

    event: Event
    holders: tuple[Holder, ...]  # largest sum first
    used_bytes: int | None
    total_bytes: int | None
    store_bytes: int | None  # of Ray's object store, inside what is used
    cut: bool  # the first rows are missing
    of_tools: bool = False  # top or ps printed it of a machine that was nearly full: only that shows it

    @property
    def listed_bytes(self) -> int:
        return sum(holder.bytes for holder in self.holders)

    @property
    def base_bytes(self) -> int:
        """What shares are shares of: what was in use, or at least what the rows add up to."""
        return max(self.used_bytes or 0, self.listed_bytes)

    @property
    def overlaps(self) -> bool:
        """Whether the sums of the rows tell nothing."""
        return is_more_than_all(self.listed_bytes, self.total_bytes, self.used_bytes)

    @property
    def whole(self) -> str:
        """The base in words, as a thing that parts are parts of."""
        if self.used_bytes is None or self.listed_bytes > self.used_bytes:
            return say("the {listed} listed in the table", listed=show(self.listed_bytes))
        if self.total_bytes:
            return say("the {used} in use (of {total})", used=show(self.used_bytes), total=show(self.total_bytes))
        return say("the {used} in use", used=show(self.used_bytes))

    @property
    def heaviest(self) -> Holder | None:
        """The name of the one largest process."""
        return max(self.holders, key=lambda holder: holder.largest, default=None)

    @property
    def group(self) -> Holder | None:
        """Of names that several processes have, the one whose processes hold most together."""
        return max((each for each in self.holders if len(each.sizes) > 1), key=lambda one: one.bytes, default=None)

    def share(self, size_bytes: int) -> float:
        return size_bytes / self.base_bytes if self.base_bytes else 0.0

    def next_to(self, holder: Holder) -> int:
        """The largest process beside this one."""
        others = [h.largest for h in self.holders if h is not holder]
        return max([*others, *holder.sizes[1:2]], default=0)

    @property
    def equals(self) -> tuple[Holder, ...]:
        """The largest process and those of other names that are nearly as large: none of them alone is to blame."""
        top = self.heaviest
        if top is None or not self.dominates(top):
            return ()
        near = [one for one in self.holders if one is not top and one.largest >= EQUAL * top.largest]
        return (top, *sorted(near, key=lambda one: -one.largest)) if near else ()

    def lists_all_of(self, group: Holder) -> bool:
        """The largest are listed: what is in no row is smaller than the last of them, and so none of the group."""
        return not self.cut and min(holder.sizes[-1] for holder in self.holders) * FAR_SMALLER <= group.sizes[-1]

    def dominates(self, holder: Holder) -> bool:
        """Whether the holder's largest process alone has the memory."""
        share = self.share(holder.largest)
        return share >= HOG or (share >= HOG_OF_FEW and holder.largest >= TIMES_THE_NEXT * self.next_to(holder))


def is_more_than_all(listed_bytes: int, total_bytes: int | None, used_bytes: int | None) -> bool:
    """Whether rows add up to more than there is: shared memory, such as Ray's object store, counts in each process that
    has touched it."""
    there = total_bytes or used_bytes
    return there is not None and listed_bytes > there


def node_memory(crash: Crash) -> NodeMemory | None:
    """The fullest table of memory users in the crash, None where no table is printed."""
    tables = [event for event in crash.every(NodeOutOfMemory) if event.rows]
    if tables:
        best = max(tables, key=lambda event: (not event.cut, sum(row.bytes or 0 for row in event.rows)))
        return NodeMemory(
            best, _of_rows(best.rows), best.used_bytes, best.total_bytes, store_bytes(crash, best), bool(best.cut)
        )
    dumps = [event for event in crash.every(KernelKill) if event.tasks and not _is_one_row(event)]
    if dumps:
        dump = max(dumps, key=lambda event: (_lists_the_largest(event, crash), len(event.tasks)))
        named = [(task.name, task.pid, task.rss_bytes) for task in dump.tasks]
        # of the cgroup; the kernel does not print the machine's
        used = dump.listed_bytes if isinstance(dump, RecordedKill) else dump.used_bytes
        return NodeMemory(dump, _holders(named), used, dump.limit_bytes or dump.total_bytes, None, cut=False)
    return _of_tools(crash)


def _lists_the_largest(dump: KernelKill, crash: Crash) -> bool:
    """Whether the process is in this table of which the report tells; one of a later kill may be without it."""
    most = largest_kill(crash)
    return most is not None and any(task.pid == most.process.pid for task in dump.tasks)


def _is_one_row(dump: KernelKill) -> bool:
    """Whether a single row is left of the kernel's table: without a figure for the whole that is all of itself."""
    return len(dump.tasks) == 1 and not (dump.used_bytes or dump.limit_bytes or dump.total_bytes)


def machine_before(crash: Crash) -> list[MachineMemory]:
    """What tools printed of the machine's memory not long before the failure; the last stands last."""
    return [event for event in crash.every(MachineMemory) if _is_shortly_before(event, crash.root)]


def _is_shortly_before(event: MachineMemory, root: Event) -> bool:
    """Whether it is of the hour before the failure, and of its machine; in one log without times, not far above it."""
    if _of_another_machine(event.process.node, root):
        return False
    one_log = event.at.file == root.at.file
    if one_log and event.at.line >= root.at.line and not event.is_of_a_record:
        return False
    then, now = moment(event.time), moment(root.time)
    if then is not None and now is not None:
        return 0 <= seconds_since(then, now) <= STALE_SECONDS
    return one_log and root.at.line - event.at.line <= STALE_LINES


def machine_after(crash: Crash) -> MachineMemory | None:
    """What a tool printed of the machine's memory after the failure: without the process that died."""
    prints = (event for event in crash.every(MachineMemory) if event.available_bytes is not None)
    return next((event for event in prints if is_after(event, crash.root)), None)


class Remains(Struct, frozen=True):
    """A process that still holds much of the machine's memory when the one that died is gone."""

    process: MachineProcess
    listed: MachineMemory
    beside: MachineMemory  # what else a tool printed then, with the machine's memory
    total_bytes: int


def largest_after(crash: Crash) -> Remains | None:
    """The largest process that ps or top lists after the failure, where it has a good part of the machine."""
    lists = (event for event in crash.every(MachineMemory) if event.processes)
    listed = next((event for event in lists if is_after(event, crash.root)), None)
    beside = machine_after(crash)
    if listed is None or beside is None or not beside.total_bytes:
        return None
    largest = listed.processes[0]
    if largest.bytes < HOG * beside.total_bytes:
        return None
    return Remains(largest, listed, beside, beside.total_bytes)


def is_after(event: Event, root: Event) -> bool:
    """Whether it is of the day after the failure, where times tell; else whether it stands below it, or elsewhere."""
    if _of_another_machine(event.process.node, root):
        return False
    then, now = moment(root.time), moment(event.time)
    if then is not None and now is not None:
        return 0 <= seconds_since(then, now) <= A_DAY
    return event.at.file != root.at.file or event.at.line > root.at.line


def is_of_another_day(event: Event, root: Event) -> bool:
    """Whether both print their times and lie a day or more apart."""
    one, other = moment(event.time), moment(root.time)
    return one is not None and other is not None and abs(seconds_since(one, other)) > A_DAY


def _of_another_machine(node: str | None, root: Event) -> bool:
    """Whether the failure's line names a machine, and another one; a line with a time and no such name does."""
    if node is None or not (root.process.node or root.time):
        return False
    return node != root.process.node and node not in root.at.text


def _of_tools(crash: Crash) -> NodeMemory | None:
    """The processes that top or ps listed last, where the machine was nearly full then."""
    prints = machine_before(crash)
    listed = next((event for event in reversed(prints) if event.processes), None)
    told = next((event for event in reversed(prints) if event.share is not None), None)
    if listed is None or told is None or (told.share or 0) < NEARLY_FULL:
        return None
    named = [(row.command, row.pid, row.bytes) for row in listed.processes]
    return NodeMemory(listed, _holders(named), told.in_use_bytes, told.total_bytes, None, cut=False, of_tools=True)


def _of_rows(rows: Sequence[Row]) -> tuple[Holder, ...]:
    return _holders([(row.command, row.pid, row.bytes) for row in rows if row.bytes is not None])


def _holders(processes: Sequence[tuple[str, int | None, int | None]]) -> tuple[Holder, ...]:
    groups: dict[str, list[tuple[int, int | None, str]]] = {}
    for title, pid, size_bytes in processes:
        groups.setdefault(short_name(title), []).append((size_bytes or 0, pid, title))
    found = []
    for name, members in groups.items():
        members.sort(key=lambda member: -member[0])
        title = members[0][2]
        found.append(
            Holder(
                name=name,
                sizes=tuple(size for size, _, _ in members),
                pids=tuple(pid for _, pid, _ in members),
                role=role_of(title),
                outside_ray=is_outside_ray(title),
            )
        )
    return tuple(sorted(found, key=lambda holder: -holder.bytes))


def store_bytes(crash: Crash, kill: NodeOutOfMemory | None) -> int | None:
    """What Ray's object store held: the kill says it since 2.55, before that the cluster's tables and statistics do."""
    if kill is not None and kill.object_store_bytes is not None:
        return kill.object_store_bytes
    if kill is not None and kill.shared_bytes is not None:
        return kill.shared_bytes
    tables = [int((status.used or {}).get("object_store_memory", 0)) for status in crash.every(ClusterStatus)]
    statistics = [usage.in_use_bytes or usage.used_bytes or 0 for usage in crash.every(StoreUsage)]
    return max([*tables, *statistics], default=0) or None


def ray_kill(crash: Crash) -> NodeOutOfMemory | None:
    """The kill that says most of itself: of the first one often only the headline is there."""
    return max(crash.every(NodeOutOfMemory), key=_said, default=None)


def _said(kill: NodeOutOfMemory) -> tuple[bool, bool, bool]:
    return bool(kill.used_bytes), bool(kill.total_bytes), bool(kill.victims)


def used_bytes(crash: Crash) -> int | None:
    """What was in use on the node at the kill, where it is printed."""
    return next((event.used_bytes for event in crash.every(NodeOutOfMemory) if event.used_bytes), None)


def total_bytes(crash: Crash) -> int | None:
    """The memory of the node (or of Ray's limit), where it is printed."""
    printed = next((event.total_bytes for event in crash.every(NodeOutOfMemory) if event.total_bytes), None)
    if printed is not None:
        return printed
    kernel = next((event.total_bytes for event in crash.every(KernelKill) if event.total_bytes), None)
    hardware = crash.context.hardware.get("ram_bytes")
    return kernel or (int(hardware) if isinstance(hardware, (int, float)) else None)


def victim(crash: Crash) -> str:
    """Whom the killer took, in words; empty where nobody was named."""
    for event in crash.every(NodeOutOfMemory):
        for one in event.victims:
            if one.pid is not None:
                size = f", {show(one.bytes)}" if one.bytes is not None else ""
                name = one.name or say("a worker")
                return f"{name} (PID {one.pid}{size})"
    return ""


def killed_another(crash: Crash, holder: Holder) -> str:
    """A sentence, where the killed process is not one of the holder's."""
    pids = {one.pid for event in crash.every(NodeOutOfMemory) for one in event.victims if one.pid is not None}
    if not pids or pids & set(holder.pids):
        return ""
    return say("Ray killed {victim}, which did not fill the node.", victim=victim(crash))


def is_a_bystander(held: int | None, full: int | None) -> bool:
    """Whether who was killed held next to nothing of what was in use; where that is not printed, of any machine."""
    if held is None:
        return False
    return held < (BYSTANDER * full if full else SMALLEST)


def low_limit(usage: Mapping[str, Any], threshold: Mapping[str, Any]) -> tuple[float, int] | None:
    """Ray's limit as a share of the node's memory and in bytes, where it lies far below what Ray takes by itself."""
    total, share, limit = usage.get("total_bytes"), threshold.get("fraction"), threshold.get("bytes")
    if not total or not (share or limit):
        return None
    share = share or limit / total
    return (share, limit or round(share * total)) if share < LOW_LIMIT else None


def of_low_limit(crash: Crash) -> str:
    """A sentence, where Ray or a guard killed although much of the node's memory was free."""
    for kill in crash.events:
        if kill.family == "ray_kill" and (low := low_limit(kill.figures("usage"), kill.figures("threshold"))):
            share, limit = low
            usual = "90%" if _BEFORE_2_2 in kill.at.text else "95%"
            figures = {"share": f"{share:.1%}", "limit": show(limit), "usual": usual}
            if kill.figures("threshold").get("fraction"):
                return say(
                    "Ray's limit is {share} of the memory ({limit}), not the usual {usual}: somebody has set it.",
                    **figures,
                )
            return say(
                "Ray's limit is {share} of the memory ({limit}), not the usual {usual}: RAY_memory_usage_threshold "
                "or a container sets it.",
                **figures,
            )
    early = early_kill(crash)
    if early is None:
        return ""
    if early.pressure_fraction is not None:
        return say("systemd-oomd bears 60% by default: somebody has set its limit.")
    return say(
        "earlyoom was told to kill when {limit} of the memory is available (10% by default): {available} of {total} "
        "were.",
        limit=percent(early.limit_fraction or 0),
        available=show(early.available_bytes or 0),
        total=show(early.total_bytes or 0),
    )


def pressure_kill(crash: Crash) -> UserspaceKill | None:
    """The kill of a guard because tasks waited for memory, which may be short in their group alone."""
    return next((kill for kill in crash.every(UserspaceKill) if kill.pressure_fraction is not None), None)


def early_kill(crash: Crash) -> UserspaceKill | None:
    """The kill of a guard that was told to kill while much of the memory is available, or at little pressure."""
    return next((kill for kill in crash.every(UserspaceKill) if _is_early(kill)), None)


def _is_early(kill: UserspaceKill) -> bool:
    if kill.pressure_fraction is not None:
        return 0 < (kill.limit_fraction or 0) <= LITTLE_PRESSURE
    free, total = kill.available_bytes, kill.total_bytes
    if kill.killer != "earlyoom" or not free or not total or not kill.limit_fraction:
        return False
    return STILL_AVAILABLE * total <= free <= kill.limit_fraction * total


# One process per GPU: their number is the job's shape, not a number of workers to turn down.
_RANK = late(
    r"WorkerDict|_\d{1,4}:\d{1,4}\b|Actor(?:RolloutRef)?Worker|Model(?:Ray)?Actor|RayActorBase|PolicyWorker|TrainRayActor"
)


def is_rank(name: str) -> bool:
    return _RANK.search(name) is not None and "eward" not in name


def held_by(kill: KernelKill) -> int | None:
    """What a process that the kernel killed held: memory of its own and shared memory; else its row in the table."""
    if kill.anon_rss_bytes is None and kill.shmem_rss_bytes is None:
        return next((task.rss_bytes for task in kill.tasks or () if task.pid == kill.process.pid), None)
    return (kill.anon_rss_bytes or 0) + (kill.shmem_rss_bytes or 0)


def swapped_bytes(kill: KernelKill, pid: int | None) -> int:
    """What the kernel's table shows of a process in swap, which no row of resident memory holds."""
    return next((task.swap_bytes for task in kill.tasks or () if task.pid == pid), 0)


def resident(kill: KernelKill) -> int | None:
    """The same with its pages of files: all that the kernel counts as its resident memory."""
    held = held_by(kill)
    return held + (kill.file_rss_bytes or 0) if held is not None else None


def held_in_words(kill: KernelKill) -> str:
    """The same as a figure, with its part that is shared memory where that is a good part."""
    held, shared = held_by(kill) or 0, shared_part(kill)
    if not shared:
        return show(held)
    return say("{held} ({shared} of it shared memory)", held=show(held), shared=show(shared))


def shared_part(kill: KernelKill) -> int:
    """What it held of shared memory, where that is a good part of all: 0 where it is not."""
    shared = kill.shmem_rss_bytes or 0
    return shared if shared >= SHARED * (held_by(kill) or 0) else 0


def largest_kill(crash: Crash) -> KernelKill | None:
    """Of the processes that the kernel killed the one that held most: the first is often a bystander."""
    kills = [kill for kill in crash.every(KernelKill) if held_by(kill) is not None]
    return max(kills, key=lambda kill: held_by(kill) or 0, default=None)


def most_resident(crash: Crash) -> int:
    """What none of the processes that the kernel killed exceeded."""
    return max((resident(kill) or 0 for kill in crash.every(KernelKill)), default=0)


def stated_limit(crash: Crash) -> MemoryLimit | None:
    """The limit of the container or the job, where the log prints one."""
    return next((event for event in crash.every(MemoryLimit) if event.limit_bytes), None)


def address_of(crash: Crash) -> str | None:
    """The address of the node where Ray killed, or else lost, a worker."""
    for family in ("ray_kill", "ray_death"):
        for event in crash.events:
            if event.family == family and _ADDRESS.fullmatch(event.process.node or ""):
                return event.process.node
    return None


def asked_for(crash: Crash) -> str:
    """The refused request in brackets, to stand behind any sentence, where it is printed."""
    tried = crash.root.figures("usage").get("tried_bytes")
    return say(" ({tried} requested)", tried=show(tried)) if isinstance(tried, int) else ""
