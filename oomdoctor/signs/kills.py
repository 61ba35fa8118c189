"""Who was killed for the node's memory, and by whom: Ray, the kernel, a guard of the machine."""

from __future__ import annotations

from typing import Final

from oomdoctor.causes.host import LARGE, node_memory, raylet_log, total_bytes, used_bytes, victim
from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.data_loader import WorkerDeath as LoaderDeath
from oomdoctor.families.event import Event
from oomdoctor.families.kernel import KernelKill, UserspaceKill
from oomdoctor.families.kill import SIGBUS, Kill
from oomdoctor.families.memory_report import MemoryReport
from oomdoctor.families.ray_death import WorkerDeath
from oomdoctor.families.ray_kill import KillCount, NodeOutOfMemory, UsageAboveThreshold
from oomdoctor.incident.model import Crash
from oomdoctor.language import joined, say
from oomdoctor.patterns import late
from oomdoctor.records import dataclass
from oomdoctor.signs import Seen, sign
from oomdoctor.text import sanitize
from oomdoctor.units import percent, show

# The killed worker's own share from which it says something about who held the memory.
TELLING: Final = 0.15
# The kernel takes the process with the most memory (unless told otherwise): with this share of it all it is the one.
MOST: Final = 0.4
# A share of the memory in one worker of a group (known by its rank) that its sisters multiply to most of it.
OF_A_RANK: Final = 0.1
# Worker processes that one setting starts.
MANY: Final = 16
# Of the node, in the last report before a kill that nothing explains.
NEARLY_FULL: Final = 0.9
# Where Ray has no table to ask for: the kernel's dump, and who holds memory now.
WHO_HOLDS_IT_NOW: Final = "ps aux --sort=-rss | head -20"
OF_THE_MACHINE: Final = ("dmesg -T | grep -B 400 -i 'killed process'", WHO_HOLDS_IT_NOW)
_FOR_MEMORY: Final = (UsageAboveThreshold, KernelKill, UserspaceKill, NodePressure, LimitKill, KillCount, WorkerDeath)

_RANKED: Final = late(r"_\d{1,4}:\d{1,4}\b|\brank=?\d|WorkerDict|\bWorker_?\d")
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

DMESG: Final = "dmesg -T | grep -i -E 'killed process|oom'"
JOURNAL: Final = "journalctl -k --since '1 hour ago' | grep -i -E 'killed process|oom'"
SIGKILL_SEEN_OUTSIDE: Final = 137
COMMAND_SHOWN: Final = 80
# What stands behind "Killed" in a shell's line
_COMMAND: Final = late(r"\b\d{1,9} [Kk]illed:?\s{1,40}(\S.{0,200})")
_JOB: Final = late(r"(?:SLURM_JOB_?ID[=: ]{1,3}|[Ss]lurm job (?:id )?|JOB |STEP |JobId=|StepId=)(\d{1,12})\b")
_SLURM: Final = r"srun: |slurmstepd|SLURM_|\bsbatch\b"
_POD: Final = r"kubectl|kubelet|\"containerStatuses\"|\"lastState\"|Last State:|\bpod\b"
_CONTAINERS: Final = r"\bdocker\b|\bpodman\b|exited with code 137|entrypoint|" + _POD
_MAY_BE_MEMORY: Final = frozenset({"host_ram", "cgroup", "none", "shm"})


@sign
def ray_killed_without_a_table(crash: Crash) -> Seen | None:
    """Ray killed for the node's memory, and the table of who held it is not in the log."""
    kill = crash.first(NodeOutOfMemory)
    if kill is None or node_memory(crash) is not None:
        return None
    whom = victim(crash)
    named = say("It killed {whom}; who held the memory only its table says.", whom=whom) if whom else ""
    return Seen(words=joined((_found_full(crash), named)), evidence=(kill,), next_evidence=raylet_log(crash))


@sign
def ray_killed_a_good_share(crash: Crash) -> Seen | None:
    """One whom Ray killed held 15 % of what was in use; no table says who held the rest."""
    kill, used = crash.first(NodeOutOfMemory), used_bytes(crash)
    if kill is None or not used or node_memory(crash) is not None:
        return None
    share = max((one.bytes or 0 for one in kill.victims), default=0) / used
    if share < TELLING:
        return None
    return Seen(words=say("the killed worker itself held {share} of what was in use", share=percent(share)))


@sign
def killed_for_the_nodes_memory(crash: Crash) -> Seen | None:
    """Whoever killed says that it was for the node's memory."""
    firsts = (crash.first(kind) for kind in _FOR_MEMORY)
    event = next((one for one in firsts if one is not None and one.strength >= 2 and one.pool == "host_ram"), None)
    if event is None:
        return None
    commands = raylet_log(crash) if event.family.startswith("ray_") else OF_THE_MACHINE
    return Seen(words=_found_full(crash), evidence=(event,), next_evidence=commands)


def _found_full(crash: Crash) -> str:
    """What the killer says of the node's memory."""
    kill = crash.first(NodeOutOfMemory)
    if kill is not None and kill.used_bytes and kill.total_bytes:
        return say(
            "Ray found {used} of {total} in use and killed for it.",
            used=show(kill.used_bytes),
            total=show(kill.total_bytes),
        )
    count = crash.first(KillCount)
    if count is not None and count.killed:
        return say(
            "Ray killed {count} worker(s) because the node ran low on memory; the table is in raylet.out.",
            count=count.killed,
        )
    reading = crash.first(UsageAboveThreshold)
    if reading is not None and reading.used_bytes and reading.total_bytes:
        return say(
            "Ray's monitor found {used} of {total} in use.",
            used=show(reading.used_bytes),
            total=show(reading.total_bytes),
        )
    return say("Something was killed because the node's memory ran out; the log does not say who held it.")


@sign
def nearly_full_before_the_kill(crash: Crash) -> Seen | None:
    """DeepSpeed's last report finds 90 % of the node in use, and a kill follows that nothing explains."""
    reports = [report for report in crash.every(MemoryReport) if report.host_used_fraction is not None]
    if not isinstance(crash.root, Kill) or crash.root.pool != "host_ram" or not reports:
        return None
    last = reports[-1]
    if (last.host_used_fraction or 0) < NEARLY_FULL:
        return None
    words = say(
        "The job's last report before the kill shows {host_used} in use on the node, "
        "{host_used_fraction} of its memory; who held it, it does not say.",
        host_used=show(last.host_used_bytes or 0),
        host_used_fraction=percent(last.host_used_fraction),
    )
    return Seen(
        words=words,
        evidence=(last, crash.root),
        against=(say("the kill itself is not explained"),),
        shows_memory=True,
        next_evidence=OF_THE_MACHINE,
    )


@sign
def ray_killed_for_memory(crash: Crash) -> Seen | None:
    """Ray killed because the node was short of memory."""
    return Seen(words="") if crash.first(NodeOutOfMemory) is not None else None


@sign
def ray_killed_who_held_most(crash: Crash) -> Seen | None:
    """One whom Ray killed held 40 % of what was in use."""
    kill, used = crash.first(NodeOutOfMemory), used_bytes(crash)
    if kill is None or not used:
        return None
    one = next((one for one in kill.victims if one.bytes is not None and one.bytes >= MOST * used), None)
    if one is None:
        return None
    words = say(
        "{name} (PID {pid}) itself held {size} of the {used} in use.",
        name=one.name or say("The killed worker"),
        pid=one.pid,
        size=show(one.bytes or 0),
        used=show(used),
    )
    return Seen(words=words, evidence=(kill,))


@sign
def rays_table_is_missing(crash: Crash) -> Seen | None:
    """Ray killed for the node's memory, and the log holds no table of memory users."""
    if crash.first(NodeOutOfMemory) is None or node_memory(crash) is not None:
        return None
    words = say("Ray's table of memory users, which names who held the memory")
    return Seen(words=words, next_evidence=raylet_log(crash))


@dataclass(frozen=True, slots=True)
class Killed:
    """Whom the kernel or a guard of the machine killed."""

    kill: KernelKill | UserspaceKill
    words: str  # a clause: who held how much
    bytes: int
    total_bytes: int | None


@sign
def killed_process_held_most(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held 40 % of the machine or of its limit; no table says more."""
    one = _killed(crash)
    if one is None or one.total_bytes is None or one.bytes < MOST * one.total_bytes:
        return None
    share, total = percent(one.bytes / one.total_bytes), show(one.total_bytes)
    words = say("{held}: {share} of {total}.", held=one.words, share=share, total=total)
    return Seen(words=words, evidence=(one.kill,))


@sign
def killed_process_held_little(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held less than 40 % of the machine; no table says more."""
    one = _killed(crash)
    if one is None or one.total_bytes is None or one.bytes >= MOST * one.total_bytes:
        return None
    share, total = percent(one.bytes / one.total_bytes), show(one.total_bytes)
    return Seen(words=say("{held}: {share} of {total}", held=one.words, share=share, total=total))


@sign
def killed_process_was_large(crash: Crash) -> Seen | None:
    """The process that the kernel or a guard killed held 1 GiB, of nobody knows how much."""
    one = _killed(crash)
    if one is None or one.total_bytes is not None or one.bytes < LARGE:
        return None
    words = say("{held}; how much the machine has is not in the log.", held=one.words)
    return Seen(words=words, evidence=(one.kill,))


def _killed(crash: Crash) -> Killed | None:
    if node_memory(crash) is not None:
        return None
    kill = crash.first(KernelKill)
    if kill is not None and kill.anon_rss_bytes is not None:
        own = kill.anon_rss_bytes + (kill.shmem_rss_bytes or 0)
        return Killed(kill, _by_the_kernel(kill, own), own, kill.limit_bytes or total_bytes(crash))
    early = next((event for event in crash.every(UserspaceKill) if (event.rss_bytes or 0) >= LARGE), None)
    if early is None or early.rss_bytes is None:
        return None
    rss, killer = show(early.rss_bytes), early.killer
    words = say("{who} held {rss} when {killer} ended it", who=_who(early), rss=rss, killer=killer)
    return Killed(early, words, early.rss_bytes, early.total_bytes)


def _by_the_kernel(kill: KernelKill, own: int) -> str:
    if kill.constraint in ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY"):
        return say(
            "{who} held {own} when the kernel killed it because the NUMA nodes it may use were full",
            who=_who(kill),
            own=show(own),
        )
    return say("{who} held {own} when the kernel killed it", who=_who(kill), own=show(own))


def _who(kill: KernelKill | UserspaceKill) -> str:
    name = kill.process.name or say("A process")
    return f"{name} (PID {kill.process.pid})"


@sign
def a_group_was_full(crash: Crash) -> Seen | None:
    """A control group reached its limit: the machine may have memory left."""
    return Seen(words="") if crash.pool == "cgroup" else None


@sign
def a_rank_was_killed(crash: Crash) -> Seen | None:
    """Ray killed a worker that has a rank, so that it has sisters, and that held a tenth of what was in use."""
    used = used_bytes(crash)
    if not used or node_memory(crash) is not None:
        return None
    ranks = [
        (event, one)
        for event in crash.every(NodeOutOfMemory)
        for one in event.victims
        if (one.bytes or 0) >= OF_A_RANK * used and _RANKED.search(one.name or "")
    ]
    if not ranks:
        return None
    event, one = ranks[0]
    held = one.bytes or 0
    words = say(
        "The killed worker, {name} (PID {pid}), is one rank of several and held {held} of the "
        "{used} in use: {count} like it fill the node.",
        name=one.name,
        pid=one.pid,
        held=show(held),
        used=show(used),
        count=int(used // held),
    )
    return Seen(words=words, evidence=(event,), against=(say("the table of memory users is not in the log"),))


@sign
def one_of_many_workers_was_killed(crash: Crash) -> Seen | None:
    """A setting starts 16 worker processes, and something was killed; no table says how much each of them held."""
    setting = crash.setting(*_WORKER_SETTINGS)
    killed = (*crash.every(Kill), *crash.every(KillCount), *crash.every(NodeOutOfMemory))
    if setting is None or not isinstance(setting.value, int | float) or setting.value < MANY or not killed:
        return None
    if node_memory(crash) is not None:
        return None
    words = say(
        "{name} starts {count:g} processes, and one of them was killed.", name=setting.name, count=setting.value
    )
    return Seen(words=words, evidence=killed[:1], against=(say("how much each of them held is not in the log"),))


@sign
def ray_killed_several(crash: Crash) -> Seen | None:
    """Ray counts two kills for memory within a minute, and speaks of none of them by itself."""
    count = crash.first(KillCount)
    if count is None or (count.killed or 0) < 2 or crash.first(NodeOutOfMemory) is not None:
        return None
    if node_memory(crash) is not None:
        return None
    words = say("Ray killed {killed} workers for memory within a minute: several run at a time.", killed=count.killed)
    return Seen(words=words, evidence=(count,), against=(say("who held the memory is not in the log"),))


@sign
def killed_for_no_printed_reason(crash: Crash) -> Seen | None:
    """Something died as what is killed for memory does, and nothing shows that memory ran out."""
    root = crash.root
    if crash.proven or root.strength < 1 or root.pool not in _MAY_BE_MEMORY:
        return None
    limit = _limit(crash)
    near = say("Its memory limit is {limit}.", limit=show(limit.limit_bytes or 0)) if limit is not None else ""
    usual = say("Memory is the usual reason for such an end, but nothing printed here proves it.")
    other = say("a scheduler, an operator, a time limit or another program can send the same signal")
    return Seen(
        words=joined((_died(root), usual, near)),
        evidence=(root,) if limit is None else (root, limit),
        against=(other,),
        pool="cgroup" if limit is not None else None,
        next_evidence=_what_would_settle_it(crash),
    )


@sign
def in_a_container(crash: Crash) -> Seen | None:
    """A memory limit is printed, or lines near the failure speak of containers."""
    return Seen(words="") if _limit(crash) is not None or crash.mentions(_CONTAINERS) is not None else None


def _limit(crash: Crash) -> MemoryLimit | None:
    return next((event for event in crash.every(MemoryLimit) if event.limit_bytes), None)


def _died(root: Event) -> str:
    if isinstance(root, Kill) and root.signal == SIGBUS:
        return say("A process died of a bus error.")
    if isinstance(root, Kill) and root.signal is None:
        return say("A process vanished from its pool.")
    if isinstance(root, Kill):
        return say("{who} was killed (SIGKILL).", who=_as_reported(root))
    if isinstance(root, LoaderDeath):
        return say("A data loader's worker was killed.") if root.signal else say("A data loader's worker vanished.")
    return say("A process died without a word of its own.")


def _as_reported(kill: Kill) -> str:
    """The process by all that its launcher or its shell says of it."""
    command = _COMMAND.search(kill.at.text) if kill.reporter == "shell" else None
    who = f"`{sanitize(command[1].strip(), COMMAND_SHOWN)}`" if command else say("A process")
    rank = f"rank {kill.process.rank}" if kill.process.rank is not None else ""
    pid = f"PID {kill.process.pid}" if kill.process.pid is not None else ""
    numbers = ", ".join(part for part in (rank, pid) if part)
    return f"{who} ({numbers})" if numbers else who


def _what_would_settle_it(crash: Crash) -> tuple[str, ...]:
    """Commands. An id from the log stands in one only as digits."""
    commands = [DMESG]
    job, in_a_pod = crash.mentions(_JOB.pattern), crash.mentions(_POD) is not None
    if job is not None or crash.mentions(_SLURM) is not None:
        match = _JOB.search(job) if job else None
        commands.append(f"sacct -j {match[1] if match else '<job id>'} --format=JobID,State,ExitCode,MaxRSS,ReqMem")
    # How a container's end by SIGKILL is told from outside
    container = isinstance(crash.root, Kill) and crash.root.exit_code == SIGKILL_SEEN_OUTSIDE
    if container or in_a_pod or _limit(crash) is not None:
        commands.append("kubectl describe pod <pod> | grep -A8 'Last State'")
    if container and not in_a_pod:
        commands.append("docker inspect --format '{{.State.OOMKilled}} {{.State.ExitCode}}' <container>")
    if crash.root.pool == "shm":
        commands.append("df -h /dev/shm")
    return (*commands, JOURNAL)
