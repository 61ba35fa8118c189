"""Limits below the machine's memory: of a control group, a pod, a batch job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from oomdoctor.families.container import LimitKill, MemoryLimit, NodePressure
from oomdoctor.families.event import Event
from oomdoctor.families.host_alloc import HostAllocation
from oomdoctor.families.kernel import KernelKill
from oomdoctor.families.kill import SIGBUS, SIGKILL, Kill
from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.families.ray_store import StoreTooLarge, StoreUsage
from oomdoctor.families.recorded import RecordedKill
from oomdoctor.incident.model import Crash
from oomdoctor.incident.node import (
    HELD_ELSEWHERE,
    LARGE,
    NEARLY_FULL,
    held_by,
    held_in_words,
    is_a_bystander,
    largest_kill,
    machine_before,
    resident,
    stated_limit,
)
from oomdoctor.incident.prints import own_lines
from oomdoctor.job.model import Setting
from oomdoctor.job.moments import moment, seconds_since
from oomdoctor.language import joined, say, translated
from oomdoctor.patterns import late
from oomdoctor.signs import Seen, sign
from oomdoctor.signs.commands import settling
from oomdoctor.signs.flight_record import grown_in_words
from oomdoctor.signs.records import doubts, is_untied
from oomdoctor.signs.series import went_on_before
from oomdoctor.units import show, size

# DuckDB's (max_memory is another name of it), Dask's and those of programs that hand it on
_BUDGETS: Final = ("memory_limit", "max_memory")
# The java command (a bare number there is in bytes, and nobody's heap); node --v8-options, in MiB
_HEAPS: Final = ("Xmx", "max_old_space_size")
_JAVAS: Final = late(r"(?<![\w-])-Xmx(\d{1,6}[kKmMgG])(?![\w.])")
_MEGABYTES: Final = "MiB"
_AMOUNT: Final = late(r"(\d{1,9}(?:\.\d{1,3})?) ?([KMGTkmgt]i?B?)")
_FAILED_RULE: Final = late(r"\bError in (?:rule|checkpoint) (\w{1,100})\b")  # snakemake/logging.py 7 and 8
NO_MEMORY: Final = 12  # ENOMEM
ASKED_OF_SLURM: Final = ("mem_per_cpu", "mem_per_gpu")  # sbatch.1: nobody else's options
_ITS_INIT: Final = "container init was OOM-killed"
_AT_ITS_START: Final = 60  # seconds: so long after a start nothing has grown yet
_HOUR: Final = 3600  # seconds; what was needed from the start did not fill the limit
HALF: Final = 0.5  # of what the control group used, in no process
MUCH_SHARED: Final = 0.25  # of what the control group used
_ENDED: Final = (
    r"\bCANCELLED\b|: Out Of Memory|Terminating StepId|forcing job termination|^Killed$|: Exited with exit code"
)
_REQUESTS_NOTHING: Final = 1000  # OOM_SCORE_ADJ_MAX, of a container without a request
OF_NUMA_NODES: Final = ("CONSTRAINT_CPUSET", "CONSTRAINT_MEMORY_POLICY")
MANAGERS: Final = {
    "slurm": "Slurm",
    "kubernetes": "Kubernetes",
    "docker": "docker",
    "kernel": "The kernel",
    "systemd": "systemd",
    "podman": "podman",
    "conmon": "conmon",
    "containerd": "containerd",
    "nomad": "Nomad",
    "lsf": "LSF",
    "pbs": "PBS",
    "sge": "Grid Engine",
    "htcondor": "HTCondor",
    "yarn": "YARN",
    "mesos": "Mesos",
    "runc": "runc",
    "aws": "AWS",
    "vertex": "Vertex AI",
    "batch": "The batch system",
}


@sign
def kernel_hit_the_limit_of_a_group(crash: Crash) -> Seen | None:
    """The kernel's record names a cgroup at its limit."""
    kill = _kill_in_a_group(crash)
    if kill is None:
        return None
    shared = several_containers_share_the_group(crash)
    victims = shared.words if shared is not None else _victim(kill)
    words = joined((_limit_hit(kill), victims, _of_nobody(kill)))
    return Seen(words=words, evidence=(kill, *_records_beside(crash, kill)), pool="cgroup")


@sign
def a_budget_beyond_the_limit(crash: Crash) -> Seen | None:
    """The same, and the job has allowed a program more memory than the cgroup has: it neither spills nor refuses what
    the kernel then ends it for."""
    kill, budget = _kill_in_a_group(crash), budget_beyond_the_limit(crash)
    if kill is None or budget is None:
        return None
    told = (
        say("{name} allows {value}, more than the limit: the heap grows on where garbage should be collected.",
            name=budget.flag, value=budget.value)
        if is_of_a_heap(budget)
        else say("{name} allows {value}, more than the limit: what should go to disk beyond that stays in memory.",
                 name=budget.flag, value=budget.value)
    )  # fmt: skip
    return Seen(words=joined((_limit_hit(kill), told)), evidence=(kill,), pool="cgroup")


def budget_beyond_the_limit(crash: Crash) -> Setting | None:
    """How much a program may use by its own setting, or its runtime by an option, where that is more than the cgroup
    has."""
    kill = _kill_in_a_group(crash)
    if kill is None or not kill.limit_bytes:
        return None
    stated = (crash.setting(*_BUDGETS), crash.setting(*_HEAPS), _heap_in_a_line(crash))
    return next((one for one in stated if one is not None and (_allowed(one) or 0) > kill.limit_bytes), None)


def is_of_a_heap(budget: Setting) -> bool:
    """Whether it bounds what a runtime collects garbage of."""
    return budget.name in _HEAPS


def _allowed(budget: Setting) -> int | None:
    unit = _MEGABYTES if budget.name in _HEAPS and budget.whole is not None else ""
    amount = _AMOUNT.fullmatch(f"{budget.value}{unit}")
    return size(amount[1], amount[2]) if amount is not None else None


def _heap_in_a_line(crash: Crash) -> Setting | None:
    """Java's option where a script prints it with others: "JAVA_OPTS=-Xms256m -Xmx2g"."""
    found = (_JAVAS.search(line) for line in own_lines(crash))
    return next((Setting("Xmx", one[1], crash.root.at.file, crash.root.at.line, "-Xmx") for one in found if one), None)


@sign
def several_containers_share_the_group(crash: Crash) -> Seen | None:
    """Beside a large process the kernel killed one of a pod that requests nothing, and so has no limit, which held next
    to nothing: the group that is full is one that all such pods share."""
    kills = [kill for kill in crash.every(KernelKill) if kill.pool == "cgroup"]
    large = max(kills, key=lambda kill: held_by(kill) or 0, default=None)
    small = next((kill for kill in kills if is_a_bystander(held_by(kill), None) and _without_a_limit(kill)), None)
    if large is None or small is None or is_a_bystander(held_by(large), None):
        return None
    words = say(
        "The kernel killed {name} (host PID {pid}), which held {held}, and {other}, which held {little} and has no "
        "limit of its own: the group that is full holds several containers.",
        name=large.process.name,
        pid=large.process.pid,
        held=held_in_words(large),
        other=small.process.name,
        little=held_in_words(small),
    )
    return Seen(words=joined((words, _limit_by_its_score(large))), evidence=(large, small))


def _without_a_limit(kill: KernelKill) -> bool:
    """Of a pod that requests nothing, the kubelet sets oom_score_adj to 1000, and of all others to less
    (pkg/kubelet/qos/policy.go)."""
    return (kill.score or 0) >= _REQUESTS_NOTHING


def _limit_by_its_score(kill: KernelKill) -> str:
    """Its score is a thousand times the share of the group's limit, and oom_score_adj on top."""
    held, part = resident(kill), (kill.score or 0) - _REQUESTS_NOTHING
    if part <= 0 or not held:
        return ""
    return say(
        "Its limit is about {held} / {part} = {limit}, from the score of {name} less an oom_score_adj of 1000 "
        "(assumed).",
        held=show(held),
        part=f"{part / _REQUESTS_NOTHING:.3f}",
        limit=show(held * _REQUESTS_NOTHING / part),
        name=kill.process.name,
    )


def _of_nobody(kill: KernelKill) -> str:
    rest = in_no_process(kill)
    if rest is None or much_shared(kill) is not None:
        return ""
    return say(
        "{rest} of it belongs to none of the processes: files in /dev/shm and other tmpfs count for the limit.",
        rest=show(rest),
    )


@sign
def most_is_in_no_process(crash: Crash) -> Seen | None:
    """The kernel's table of a cgroup's tasks explains less than half of what was in use at its limit."""
    kill = filled_by_nobody(crash)
    return Seen(words="", evidence=(kill,)) if kill is not None else None


def filled_by_nobody(crash: Crash) -> KernelKill | None:
    """The kill at a limit that no process fills."""
    kill = _kill_in_a_group(crash)
    return kill if kill is not None and in_no_process(kill) else None


def _kill_in_a_group(crash: Crash) -> KernelKill | None:
    """Of several the one whose process held most, as the headline has it: the first is often a bystander."""
    kills = (kill for kill in crash.every(KernelKill) if kill.pool == "cgroup")
    return max(kills, key=lambda kill: held_by(kill) or 0, default=None)


def in_no_process(kill: KernelKill) -> int | None:
    """What is in use and in none of the processes that the kernel lists, its victim among them."""
    if kill.used_bytes is None or all(task.pid != kill.process.pid for task in kill.tasks):
        return None
    rest = kill.used_bytes - sum(task.rss_bytes + task.swap_bytes for task in kill.tasks)
    return rest if rest >= HALF * kill.used_bytes else None


@sign
def manager_reports_its_limit_with_figures(crash: Crash) -> Seen | None:
    """A scheduler or container engine ended the job at its memory limit and prints figures; where the record was looked
    up, an ID, a name or a time ties it to the failure."""
    kill = kill_at_a_limit(crash)
    if kill is None or kill.strength < 3 or is_untied(crash, kill):
        return None
    return _by_the_manager(crash, kill)


@sign
def manager_reports_its_limit(crash: Crash) -> Seen | None:
    """A scheduler or container engine says that the job hit its memory limit."""
    kill = kill_at_a_limit(crash)
    return _by_the_manager(crash, kill) if kill is not None else None


@sign
def container_was_nearly_full(crash: Crash) -> Seen | None:
    """docker's last print before an unexplained kill shows 90% of the container's limit in use."""
    last = dockers_last_print(crash)
    if not isinstance(crash.root, Kill) or last is None or (last.share or 0) < NEARLY_FULL:
        return None
    words = say(
        "docker's last print before the kill shows {used} of the container's {limit} in use.",
        used=show(last.used_bytes or 0),
        limit=show(last.total_bytes or 0),
    )
    doubt = say("docker shows the machine's memory for a container without a limit")
    return Seen(words=words, evidence=(last, crash.root), against=(doubt,), shows_memory=True, pool="cgroup")


@sign
def numa_nodes_were_full(crash: Crash) -> Seen | None:
    """The kernel's record gives the NUMA nodes of the process as the constraint, and no cgroup limit was hit."""
    if _a_limit_was_hit(crash) or not any(kill.constraint in OF_NUMA_NODES for kill in crash.every(KernelKill)):
        return None
    return Seen(words=say("the kernel says that the NUMA nodes of the process were full; no memory limit was hit"))


@sign
def whole_machine_was_full(crash: Crash) -> Seen | None:
    """The kernel's record is of a kill for the whole machine."""
    kills = crash.every(KernelKill)
    whole = any(kill.global_oom or kill.constraint == "CONSTRAINT_NONE" for kill in kills)
    if _a_limit_was_hit(crash) or not whole:
        return None
    return Seen(words=say("the kernel says that the whole machine was out of memory, not one cgroup"))


@sign
def node_was_under_pressure(crash: Crash) -> Seen | None:
    """Kubernetes evicted for the node's memory."""
    if _a_limit_was_hit(crash) or crash.first(NodePressure) is None:
        return None
    return Seen(words=say("Kubernetes says that the node was out of memory, not the container"))


def evicted_far_over_its_request(crash: Crash) -> NodePressure | None:
    """The largest of the containers that Kubernetes evicted for the node's memory, where most of what it used, and
    1 GiB or more, was beyond its request: nobody had reckoned with that when the pod was placed. One without a request
    is evicted first, whatever it used."""
    evicted = max(crash.every(NodePressure), key=lambda event: event.used_bytes or 0, default=None)
    if evicted is None or evicted.used_bytes is None or not evicted.requested_bytes:
        return None
    beyond = evicted.used_bytes - evicted.requested_bytes
    return evicted if beyond >= LARGE and beyond > evicted.requested_bytes else None


@sign
def an_evicted_container_held_it(crash: Crash) -> Seen | None:
    """Kubernetes evicted a container for the node's memory, most of whose use was beyond its request."""
    evicted = evicted_far_over_its_request(crash)
    if evicted is None or evicted.container is None or _a_limit_was_hit(crash):
        return None
    words = say(
        "Container {name} used {used} and had requested {requested}: {used} - {requested} = {beyond} that nobody had "
        "set aside for it.",
        name=evicted.container,
        used=show(evicted.used_bytes or 0),
        requested=show(evicted.requested_bytes or 0),
        beyond=show((evicted.used_bytes or 0) - (evicted.requested_bytes or 0)),
    )
    return Seen(words=words, evidence=(evicted,), against=(say("the log does not print the node's memory size"),))


@sign
def killed_beside_a_limit(crash: Crash) -> Seen | None:
    """A container was killed; its record shows a limit, but not that the limit was the reason."""
    limit = stated_limit(crash)
    if limit is None or not isinstance(crash.root, Kill):
        return None
    return Seen(
        words=say(
            "a record of the kernel or the container engine of a kill at the limit of {limit}",
            limit=show(limit.limit_bytes or 0),
        ),
        next_evidence=settling(crash),
    )


@sign
def killed_and_refused(crash: Crash) -> Seen | None:
    """A script asks Slurm for an amount of memory, one of its processes was killed and another refused memory: each
    alone has other reasons, and a full control group has both."""
    asked = crash.setting(*ASKED_OF_SLURM)
    kill = next((one for one in crash.every(Kill) if one.signal == SIGKILL), None)
    refused = crash.first(HostAllocation)
    if asked is None or kill is None or refused is None or refused.errno != NO_MEMORY:
        return None
    words = say(
        "One process of the job was killed, another was refused memory (errno 12), and the script asks Slurm for "
        "{name}={value}: Slurm gives the job no more than that.",
        name=asked.name,
        value=asked.value,
    )
    doubt = say("no line shows that the limit was hit")
    return Seen(words=words, evidence=(kill, refused), against=(doubt,), unsure=True, pool="cgroup")


@sign
def store_exceeds_the_limit(crash: Crash) -> Seen | None:
    """Ray was to have an object store that is larger than the limit of its container or job."""
    stores = (store for store in crash.every(StoreTooLarge) if store.strength and store.requested_bytes)
    store, limit, stated = next(stores, None), limit_of(crash), stated_limit(crash)
    if store is None or limit is None or (store.requested_bytes or 0) <= limit:
        return None
    words = say(
        "Ray's object store of {store} is larger than the whole memory limit of {limit}.",
        store=show(store.requested_bytes or 0),
        limit=show(limit),
    )
    start = next((usage for usage in crash.every(StoreUsage) if usage.capacity_bytes == store.requested_bytes), store)
    evidence = (start,) if stated is None else (start, stated)
    if store.refused:
        return Seen(words=words, evidence=evidence, pool="cgroup")
    doubt = say("no line shows that the limit was hit")
    return Seen(words=words, evidence=evidence, against=(doubt,), unsure=True, pool="cgroup")


def dockers_last_print(crash: Crash) -> MachineMemory | None:
    """What docker printed of the container just before the failure."""
    return next((event for event in reversed(machine_before(crash)) if event.tool == "docker"), None)


def _a_limit_was_hit(crash: Crash) -> bool:
    return kill_at_a_limit(crash) is not None or any(kill.pool == "cgroup" for kill in crash.every(KernelKill))


def kill_at_a_limit(crash: Crash) -> LimitKill | None:
    """The strongest word for a limit on memory in use; a limit on address space is another matter."""
    kills = [kill for kill in crash.every(LimitKill) if not kill.virtual and kill.manager in MANAGERS]
    return max(kills, key=lambda kill: kill.strength, default=None)


def asked_by_its_rule(crash: Crash) -> MemoryLimit | None:
    """What Snakemake asked of the scheduler for the job that was ended: of the rule that it says failed, else of the
    only one that the log has a record of."""
    records = [each for each in crash.every(MemoryLimit) if each.rule is not None and each.requested_bytes]
    failed = next(filter(None, map(_FAILED_RULE.search, crash.root.around.below)), None)
    if failed is not None:
        return next((each for each in reversed(records) if each.rule == failed[1]), None)
    return records[-1] if len({each.rule for each in records}) == 1 else None


def seconds_after_its_start(crash: Crash) -> int | None:
    """How long a container ran that was killed at its limit before anything could grow, where its record prints it."""
    lived = _lived(crash)
    return lived if lived is not None and lived <= _AT_ITS_START else None


def _lived(crash: Crash) -> int | None:
    """How many seconds a container ran that was killed at its limit, where its record prints it."""
    lives = ((moment(kill.started), moment(kill.time)) for kill in crash.every(LimitKill) if not kill.job)
    spans = (seconds_since(first, last) for first, last in lives if first and last)
    return next((round(span) for span in spans if span is not None and span >= 0), None)


def limit_of(crash: Crash) -> int | None:
    """The limit of the job or the container, as its own record or another line has it."""
    kill, recorded = kill_at_a_limit(crash), stated_limit(crash)
    own = (kill.limit_bytes or kill.requested_bytes) if kill is not None else None
    return own or (recorded.limit_bytes if recorded is not None else None)


def _limit_hit(kill: KernelKill) -> str:
    group = kill.cgroup or say("A cgroup")
    used, limit, shared = kill.used_bytes, kill.limit_bytes, much_shared(kill)
    if used is None or limit is None:
        if shared is None:
            return say("{group} reached its memory limit; the machine itself may have free memory.", group=group)
        return say(
            "{group} reached its memory limit; {shared} of it is shared memory (/dev/shm, tmpfs, Ray's object "
            "store). The machine itself may have free memory.",
            group=group,
            shared=show(shared),
        )
    if shared is None:
        return say(
            "{group} reached its memory limit: {used} in use, {limit} allowed. The machine itself may have "
            "free memory.",
            group=group,
            used=show(used),
            limit=show(limit),
        )
    return say(
        "{group} reached its memory limit: {used} in use, {limit} allowed; {shared} of it is shared memory "
        "(/dev/shm, tmpfs, Ray's object store). The machine itself may have free memory.",
        group=group,
        used=show(used),
        limit=show(limit),
        shared=show(shared),
    )


def much_shared(kill: KernelKill) -> int | None:
    """Shared memory counts against the limit and belongs to no process: killing one frees none of it."""
    shared, used = kill.group_shmem_bytes, kill.used_bytes
    return shared if shared and used and shared >= MUCH_SHARED * used else None


def _victim(kill: KernelKill) -> str:
    name, pid, held = kill.process.name, kill.process.pid, held_by(kill)
    if not name:
        return ""
    if isinstance(kill, RecordedKill):
        return _recorded_victim(kill)
    if not held:
        return say("The kernel killed {name} (host PID {pid}).", name=name, pid=pid)
    killed = say(
        "The kernel killed {name} (host PID {pid}), which held {held}.", name=name, pid=pid, held=held_in_words(kill)
    )
    small = is_a_bystander(held, kill.used_bytes or kill.limit_bytes) and not kill.tasks
    return joined((killed, translated(HELD_ELSEWHERE))) if small else killed


def _recorded_victim(kill: RecordedKill) -> str:
    """A process that was gone after the kill; the kernel's own record says what it held to the last."""
    who, held = {"name": kill.process.name, "pid": kill.process.pid}, held_by(kill)
    if not held:
        killed = say("The kernel killed {name} (PID {pid}).", **who)
    elif kill.by_kernel_log:
        killed = say("The kernel killed {name} (PID {pid}), which held {held}.", held=held_in_words(kill), **who)
    else:
        killed = say(
            "The kernel killed {name} (PID {pid}); its last sample shows {held}.", held=held_in_words(kill), **who
        )
    return joined((killed, grown_in_words(kill)))


def _by_the_manager(crash: Crash, kill: LimitKill) -> Seen:
    who = MANAGERS[kill.manager]
    hit = (
        say("{who} reports that job {job} hit its memory limit", who=who, job=job_and_step(kill.job))
        if kill.job
        else say("{who} reports that the memory limit was hit", who=who)
    )
    lived, at_once = _lived(crash), seconds_after_its_start(crash)
    if at_once is not None:
        hit = say("{hit} {seconds:g} s after the container started", hit=hit, seconds=at_once)
    elif lived is not None and lived >= _HOUR:
        hit = say("{hit} {hours:.1f} h after the container started", hit=hit, hours=lived / _HOUR)
    many = say("{kills} processes were killed.", kills=kill.kills) if kill.kills and kill.kills > 1 else ""
    return Seen(
        words=joined(
            (
                say("{hit}{figures}.", hit=hit, figures=_figures(crash, kill)),
                many,
                went_on_before(crash),
                _while_it_was_created(kill),
                _bus_error_elsewhere(crash),
            )
        ),
        evidence=(kill, *_records_beside(crash, kill)),
        against=(*_may_be_harmless(crash, kill), *doubts(crash, kill)),
        pool="cgroup",
    )


def before_the_program(kill: LimitKill) -> bool:
    """Whether runc itself was killed, before it ran the container's program: process_linux.go of runc 1.1."""
    return _ITS_INIT in kill.at.text


def _while_it_was_created(kill: LimitKill) -> str:
    if not before_the_program(kill):
        return ""
    return say(
        "It was killed while the container was created, before the program started: the limit is far too low, perhaps "
        "by a slip of its unit."
    )


def _bus_error_elsewhere(crash: Crash) -> str:
    """A sentence on a bus error of a host that no line on the limit names: touching pages beyond a limit kills."""
    hosts = {kill.host for kill in crash.every(LimitKill) if kill.host}
    kills = (kill for kill in crash.every(Kill) if kill.signal == SIGBUS and kill.host)
    other = next((kill for kill in kills if hosts and kill.host not in hosts), None)
    if other is None or any("[" in host for host in hosts):
        return ""
    return say(
        "Line {line} tells of a bus error on {host}, which this limit does not explain: a full /dev/shm there or a "
        "truncated mapped file gives one.",
        line=other.at.line,
        host=other.host,
    )


def _figures(crash: Crash, kill: LimitKill) -> str:
    """What is printed of it, each figure behind a comma or a semicolon of its own."""
    limit, used = limit_of(crash), kill.used_bytes
    figures = say(", limit {limit}", limit=show(limit)) if limit else ""
    figures += say(", peak {peak}", peak=show(kill.peak_bytes)) if kill.peak_bytes and not used else ""
    if limit and used and used < limit:
        figures += say("; the printed {used} in use was measured at another moment", used=show(used))
    elif used:
        figures += say(", {used} in use", used=show(used))
    most = largest_kill(crash)
    if most is not None and held_by(most):
        figures += say("; the killed process held {peak}", peak=held_in_words(most))
    return figures


def job_and_step(job: str) -> str:
    """Slurm writes a step behind its job's number and a dot."""
    number, _, step = job.partition(".")
    if step.isdecimal():
        return say("{job} (step {step})", job=number, step=step)
    if step == "batch":
        return say("{job} (batch script)", job=number)
    return say("{job} ({step} step)", job=number, step=step) if step else number


def _may_be_harmless(crash: Crash, kill: LimitKill) -> tuple[str, ...]:
    """Unless another line shows that the job itself ended."""
    ended = crash.first(Kill) is not None or crash.mentions(_ENDED) is not None
    if kill.manager == "slurm" and kill.kills is not None and not ended:
        return (say("Slurm counts every killed process of the step, helpers too; the job may have continued"),)
    return ()


def _records_beside(crash: Crash, first: Event) -> tuple[Event, ...]:
    """What else speaks of the same kill: the manager's record, the exit code."""
    return tuple(event for event in _records(crash) if event is not first)[:3]


def _records(crash: Crash) -> Iterator[Event]:
    yield from crash.every(KernelKill)
    yield from crash.every(LimitKill)
    yield from crash.every(Kill)
