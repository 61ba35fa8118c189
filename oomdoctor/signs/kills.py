"""Who was killed, and by whom: the kernel, a guard of the machine, nobody that the log names."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from msgspec import Struct

from oomdoctor.families.budget import BudgetUsage
from oomdoctor.families.container import LimitKill, NodePressure
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.event import RAM, Event
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGBUS, SIGKILL, Kill, RankFailure
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory, UsageAboveThreshold
from oomdoctor.families.unfamiliar import Shortage
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import (
    HOG,
    LARGE,
    NEARLY_FULL,
    SMALLEST,
    held_by,
    held_in_words,
    largest_after,
    largest_kill,
    machine_after,
    machine_before,
    most_resident,
    shared_part,
    stated_limit,
    total_bytes,
)
from oomdoctor.job.model import Setting
from oomdoctor.job.roles import short_name
from oomdoctor.language import joined, listed, mark, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.above_a_kill import command_above
from oomdoctor.signs.commands import (
    CONTAINERS,
    DUMP,
    OF_THE_MACHINE,
    OUTSIDE_PROCESSES,
    of_unit,
    pid_of_a_container,
    raylet_log,
    settling,
)
from oomdoctor.signs.limits import OF_NUMA_NODES
from oomdoctor.signs.node import table
from oomdoctor.signs.ray_kills import found_full
from oomdoctor.signs.records import no_kernel_kill, remarks
from oomdoctor.signs.series import went_on_before
from oomdoctor.text import sanitize
from oomdoctor.units import percent, show, show_limit

FEW: Final = 0.15  # of what was in use: seven of the largest size, at least, fill it
# Worker processes that one setting starts.
MANY: Final = 16
_THOUSAND: Final = 1000  # a score of the kernel's is so many times a share
POOL: Final = 4  # where the pool itself says that it lost one
HALF_FULL: Final = 0.5  # a machine of which less was in use did not run out of memory as a whole
_FOR_MEMORY: Final = (UsageAboveThreshold, KernelKill, UserspaceKill, NodePressure, LimitKill, KillCount, WorkerDeath)

_WORKER_SETTINGS: Final = (
    "num_proc",
    "preprocessing_num_workers",
    "dataset_num_proc",
    "dataloader_num_workers",
    "num_workers",
    "dataset_processes",
    "filter_overlong_prompts_workers",
    "n_parallel_tasks",
)

_POOL_SETTINGS: Final = ("n_jobs", "jobs", "processes", "max_workers", "n_workers", "workers", "nproc")
_SHELL: Final = "shell"  # a reporter
_POOLS: Final = ("joblib", "pool", "loky")
_COMMANDS: Final = "subprocess"  # a program starts others by their commands, and tells which of them was killed
_COMMAND_SETTINGS: Final = ("cores", "num_jobs", "max_jobs", "parallel", "max_parallel", "concurrency")

# torch/utils/data/dataloader.py
_LOADER: Final = late(
    r"This DataLoader will create (\d{1,4}) worker processes in total\. Our suggested max number of worker in current "
    r"system is (\d{1,4})\b"
)

COMMAND_SHOWN: Final = 60
# What stands behind "Killed" in a shell's line
_COMMAND: Final = late(r"\b\d{1,9} [Kk]illed:?\s{1,40}(\S.{0,200})")
_OTHER_COMMAND: Final = late(r"[|;&<>]")
_VARIABLE: Final = late(r"[A-Za-z_]\w{0,60}=")
_WRAPPERS: Final = ("exec", "env", "nohup", "nice", "sudo", "time", "command")
_SCRIPTS: Final = (".py", ".sh", ".R", ".jl", ".js")
_SCRIPT_VARIABLE: Final = late(r"\$\{?\w{0,60}SCRIPT\w{0,60}\}?\Z")
_NAME: Final = late(r"[\w.+-]{1,60}")
_STOPPED_BY_RAY: Final = r"\(\d\) ray stop --force is called"
_CRASHED: Final = r"\(\d\) The worker (?:is|has) crashed unexpectedly due to SIGSEGV"
_MAY_BE_MEMORY: Final = frozenset({"host_ram", "cgroup", "none", "shm"})


@sign
def killed_for_the_nodes_memory(crash: Crash) -> Seen | None:
    """The killer says that the node ran out of memory."""
    firsts = (crash.first(kind) for kind in _FOR_MEMORY)
    event = next((one for one in firsts if one is not None and one.strength >= 2 and one.pool == "host_ram"), None)
    if event is None:
        return None
    if isinstance(event, UserspaceKill) and (limits := of_unit(crash)) is not None:
        return Seen(words=_in_a_unit(event), evidence=(event,), next_evidence=(limits, DUMP))
    if isinstance(event, KernelKill) and tells_no_place(event):
        words = say(
            "The kernel's OOM killer was invoked. Its report is cut: what is left names neither whom it killed nor "
            "whether the machine's memory or a control group's ran out."
        )
        return Seen(words=words, evidence=(event,), next_evidence=(DUMP,))
    commands = raylet_log(crash) if event.family.startswith("ray_") else OF_THE_MACHINE
    return Seen(words=joined((found_full(crash), went_on_before(crash))), evidence=(event,), next_evidence=commands)


def tells_no_place(kill: KernelKill) -> bool:
    """Whether there is but the head of a report, which the kernel begins alike at the limit of a group."""
    whose = (kill.process.pid, kill.constraint, kill.cgroup, kill.task_cgroup, kill.total_bytes, kill.limit_bytes)
    return kill.invoker is not None and not kill.tasks and not any(whose)


def _in_a_unit(kill: UserspaceKill) -> str:
    """Of which systemd says no more than that the kernel's killer ended a process."""
    unit = kill.unit or ""
    if kill.peak_bytes is None:
        return say(
            "The kernel's OOM killer ended a process of {unit}: at its own limit, or the node was full.", unit=unit
        )
    return say(
        "The kernel's OOM killer ended a process of {unit}, which had used up to {peak}: at its own limit, or the node "
        "was full.",
        unit=unit,
        peak=show(kill.peak_bytes),
    )


@sign
def nearly_full_before_the_kill(crash: Crash) -> Seen | None:
    """The last print of the node's memory shows 90% in use, and an unexplained kill follows."""
    last = _last_print(crash)
    if not isinstance(crash.root, Kill) or crash.root.pool not in RAM or last is None:
        return None
    used, share = _in_use(last)
    if share < NEARLY_FULL:
        return None
    words = (
        say(
            "Before the kill, {host_used} was in use on the node ({host_used_fraction} of its memory). The log "
            "does not say who held it.",
            host_used=show(used),
            host_used_fraction=percent(share),
        )
        if used is not None
        else say("Before the kill, {share} of the node's memory was in use.", share=percent(share))
    )
    return Seen(
        words=words,
        evidence=(last, crash.root),
        against=(say("the log does not explain the kill itself"),),
        shows_memory=True,
        next_evidence=OF_THE_MACHINE,
    )


def part_in_use(crash: Crash) -> float | None:
    """Of the node's memory, when a tool or the job printed it for the last time before the failure."""
    last = _last_print(crash)
    return None if last is None else _in_use(last)[1]


def _last_print(crash: Crash) -> MemoryReport | MachineMemory | None:
    reports = [report for report in crash.every(MemoryReport) if report.host_used_fraction is not None]
    prints = [each for each in machine_before(crash) if each.share is not None]
    root = crash.root.at
    before = (each for each in reports if each.at.file != root.file or each.at.line < root.line)
    both: list[MemoryReport | MachineMemory] = [*before, *prints]
    return max(both, key=lambda each: each.at.line, default=None)


def _in_use(last: MemoryReport | MachineMemory) -> tuple[int | None, float]:
    """So much, and so great a part of the node's memory."""
    if isinstance(last, MemoryReport):
        return last.host_used_bytes, last.host_used_fraction or 0
    return last.in_use_bytes, last.share or 0


@sign
def budget_was_nearly_spent_before_the_kill(crash: Crash) -> Seen | None:
    """A worker's last report shows 90% of its budget in use, and an unexplained kill follows."""
    last = next(reversed([usage for usage in crash.every(BudgetUsage) if usage.limit_bytes]), None)
    if last is None or not isinstance(crash.root, Kill) or crash.root.pool != "host_ram":
        return None
    used, limit = last.used_bytes or 0, last.limit_bytes or 0
    if used < NEARLY_FULL * limit:
        return None
    words = say(
        "The worker's last report before the kill shows {used} of its {limit} in use.",
        used=show(used),
        limit=show(limit),
    )
    against = (say("the log does not explain the kill itself"),)
    return Seen(words=words, evidence=(last, crash.root), against=against, shows_memory=True)


@sign
def a_group_was_full(crash: Crash) -> Seen | None:
    """A cgroup reached its limit: the machine may have free memory."""
    return Seen(words="") if crash.pool == "cgroup" else None


@sign
def one_of_many_workers_was_killed(crash: Crash) -> Seen | None:
    """A setting starts 16 or more workers, and a process was killed; no table shows how much each of them held."""
    setting = crash.setting(*_WORKER_SETTINGS)
    kills = (*crash.every(Kill), *crash.every(KillCount), *crash.every(NodeOutOfMemory))
    if setting is None or not isinstance(setting.value, int | float) or setting.value < MANY or not kills:
        return None
    if table(crash) is not None:
        return None
    words = (
        _of_the_starter(setting)
        if started_them(crash)
        else say("{name} starts {count:g} processes; one of them was killed.", name=setting.name, count=setting.value)
    )
    return Seen(
        words=words, evidence=kills[:1], against=(say("the log does not say how much memory each process held"),)
    )


@sign
def one_of_a_pool_was_killed(crash: Crash) -> Seen | None:
    """A pool of four worker processes or more, or of commands side by side, whose number a setting states, lost one of
    them to SIGKILL."""
    root, killed = crash.root, any(kill.signal == SIGKILL for kill in crash.every(Kill))
    of_commands = isinstance(root, Kill) and root.reporter == _COMMANDS
    setting = crash.setting(*_WORKER_SETTINGS, *_POOL_SETTINGS, *(_COMMAND_SETTINGS if of_commands else ()))
    if setting is None or (setting.whole or 0) < POOL:
        return None
    of_a_loader = isinstance(root, LoaderDeath) and (killed or root.signal is not None)
    of_a_pool = isinstance(root, Kill) and (
        of_commands or root.reporter in _POOLS or (killed and _beyond_the_cores(crash))
    )
    if not (of_a_loader or of_a_pool) or table(crash) is not None:
        return None
    words = (
        _of_the_starter(setting)
        if started_them(crash)
        else say(
            "{name} starts {count:g} processes, and one of them was killed.", name=setting.name, count=setting.value
        )
    )
    return Seen(words=words, evidence=(root,), against=(say("how much each of them held is not in the log"),))


def _of_the_starter(setting: Setting) -> str:
    return say(
        "{name} starts {count:g} processes; the one that starts them was killed.",
        name=setting.name, count=setting.value,
    )  # fmt: skip


def started_them(crash: Crash) -> bool:
    """Whether a shell tells of the kill: of the program that it started itself, and of no process below that."""
    return isinstance(crash.root, Kill) and crash.root.reporter == _SHELL


def _beyond_the_cores(crash: Crash) -> bool:
    """PyTorch warns of a loader with more workers than there are cores."""
    line = crash.mentions(_LOADER.pattern)
    match = _LOADER.search(line) if line is not None else None
    return match is not None and int(match[1]) >= 2 * int(match[2])


@sign
def largest_process_held_little(crash: Crash) -> Seen | None:
    """earlyoom, or the kernel without a bias, kills the process with the most memory; it held at most 15%."""
    one = _victim(crash)
    if one is None or one.whole_bytes is None or not SMALLEST <= one.bytes <= FEW * one.whole_bytes:
        return None
    by_size = (
        one.kill.oom_score_adj == "0" or one.score is not None
        if isinstance(one.kill, KernelKill)
        else one.kill.killer == "earlyoom"
    )
    if not by_size:
        return None
    words = say(
        "{clause}. No process held more: many processes, or memory of no process (tmpfs), fill the rest.",
        clause=one.share,
    )
    return Seen(words=words, evidence=(one.kill,), against=(say("the log does not name the other processes"),))


@sign
def killed_process_held_most(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held 40% of the memory in use (or of the machine or its limit
    where the use is unknown); no table says more."""
    one = _victim(crash)
    if one is None or one.whole_bytes is None or one.bytes < HOG * one.whole_bytes:
        return None
    words = say("{clause}.", clause=one.share)
    return Seen(words=joined((words, _among_ranks(ranks_beside_the_killed(crash)))), evidence=(one.kill,))


@sign
def killed_process_held_little(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held less than 40% of the memory in use, or of the machine; no
    table says more."""
    one = _victim(crash)
    if one is None or one.whole_bytes is None or one.bytes >= HOG * one.whole_bytes:
        return None
    return Seen(words=one.share)


@sign
def killed_process_was_large(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held 1 GiB or more; the total is unknown."""
    one = _victim(crash)
    if one is None or one.whole_bytes is not None or one.bytes < LARGE:
        return None
    words = say("{held}. The log does not print the machine's memory size.", held=one.words)
    return Seen(words=joined((words, _among_ranks(ranks_beside_the_killed(crash)))), evidence=(one.kill,))


class Ranks(Struct, frozen=True):
    """The processes that a launcher started for the same work; one of them was killed."""

    count: int
    own_bytes: int
    shared_bytes: int

    @property
    def all_bytes(self) -> int:
        """If they are alike and share what is shared."""
        return self.count * self.own_bytes + self.shared_bytes

    @property
    def unshared_bytes(self) -> int:
        """If they are alike, and each has shared memory of its own: page-locked buffers may be such."""
        return self.count * (self.own_bytes + self.shared_bytes)


def ranks_beside_the_killed(crash: Crash) -> Ranks | None:
    """The killed process may be one of several that a launcher started for the same work."""
    one = _victim(crash)
    ends: tuple[Kill | RankFailure, ...] = (*crash.every(Kill), *crash.every(RankFailure))
    pids = {pid for end in ends for pid in end.subprocesses}
    if one is None or len(pids) < 2 or one.kill.process.pid not in pids:
        return None
    shared = shared_part(one.kill) if isinstance(one.kill, KernelKill) else 0
    return Ranks(len(pids), one.bytes - shared, shared)


@sign
def one_of_several_ranks_was_killed(crash: Crash) -> Seen | None:
    """The killed process is one of those that a launcher started for the same work."""
    ranks = ranks_beside_the_killed(crash)
    return Seen(words=_among_ranks(ranks)) if ranks is not None else None


def _among_ranks(ranks: Ranks | None) -> str:
    if ranks is None:
        return ""
    if ranks.shared_bytes:
        return say(
            "DeepSpeed started {count} such processes; if alike, {count} x {own} + {shared} shared = {all}.",
            count=ranks.count,
            own=show(ranks.own_bytes),
            shared=show(ranks.shared_bytes),
            all=show(ranks.all_bytes),
        )
    return say(
        "DeepSpeed started {count} such processes; if each held as much, {count} x {each} = {all}.",
        count=ranks.count,
        each=show(ranks.own_bytes),
        all=show(ranks.all_bytes),
    )


@sign
def only_small_processes_were_killed(crash: Crash) -> Seen | None:
    """The kernel killed for the whole machine, and every process that it killed held less than 64 MiB: the memory is
    in none that it may kill."""
    kill = largest_kill(crash)
    if kill is None or most_resident(crash) >= SMALLEST or crash.pool != "host_ram" or table(crash) is not None:
        return None
    kills = crash.every(KernelKill)
    if any(held_by(each) is None or int(each.oom_score_adj or 0) > 0 for each in kills):
        return None
    words = joined(
        (
            say("The kernel killed {who} with {held}.", who=_who(kill), held=held_in_words(kill))
            if len(kills) == 1
            else say("The kernel killed {count} processes; none held more than {held}.",
                     count=len(kills), held=show_limit(most_resident(crash))),
            say(
                "It prefers large processes, so those that it may kill probably do not hold the memory: look for files "
                "in tmpfs or /dev/shm, huge pages, kernel slab, or a protected process."
            ),
        )
    )  # fmt: skip
    table_of_ram = next((one for one in crash.every(MachineMemory) if _outside(one)), None)
    if table_of_ram is None:
        return Seen(words=words, evidence=tuple(kills[:3]), next_evidence=(OUTSIDE_PROCESSES, *OF_THE_MACHINE))
    shown = say("/proc/meminfo shows {parts}.", parts=listed(_outside(table_of_ram)))
    return Seen(words=joined((words, shown)), evidence=(*kills[:3], table_of_ram), next_evidence=OF_THE_MACHINE)


def _outside(printed: MachineMemory) -> list[str]:
    """The RAM of no process that /proc/meminfo shows, where it is much."""
    parts = (
        (printed.shared_bytes, mark("{size} of shared memory and tmpfs")),
        (printed.huge_pages_bytes, mark("{size} of huge pages")),
        (printed.unreclaimable_bytes, mark("{size} of kernel slab")),
    )
    return [translated(words).format(size=show(size)) for size, words in parts if size and size >= LARGE]


class Victim(Struct, frozen=True):
    """Whom the kernel or a guard of the machine killed."""

    kill: KernelKill | UserspaceKill
    words: str  # a clause: who held how much
    bytes: int
    whole_bytes: int | None  # what was in use, else what there is
    score: int | None = None  # that says so, where nobody prints it

    @property
    def share(self) -> str:
        """A clause: which part of the whole it held; empty where the whole is unknown."""
        if not self.whole_bytes:
            return ""
        share, total = percent(self.bytes / self.whole_bytes), show(self.whole_bytes)
        if self.score is None:
            return say("{held}: {share} of {total}", held=self.words, share=share, total=total)
        return say(
            "{held}: {share} of about {total} (RAM and swap, or its group's limit), from its score of {score}",
            held=self.words,
            share=share,
            total=total,
            score=self.score,
        )


def _victim(crash: Crash) -> Victim | None:
    """The largest of those who were killed: the first is often a bystander."""
    if table(crash) is not None:
        return None
    kill = largest_kill(crash)
    if kill is not None:
        own, printed = held_by(kill) or 0, kill.limit_bytes or total_bytes(crash)
        score = kill.score if printed is None and 0 < (kill.score or 0) < _THOUSAND else None
        return Victim(kill, _by_the_kernel(kill), own, printed or (_THOUSAND * own // score if score else None), score)
    early = max(crash.every(UserspaceKill), key=lambda event: event.rss_bytes or 0, default=None)
    if early is None or early.rss_bytes is None or early.rss_bytes < (LARGE if early.total_bytes is None else SMALLEST):
        return None
    words = say(
        "{who} held {rss} when {killer} stopped it", who=_who(early), rss=show(early.rss_bytes), killer=early.killer
    )
    return Victim(early, words, early.rss_bytes, _in_use_at(early))


def _in_use_at(early: UserspaceKill) -> int | None:
    """What was in use; earlyoom kills while much is free, where it is told to."""
    total, free = early.total_bytes, early.available_bytes
    return total - free if total is not None and free is not None and free < total else total


def _by_the_kernel(kill: KernelKill) -> str:
    if kill.constraint in OF_NUMA_NODES:
        return say(
            "{who} held {own} when the kernel killed it because its NUMA nodes were full",
            who=_who(kill),
            own=held_in_words(kill),
        )
    return say("{who} held {own} when the kernel killed it", who=_who(kill), own=held_in_words(kill))


def _who(kill: KernelKill | UserspaceKill) -> str:
    name = kill.process.name or say("A process")
    return f"{name} (PID {kill.process.pid})"


@sign
def a_process_holds_it_afterwards(crash: Crash) -> Seen | None:
    """A process was killed for no printed reason, and afterwards ps lists another one with 40% of the machine."""
    remains = largest_after(crash)
    if remains is None or crash.proven or crash.root.pool not in _MAY_BE_MEMORY:
        return None
    words = say(
        "After the crash, {process} (PID {pid}) holds {held} of the machine's {total}.",
        process=short_name(remains.process.command),
        pid=remains.process.pid,
        held=show(remains.process.bytes),
        total=show(remains.total_bytes),
    )
    doubt = say("the table was printed after the crash; it does not show why the process died")
    return Seen(words=words, evidence=(remains.listed, remains.beside, crash.root), against=(doubt,))


@sign
def killed_for_no_printed_reason(crash: Crash) -> Seen | None:
    """A process died as an OOM-killed process does, and nothing shows that memory ran out."""
    root = crash.root
    if crash.proven or root.strength < 1 or root.pool not in _MAY_BE_MEMORY or isinstance(root, Shortage):
        return None
    limit = stated_limit(crash)
    near = say("Its memory limit is {limit}.", limit=show(limit.limit_bytes or 0)) if limit is not None else ""
    usual = say("Memory is the usual reason, but nothing in the log proves it.")
    pid = pid_of_a_container(crash)
    inside = say("PID {pid} is a number inside a container: the kernel's log is its node's.", pid=pid) if pid else ""
    denied = no_kernel_kill(crash)
    evidence = (root, *(denied.evidence if denied is not None else ()))
    return Seen(
        words=joined((_died(root), denied.words if denied is not None else usual, near, inside, _afterwards(crash))),
        evidence=evidence if limit is None or limit in evidence else (*evidence, limit),
        against=(*remarks(crash), _other_reasons(crash)),
        pool="cgroup" if limit is not None else None,
        next_evidence=settling(crash),
    )


def _afterwards(crash: Crash) -> str:
    """What is available when the process is gone, which neither shows nor denies that it was short before."""
    after = machine_after(crash)
    if after is None or not after.total_bytes:
        return ""
    return say(
        "After the crash, {tool} shows {available} of {total} available. This does not include what the process held.",
        tool=after.tool,
        available=show(after.available_bytes or 0),
        total=show(after.total_bytes),
    )


def _other_reasons(crash: Crash) -> str:
    """What else ends a process like this; where the log itself lists it, in its words."""
    stopped, crashed = crash.mentions(_STOPPED_BY_RAY) is not None, crash.mentions(_CRASHED) is not None
    if not isinstance(crash.root, WorkerDeath) or not (stopped or crashed):
        return say("a crash, a time limit, a scheduler or an operator can end a process like this, too")
    if stopped and crashed:
        return say("Ray's message also lists `ray stop --force` and a crash (SIGSEGV) as reasons")
    return (
        say("Ray's message also lists `ray stop --force` as a reason")
        if stopped
        else say("Ray's message also lists a crash (SIGSEGV) as a reason")
    )


@sign
def in_a_container(crash: Crash) -> Seen | None:
    """The log prints a memory limit, or lines near the failure mention containers."""
    return Seen(words="") if stated_limit(crash) is not None or crash.mentions(CONTAINERS) is not None else None


def _died(root: Event) -> str:
    if isinstance(root, Kill) and root.signal == SIGBUS:
        return say("A process died of a bus error (SIGBUS).")
    if isinstance(root, Kill) and root.signal is None and root.reporter != "silence":
        return say("A process disappeared from its pool.")
    if isinstance(root, Kill) and root.signal is not None:
        return say("{who} was killed (SIGKILL).", who=as_reported(root))
    if isinstance(root, LoaderDeath):
        return say("A DataLoader worker was killed.") if root.signal else say("A DataLoader worker disappeared.")
    return say("A process died without a message.")


def as_reported(kill: Kill) -> str:
    """The process by all that its launcher or its shell says of it."""
    who = program_of(kill) or say("A process")
    rank = f"rank {kill.process.rank}" if kill.process.rank is not None else ""
    pid = f"PID {kill.process.pid}" if kill.process.pid is not None else ""
    numbers = ", ".join(part for part in (rank, pid) if part)
    return f"{who} ({numbers})" if numbers else who


def program_of(kill: Kill) -> str | None:
    """The program that a shell's line says was killed, with its script or module: "python3 main.py". A script that is a
    variable is called by its name."""
    command = _COMMAND.search(kill.at.text) if kill.reporter == "shell" else None
    words = (
        _OTHER_COMMAND.split(command[1].strip(), maxsplit=1)[0].split() if command is not None else command_above(kill)
    )
    while words and (_VARIABLE.match(words[0]) or words[0] in _WRAPPERS):
        words = words[1:]
    name = words[0].rsplit("/", 1)[-1] if words else ""
    if not _NAME.fullmatch(name):
        return None
    script = next(
        (word.rsplit("/", 1)[-1] for word in words[1:] if word.endswith(_SCRIPTS) or _SCRIPT_VARIABLE.match(word)), ""
    )
    modules = (one for option, one in pairwise(words[1:]) if option == "-m" and _NAME.fullmatch(one))
    module = next((f"-m {one}" for one in modules), "")
    return sanitize(f"{name} {module or script}".strip(), COMMAND_SHOWN)
