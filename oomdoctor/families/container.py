"""What schedulers and container engines say of a memory limit: Slurm, Kubernetes, docker, LSF, PBS, HTCondor, YARN."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import takewhile
from typing import Final

from msgspec.structs import replace

from oomdoctor import grammars
from oomdoctor.families import Family
from oomdoctor.families.echoes import ADVICE, COMMENT, SOURCE, echo
from oomdoctor.families.event import Event, Lookalike, Process, Read, Role, Threshold, Usage
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page
from oomdoctor.units import BINARY, DECIMAL, GIB, KIB, MIB, size

CHARACTERS: Final = 4000
STATE_LINES: Final = 8  # of one terminated state
RECORD_ABOVE: Final = 30  # a pod's spec stands above its state in YAML and JSON, below it in `kubectl describe`
RECORD_BELOW: Final = 30
TORQUE_LINES: Final = 40
FOLDED_LINES: Final = 8
GUARD_LINES: Final = 3
LIMIT_LINES: Final = 8  # a container's other resources stand in front of its memory


class LimitKill(Event, frozen=True, kw_only=True):
    """A scheduler or an engine says that the job or container went over its memory limit."""

    family = "container"
    kind = "limit-kill"

    pool: str = "cgroup"
    strength: int = 3

    tool: str | None = None  # whose output it is, where somebody asked: "sacct", "docker inspect", "cgroup"
    # "slurm", "kubernetes", "docker", "podman", "conmon", "containerd", "nomad", "volume",
    # "kernel", "lsf", "pbs", "sge", "htcondor", "yarn", "mesos", "runc", "aws", "vertex",
    # "sagemaker", "notebook"
    manager: str
    used_bytes: Usage[int | None] = None
    peak_bytes: Usage[int | None] = None
    resident_bytes: Usage[int | None] = None  # beside `used_bytes` where that is address space
    limit_bytes: Threshold[int | None] = None
    requested_bytes: Threshold[int | None] = None
    job: str | None = None  # Slurm's "123_4.batch", LSF's or PBS' number
    container: str | None = None  # the pod's or container's name
    kills: int | None = None  # how many processes were killed
    exit_code: int | None = None
    reason: str | None = None  # "OOMKilled", "OUT_OF_MEMORY", "TERM_MEMLIMIT"
    host: str | None = None
    group: str | None = None  # the control group's folder
    started: str | None = None  # when the job or container was started, as printed
    tasks: str | None = None  # Slurm's list: "1-3"
    virtual: bool | None = None  # the limit counts address space


class NodePressure(Event, frozen=True, kw_only=True):
    """Kubernetes evicted a pod or saw a kill because the node, not the container, was out of memory."""

    family = "container"
    kind = "node-pressure"

    pool: str = "host_ram"
    strength: int = 3

    used_bytes: Usage[int | None] = None
    available_bytes: Usage[int | None] = None
    threshold_bytes: Threshold[int | None] = None
    requested_bytes: int | None = None
    container: str | None = None
    host: str | None = None  # the pod or the node that the event is about
    reason: str | None = None  # "Evicted", "SystemOOM", "MemoryPressure"


class MemoryLimit(Event, frozen=True, kw_only=True):
    """A memory limit that the log states: context, no failure."""

    family = "container"
    kind = "memory-limit"

    role: Role = "context"
    pool: str = "cgroup"

    limit_bytes: Threshold[int | None] = None
    requested_bytes: Threshold[int | None] = None
    stated: str | None = None  # as printed: "64Gi"


class EndRecord(MemoryLimit, frozen=True, kw_only=True):
    """What a manager recorded of a job's or container's end, where it recorded no OOM kill."""

    family = "container"
    kind = "end-record"

    manager: str  # "slurm", "kubernetes", "docker", "podman", "systemd"
    tool: str  # the command whose output it is
    state: str | None = None  # as printed: "TIMEOUT", "Error", "signal"
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None  # where the record says so of the container's own limit
    peak_bytes: Usage[int | None] = None
    job: str | None = None
    container: str | None = None
    host: str | None = None
    started: str | None = None


# Slurm printed KiB before 17.11 and bytes since, both without a unit: nothing below 2 GiB is a job's limit in bytes.
_SMALLEST_LIMIT_IN_BYTES: Final = 2 * GIB

# slurmstepd's two sentences; a terminal may break the line between them
_SLURM_KILL = late(
    r"Detected \d{1,9} oom[-_]kill events?(?:\(s\))? in |\boom[-_]kill event count: [1-9]"
    r"|^\s{0,8}Some of the step tasks have been OOM Killed\b"
)
_SLURM_TASK = late(r"srun: error: (\S{1,200}): tasks? [\d,\-\[\]]{1,80}: Out Of Memory")
# What slurmstepd logs of each task's end (mgr.c, _log_task_exit, 17.11 on)
_SLURM_END = late(r"\btasks? (\d{1,9}) \(\d{1,9}\) Out Of Memory \(OOM\)")
_SLURM_POLL = late(r"exceeded (virtual )?memory limit \(\d")
# slurmd tells srun so and kills the job (slurmd/req.c, _enforce_job_mem_limit); "at some point" tells of no kill
_SLURM_NOTICE = late(
    r"(?:^|\bsrun: |\bslurm(?:step)?d\S{0,80}: )(?:error: )?Exceeded job memory limit\s{0,4}[.!]?\s{0,4}$"
)
# Slurm prints it where the cgroup's failcnt is not 0: task_cgroup_memory.c, task_cgroup_memory_check_oom, up to 17.02
_TOUCHED = mark(
    "the limit was reached at some point, which page cache alone may do; whether anything was killed, it does not say"
)
_CACHE = late(r"Exceeded (?:job|step) memory limit at some point|hit memory(?:\+swap)? limit at least once")
# "/tasks/oom" is containerd's name of the event, as `ctr events` prints it
_ENGINE_EVENT = late(
    r"(?<!for )\bTaskOOM\b|\bcontainer oom\b|(?<![\w./])/tasks/oom\"?,? ?(?:\"\w{1,12}\": ?)?\{"
    r"|\bconmon \S{1,64} <n\w{3,5}>: OOM (?:event )?received|\"(?:[Aa]ction|[Ss]tatus)\": ?\"oom\""
)
_KUBERNETES = late(
    rf"(?<![.\w])OOMKill(?:ed)?\b(?!\"?[=:] ?true\b)|\boomKilled\"?[:=] ?\"?true|Message: \"OOM Killed\""
    rf"|(?<!whether it )(?<!if it )\bwas OOM[- ]killed\b|{_ENGINE_EVENT.pattern}"
)
_NOT_KILLED = late(r"OOMKilled\"?\s{0,4}[:=]\s{0,4}\"?[Ff]alse")
TERMINATED = late(r"^\s{0,12}(?:Last State|State):\s{1,20}Terminated\s{0,4}$")
_EVICTED = late(
    r"low on resource: memory|System OOM encountered|Evicting job because system is out of memory"
    # the kubelet's eviction_manager.go; what it reclaims before costs no pod
    r"|must evict pod\(s\) to reclaim(?: |\\?\" resourceName=\\?\")memory\b"
    # Volcano's agent (eviction.go, 1.10 on), and others that evict what may be evicted
    r"|^(?!.{0,400}\b(?:not|no|never|skip\w{0,4}|if|when|may|might|would|could|should|will)\b).{0,400}?"
    r"\b[Ee]vict(?:ed|ing|s)? (?:[\w./-]{1,80} ){0,4}?(?:pods?|jobs?|tasks?|containers?|workloads?|allocs?|instances?) "
    r"(?:[\w./-]{1,80} ){0,4}?(?:due to|because of|under|on) "
    r"(?:\w{1,12} )?(?:memory|RAM) (?:resource |usage )?pressure\b"
)
_ABOUT = late(r"\s(?:pod|node)/([\w.-]{1,253})\s")  # of `kubectl get events`
# Mesos' agent counts in MiB (memory.cpp of the cgroups isolator, 0.14 on)
_MESOS = late(
    r"\bMemory limit exceeded: Requested: (?P<limit>\d{1,12}(?:\.\d{1,3})?[KMGT]?B) "
    r"Maximum Used: (?P<used>\d{1,12}(?:\.\d{1,3})?[KMGT]?B)"
    r"|(?:^|\.cpp:\d{1,5}\] )OOM detected for container (?P<name>[\w.-]{1,80})$"
)
# runc says so where the group's own counter of kills has risen (process_linux.go, 1.1 on)
_RUNC = late(
    r"\b(?:exec failed|container process|setns process|container init|runc|OCI runtime)\b"
    r".{0,600}\((?:possibly )?OOM-killed\)"
)
# ContainerStateTerminated of the API, as YAML or JSON
_STATE_TIME = late(r"^\s{0,80}\"?(started|finished)At\"?:\s{1,4}\"?(\d{4}-[\dT:.Z+-]{10,40})\"?,?$")
_KEY = late(r"^\s{0,40}(?:- )?[\w./\"-]{1,60}:(?:\s|$)")
_DISK = late(r"low on resource: (?:ephemeral-storage|inodes|pids)")
_WAITS = late(
    r"nodes are available: .{0,200}Insufficient (?:memory|nvidia\.com/gpu)"
    r"|\binsufficient (?:unused )?quota (?:for|in) "  # Kueue's
)
_LSF = late(r"TERM_(?:MEMLIMIT|SWAP)\b")
_LSF_JOB = late(r"\bJob <?(\d{1,12})(?:>|: <)")
_PBS = late(r"PBS: job killed: (p?v?mem)\b")
# The server's comment on a finished job (svr_jobfunc.c, 19.1 on); "Exit_status" is -27 then, and -26 for vmem
_PBS_COMMENT = late(r"\b[Jj]ob [^\n]{1,400}\bexceeded resource (p?v?mem)\b")
_PBS_CHUNK = late(r":mem=(\d{1,15}[kmgt]?b)\b")
# Torque's mail, with the job's account below it
_TORQUE = late(r"^\W{0,4}Job exceeded a memory resource limit \(")
# Moab's own, in MB: "job 41 exceeded MEM usage hard limit (2528 > 1126)"
_MOAB = late(r"\bjob (\d{1,12}) exceeded (V?MEM|SWAP) usage (?:hard|soft) limit \((\d{1,12}) > (\d{1,12})\)")
# What any manager of jobs may say of its own kill, and any watchdog of the limit that it guards
_DISMISSED = late(
    r"(?i)\b(?:job|task|step|container|worker|process|application|session|workflow)\b[^\n]{0,80}?"
    r"\b(?:killed|terminated|aborted|evicted|removed|held|stopped|cancell?ed)\b(?: by (?:the )?(\w{2,30}))?,?"
    r" (?:due to|because of|for) (?:its |their )?(?:excessive|excess|too high|high|too much) (?:memory|RAM|RSS)\b"
    r"(?:[^\n]{0,24}?\b(?:RSS|PSS|memory|used)\s?[=:]\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b)?"
)
# ... or how much it used: "put on hold by SYSTEM_PERIODIC_HOLD due to memory usage 3000000"
_HELD = late(
    r"(?i)\b(?:job|task|step|container|worker|process|application|session|workflow|pod)\b[^\n]{0,80}?"
    r"\b(?:on hold|held|killed|terminated|aborted|evicted|removed|stopped|suspended|cancell?ed)\b"
    r"(?: by (?:the )?(?P<who>\w{2,30}))?,? (?:due to|because of|for) (?:its |their |the |a |high |excessive )?"
    r"(?:memory|RAM|RSS|resident set)(?: size)?(?: usage| use| consumption| footprint)?(?: of| at|:| =)? ?"
    r"(?P<used>\d[\d.]{0,14}(?: ?[KMGT]i?B)?)\b(?! ?%)"
)
_OF_CONDOR = late(r"\b(?:SYSTEM_)?PERIODIC_(?:HOLD|REMOVE|VACATE)\b")
_BARE = late(r"\d{5,9}$")  # HTCondor counts ResidentSetSize and ImageSize in KiB
_GUARDED = late(
    r"(?i)\b(?:job|task|step|container|worker|process)\b(?: \S{1,60})? (?:has |is )?exceed(?:ed|ing) (?:its |the )?"
    r"max(?:imum)? ?(PSS|RSS|vsize|memory)\b(?: size| usage)?\s?[:=]?\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b"
)
_HAS = late(r"(?i)\bhas (?:PSS|RSS|vsize|memory)\b\s?[:=]?\s?(\d[\d.]{0,12} ?[KMGT]i?B)\b")
ANY_MANAGER: Final = "batch"
_KNOWN: Final = frozenset({"slurm", "lsf", "pbs", "htcondor", "kubernetes", "docker", "yarn", "nomad"})
_TORQUE_JOB = late(r"\bPBS Job Id: {1,4}(\d{1,12})")
_TORQUE_HOST = late(r"^\W{0,4}Exec host: {1,4}([\w.-]{1,120})/")
_ACCOUNT = late(r"\b(?:resources_used|req_information|Resource_List)\.")
_SGE = late(r"exceeds job (?:hard|soft) limit \"(?:h_vmem|s_vmem|h_rss|s_rss)\"")
# Its mail on an aborted job (libs/uti/sge_status.c): "failed execd enforced h_vmem limit because:"
_SGE_MAIL = late(r"\bfailed execd enforced [hs]_(?:vmem|rss|data) limit\b")
_SGE_MOST = late(r"^\W{0,6}Max vmem {1,12}= {0,4}(\d[\d.]{0,20}[KMGT]?)\b")
_SGE_LINES: Final = 16
_CGROUP = late(r"[Cc]group mem(?:ory|sw)? limit exceeded")
_CLOUD = late(
    r"OutOfMemoryError: Container killed due to memory usage|\"Out of Memory\" \(\"OOM\"\) event was detected"
    r"|replica \S{1,80} ran out-of-memory and exited"
    r"|Replicas low on memory:"
)
_CONDOR = late(
    r"gone over (?:cgroup )?memory limit of \d|Job has encountered an out-of-memory event"
    r"|\bmemory usage exceeded request_memory|child was OOM killed by cgroup memory limit"
)
# A volume in memory by its name; others lie on a disk
_VOLUME = late(
    r"Usage of EmptyDir volume \"[\w.-]{0,60}(?:shm|memory|ram)[\w.-]{0,60}\" exceeds the limit \"(\w{1,20})\""
)
_LAMBDA = late(r"\bMemory Size: (\d{1,6}) MB\s{1,4}Max Memory Used: (\d{1,6}) MB\b")
_SAGEMAKER = late(r"Please use an instance type with more memory")
_CONDITION = late(r"node had condition: \[MemoryPressure\]|^\s{0,8}MemoryPressure\s{1,40}True\b")
# ContainersMonitorImpl.java of Hadoop 2 and 3, and what Spark makes of it (YarnAllocator.scala), which named the memory
# since 2.4
_YARN = late(
    r"killed by YARN for exceeding (?:(?:physical|virtual) )?memory limits"
    r"|running (?:\d{1,20}B )?beyond (?:the )?'?(?i:physical|virtual)'? memory limit"
)
_YARNS_VIRTUAL = late(r"\b(?:exceeding|beyond)(?: the)? '?(?i:virtual)\b")
_YARNS_EXECUTOR = late(r"\bLost (executor \d{1,9}) on |\((executor \d{1,9}) exited\b")
_NOTEBOOK = late(r"crashed after using all available RAM|tried to allocate more memory than is available")
_STATED = late(
    r"^\s{0,40}\"Memory\": [1-9]\d{6}"  # docker's, in bytes
    r"|^\s{0,40}\"?[Ll]imits\"?:\s{0,4}\{?\s{0,4}$|(?<!Worker )\b[Mm]emory [Ll]imit:"  # a Dask worker's is its own
    r"|mem_limit:"
)
_OPTION = late(
    r"(?:\b(?:docker|podman) run\b[^\n]{0,400}\s(?:--memory[= ]|-m ?)|#SBATCH[^\n]{0,100}--mem[= ]|\bs(?:run|batch)\b"
    r"[^\n]{0,200}--mem[= ])(\d{1,12}(?:\.\d{1,3})?[KMGTkmgt]?[Bb]?)\b"
)
_EACH_CONTAINER = late(r"(?=\b[Cc]ontainer [\w.-]{1,120} was using )")
# Snakemake's record of a job: what it asks of the scheduler, in decimal megabytes ("mem_mib" stands beside it)
_SNAKEMAKE = late(r"^\W{0,8}resources: (?:.{0,300}, )?mem_mb=(\d{1,9})\b(?!\.\d)")


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    at = place_of(page, page.lines[index])
    if _CACHE.search(text):
        yield Lookalike(at, _TOUCHED)
    elif _NOT_KILLED.search(text) or _is_described(page, index):
        return
    elif _DISK.search(text):
        yield Lookalike(at, mark("the node ran out of disk, inodes or process IDs, not memory"))
    elif _WAITS.search(text):
        yield Lookalike(at, mark("Kubernetes has not scheduled the pod; nothing ran out of memory"))
    else:
        said = ((words, read) for pattern, read in _RECORDS if (words := pattern.search(text)))
        words, reader = next(said, (None, None))
        if words is None or reader is None:
            return
        # what is advised stands behind what happened
        if reader in _LOOSE and echo(text[: words.end()], text) in {ADVICE, COMMENT, SOURCE}:
            return
        if reader is _stated and "imits:" in text and page.once(_describes_ends):
            return
        event = reader(page, index)
        if not isinstance(event, MemoryLimit) or (event.limit_bytes, event.requested_bytes) != (None, None):
            yield event


def _describes_ends(page: Page) -> bool:
    """Whether `kubectl describe` shows ended containers: each limit goes with its end, the other limits do not."""
    return any(TERMINATED.search(line.text[:CHARACTERS]) for line in page.lines)


def _is_described(page: Page, index: int) -> bool:
    """Whether `kubectl describe` prints it below a container's state: another family reads that record."""
    return index > 0 and TERMINATED.search(page.lines[index - 1].text[:CHARACTERS]) is not None


def _slurm(page: Page, index: int) -> Event:
    """What slurmstepd saw at the end of a step: some process of it was killed; the step may have gone on."""
    line = page.lines[index]
    host = _SLURM_TASK.search(line.text)
    figures = _figures(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        kills=_count(figures, "kills"),
        job=_step(figures),
        tasks=figures.get("tasks", (None,))[0],
        reason=_reason(figures),
        host=host[1] if host else None,
        process=Process(node=line.mark.ip, rank=_count(figures, "tasks")),
    )


def _slurm_end(page: Page, index: int) -> Event:
    """Of one task: no step is named, and its process is no longer there."""
    line = page.lines[index]
    task = _SLURM_END.search(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        reason="OUT_OF_MEMORY",
        tasks=task[1] if task else None,
        process=Process(node=line.mark.ip, rank=int(task[1]) if task else None),
    )


def _slurm_poll(page: Page, index: int) -> Event:
    line = page.lines[index]
    figures = _figures(line.text)
    over = figures.get("over", ())
    virtual = _SLURM_POLL.search(line.text)
    in_bytes = "StepId=" in line.text
    used, limit = (_slurm_bytes(value, in_bytes) for value in (over[:1], over[1:]))
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        used_bytes=used,
        limit_bytes=limit,
        job=_step(figures),
        virtual=True if virtual and virtual[1] else None,
    )


def _slurm_bytes(values: tuple[str, ...], in_bytes: bool) -> int | None:
    if not values or not values[0].isdecimal():
        return None
    figure = int(values[0])
    return figure if in_bytes or figure >= _SMALLEST_LIMIT_IN_BYTES else figure * KIB


# Whose record it is, where it is not a pod's
_OWN_WORDS: Final = (("podman", "oomKilled"), ("nomad", "Exit Message: "))


def _kubernetes(page: Page, index: int) -> Event:
    """A container's state, wherever its limit stands in the same record."""
    line = page.lines[index]
    if _ENGINE_EVENT.search(line.text):
        return _engine_event(page, line)
    above, below = _record(page, index)
    own = _figures("\n".join([line.text, *(text for text in below[:8])]))
    beside = _figures("\n".join([*above[-8:], line.text]))
    under, over = _figures("\n".join(below)), _figures("\n".join(above))
    exit_code, pod = _count(own, "exit_code"), _pod(line.text)
    lived = _times(page, index)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time or lived.get("finished"),
        started=lived.get("started"),
        manager=next((name for name, words in _OWN_WORDS if words in line.text), "kubernetes"),
        reason="OOMKilled",
        exit_code=exit_code if exit_code is not None else _count(beside, "exit_code"),
        limit_bytes=_quantity(under.get("limit") or over.get("limit")),
        requested_bytes=_quantity(under.get("requested") or over.get("requested")),
        used_bytes=_quantity(under.get("exact") or under.get("used") or over.get("used")),
        container=pod,
        tool="kubectl get pods" if pod else None,
        host=pod,
    )


_ENGINES: Final = (("containerd", "TaskOOM"), ("containerd", "/tasks/oom"), ("conmon", "conmon "))


def _engine_event(page: Page, line: Line) -> Event:
    """`docker events` and containerd's log tell that a process was killed, seldom of which size."""
    named = re.search(r"\bcontainer oom ([0-9a-f]{6,64})\b(?:.{0,300}[ (,]name=([\w.-]{1,120}))?", line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=next((name for name, words in _ENGINES if words in line.text), "docker"),
        tool="docker events" if named else None,
        strength=2,
        reason="oom",
        container=named[2] if named else None,
        host=named[1][:12] if named else None,
    )


def _condition(page: Page, index: int) -> Event:
    """The node is short of memory: why a pod was turned away, or (in a table of conditions) only how it stands."""
    line = page.lines[index]
    turned_away = "node had condition" in line.text
    return NodePressure(
        at=place_of(page, line),
        time=line.mark.time,
        reason="MemoryPressure",
        strength=2,
        role="root" if turned_away else "context",
    )


def _sagemaker(page: Page, index: int) -> Event:
    line = page.lines[index]
    # The instance is a machine of its own.
    return LimitKill(at=place_of(page, line), time=line.mark.time, manager="sagemaker", strength=2, pool="host_ram")


def _volume(page: Page, index: int) -> Event:
    """Kubernetes evicts a pod whose volume in memory, mostly its /dev/shm, grows over its size."""
    line = page.lines[index]
    said = _VOLUME.search(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="volume",
        pool="shm",
        limit_bytes=_quantity((said[1],)) if said else None,
        reason="Evicted",
    )


def _lambda(page: Page, index: int) -> Event:
    """What a call of a function had and took: counted in MiB."""
    line = page.lines[index]
    said = _LAMBDA.search(line.text)
    limit, peak = (int(said[1]) * MIB, int(said[2]) * MIB) if said else (0, 0)
    at, time = place_of(page, line), line.mark.time
    if peak < limit:
        return MemoryLimit(at=at, time=time, limit_bytes=limit, stated=f"{limit // MIB} MB")
    return LimitKill(at=at, time=time, manager="aws", peak_bytes=peak, limit_bytes=limit)


def _record(page: Page, index: int) -> tuple[list[str], list[str]]:
    """The lines of the same container's record: up to where the next container begins."""
    above = [line.text for line in page.lines[max(0, index - RECORD_ABOVE) : index]]
    below = []
    for line in page.lines[index + 1 : index + 1 + RECORD_BELOW]:
        if _KUBERNETES.search(line.text) and "State" not in line.text:
            break
        below.append(line.text)
    return above, below


def _times(page: Page, index: int) -> dict[str, str]:
    """When the container was started and ended: keys beside the reason's, which stand as far to the right."""
    margin = _margin(page.lines[index])
    above, below = page.lines[max(0, index - STATE_LINES) : index], page.lines[index + 1 : index + 1 + STATE_LINES]
    beside = [
        *takewhile(lambda line: _margin(line) == margin, reversed(above)),
        *takewhile(lambda line: _margin(line) == margin, below),
    ]
    return {match[1]: match[2] for line in beside if (match := _STATE_TIME.match(line.text[:200]))}


def _margin(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _pod(text: str) -> str | None:
    """`kubectl get pods`: name, ready, status, restarts, age."""
    row = re.search(r"([a-z0-9][a-z0-9.\-]{0,252})\s{1,200}\d{1,4}/\d{1,4}\s{1,40}\S{0,10}OOMKilled\b", text)
    return row[1] if row else None


def _pressure(page: Page, index: int) -> Event:
    lines = _folded(page, index)
    line = lines[0]
    said = " ".join(part.text.strip() for part in lines)
    # It lists the containers of the pod: the largest counts.
    figures = max((_figures(part) for part in _containers(said)), key=lambda one: _quantity(one.get("used")) or 0)
    return NodePressure(
        at=place_of(page, line, lines[-1]),
        time=line.mark.time,
        process=Process(pid=_count(figures, "victim_pid"), name=figures.get("victim", (None,))[0]),
        reason="SystemOOM" if "System OOM" in line.text else "Evicted",
        host=about[1] if (about := _ABOUT.search(line.text)) else None,
        container=figures.get("container", (None,))[0],
        used_bytes=_quantity(figures.get("used")),
        available_bytes=_quantity(figures.get("available")),
        threshold_bytes=_quantity(figures.get("threshold")),
        requested_bytes=_quantity(figures.get("requested")),
    )


def _containers(said: str) -> list[str]:
    """The sentence once for each container that it names, with what stands before the first."""
    head, *rest = _EACH_CONTAINER.split(said)
    return [head + one for one in rest] or [said]


def _folded(page: Page, index: int) -> list[Line]:
    """The sentence with the lines that YAML folds it into: they have no key and no time of their own."""
    first, *rest = page.after(index, FOLDED_LINES)
    lines = [first]
    for line in rest:
        ends = _KEY.match(line.text) or _EVICTED.search(line.text) or not line.text.strip()
        if ends or line.mark != first.mark:
            break
        lines.append(line)
    return lines if "was using" in " ".join(line.text for line in lines[1:]) else [first]


def _lsf(page: Page, index: int) -> Event:
    lines = page.after(index, 16)
    job = next((m[1] for line in page.before(index, 30) if (m := _LSF_JOB.search(line.text))), None)
    figures = _figures("\n".join(line.text for line in lines))
    last = next((n for n, line in enumerate(lines) if "Total Requested Memory" in line.text), 0)
    return LimitKill(
        at=place_of(page, lines[0], lines[last]),
        time=lines[0].mark.time,
        manager="lsf",
        job=job,
        reason="TERM_SWAP" if "TERM_SWAP" in lines[0].text else "TERM_MEMLIMIT",
        exit_code=_count(figures, "exit_code"),
        peak_bytes=_size(figures.get("peak"), BINARY),
        requested_bytes=_size(figures.get("requested"), BINARY),
    )


def _pbs(page: Page, index: int) -> Event:
    line = page.lines[index]
    used, limit = _two(_figures(line.text).get("pbs", ()), BINARY)
    virtual = "vmem" in line.text
    return _over(page, line, "pbs", used, limit, virtual=virtual)


def _pbs_comment(page: Page, index: int) -> Event:
    """The limit is the chunk's, where the job had one."""
    line = page.lines[index]
    said, chunks = _PBS_COMMENT.search(line.text), _PBS_CHUNK.findall(line.text)
    virtual = said is not None and "v" in said[1]
    limit = _size(tuple(chunks), BINARY) if len(chunks) == 1 and not virtual else None
    return _over(page, line, "pbs", None, limit, virtual=virtual)


def _mesos(page: Page, index: int) -> Event:
    line = page.lines[index]
    said = _MESOS.search(line.text)
    figures = said.groupdict() if said else {}
    limit, used = (_size((figures[name],) if figures.get(name) else None, BINARY) for name in ("limit", "used"))
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="mesos",
        limit_bytes=limit,
        peak_bytes=used,
        container=figures.get("name"),
    )


def _runc(page: Page, index: int) -> Event:
    """A process of the container's group was killed while runc waited for its own."""
    line = page.lines[index]
    return LimitKill(at=place_of(page, line), time=line.mark.time, manager="runc", strength=2)


def _torque(page: Page, index: int) -> Event:
    """The mail does not say which limit it was; the account below it does."""
    lines = page.after(index, TORQUE_LINES)
    last = max((n for n, line in enumerate(lines) if _ACCOUNT.search(line.text)), default=0)
    figures = _figures("\n".join(line.text for line in lines[: last + 1]))
    virtual, resident, limit = (
        _size(figures.get(name), BINARY) for name in ("pbs_virtual", "pbs_resident", "pbs_asked")
    )
    over = limit is not None and virtual is not None and virtual > limit >= (resident or 0)
    above = [line.text for line in page.before(index, TORQUE_LINES)]
    job = next((match[1] for text in above if (match := _TORQUE_JOB.search(text))), None)
    return LimitKill(
        at=place_of(page, lines[0], lines[last]),
        time=lines[0].mark.time,
        manager="pbs",
        used_bytes=virtual if over else resident,
        resident_bytes=resident if over else None,
        limit_bytes=limit,
        virtual=over or None,
        job=job,
        host=next((match[1] for text in above if (match := _TORQUE_HOST.search(text))), None),
    )


def _moab(page: Page, index: int) -> Event:
    line = page.lines[index]
    job, what, used, limit = _MOAB.search(line.text).groups()  # type: ignore[union-attr]
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="pbs",
        job=job,
        used_bytes=int(used) * MIB,
        limit_bytes=int(limit) * MIB,
        virtual=what == "VMEM" or None,
    )


def _dismissed(page: Page, index: int) -> Event:
    """It ended a job for its memory, of which it may say how much, and not what was allowed."""
    line = page.lines[index]
    who, used = _DISMISSED.search(line.text[:CHARACTERS]).groups("")  # type: ignore[union-attr]
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=who.lower() if who.lower() in _KNOWN else ANY_MANAGER,
        used_bytes=_size((used,), DECIMAL),
    )


def _held(page: Page, index: int) -> Event:
    """It ended a job, or holds it, and says what the job used; what was allowed stands in its own settings."""
    line = page.lines[index]
    found = _HELD.search(line.text)
    who, used = ((found["who"] or "").lower(), found["used"]) if found else ("", "")
    condor = _OF_CONDOR.search(line.text) is not None
    kibibytes = int(used) * KIB if condor and _BARE.match(used) else None
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="htcondor" if condor else who if who in _KNOWN else ANY_MANAGER,
        used_bytes=kibibytes if _BARE.match(used) else _size((used,), DECIMAL),
    )


def _guarded(page: Page, index: int) -> Event:
    """A watchdog beside the job prints what it allows, and what the job has."""
    line = page.lines[index]
    what, limit = _GUARDED.search(line.text[:CHARACTERS]).groups()  # type: ignore[union-attr]
    near = (_HAS.search(one.text) for one in page.after(index, GUARD_LINES))
    used = tuple(match[1] for match in near if match)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=ANY_MANAGER,
        limit_bytes=_size((limit,), DECIMAL),
        used_bytes=_size(used, DECIMAL),
        virtual=what.lower() == "vsize" or None,
    )


def _sge(page: Page, index: int) -> Event:
    line = page.lines[index]
    used, limit = _two(tuple(re.split(r" > limit:", _figures(line.text).get("sge", ("",))[0])), BINARY)
    return _over(page, line, "sge", used, limit, virtual="vmem" in line.text)


def _sge_mail(page: Page, index: int) -> Event:
    line = page.lines[index]
    most = next((found for one in page.before(index, _SGE_LINES) if (found := _SGE_MOST.search(one.text))), None)
    used = _size((most[1],), BINARY) if most else None
    return _over(page, line, "sge", used, None, virtual="vmem" in line.text)


def _condor(page: Page, index: int) -> Event:
    line = page.lines[index]
    figures = _figures(" ".join(one.text for one in page.after(index, 2)[:2]))
    gone_over, peak = figures.get("gone_over", ()), figures.get("peak", ())
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="htcondor",
        limit_bytes=_megabytes(gone_over),
        peak_bytes=_megabytes(peak),
    )


def _yarn(page: Page, index: int) -> Event:
    """Hadoop prints both figures whichever was over, Spark the one that was."""
    line = page.lines[index]
    figures = _figures(line.text)
    resident, allowed = _two(tuple(figures.get("physical", ("",))[0].split(" of ")), BINARY)
    virtual = _YARNS_VIRTUAL.search(line.text) is not None or (resident is None and "virtual" in figures)
    reserved, most = _two(tuple(figures.get("virtual", ("",))[0].split(" of ")), BINARY)
    used, limit = (reserved, most) if virtual else (resident, allowed)
    of_spark = _YARNS_EXECUTOR.search(line.text)
    return replace(
        _over(page, line, "yarn", used, limit, virtual=virtual),
        process=Process(name=of_spark[1] or of_spark[2]) if of_spark else Process(),
        resident_bytes=resident if virtual else None,
    )


def _notebook(page: Page, index: int) -> Event:
    line = page.lines[index]
    # What such a service gives is a machine of its own.
    return LimitKill(at=place_of(page, line), time=line.mark.time, manager="notebook", strength=2, pool="host_ram")


def _over(page: Page, line: Line, manager: str, used: int | None, limit: int | None, *, virtual: bool) -> LimitKill:
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager=manager,
        used_bytes=used,
        limit_bytes=limit,
        virtual=virtual or None,
    )


def _stated(page: Page, index: int) -> Event:
    """A limit that the log states: in a pod's record it may stand on the line below."""
    line = page.lines[index]
    lines = page.lines[index : index + LIMIT_LINES]
    option = _OPTION.search(line.text)
    figures = _figures("\n".join(one.text for one in lines))
    # docker and Slurm mean GiB by "G"
    limit = _size((option[1],), BINARY) if option else _quantity(figures.get("limit"))
    stated = option[1] if option else figures.get("limit", (None,))[0]
    return MemoryLimit(at=place_of(page, line), time=line.mark.time, limit_bytes=limit, stated=stated)


def _asked(page: Page, index: int) -> Event:
    line = page.lines[index]
    asked = _SNAKEMAKE.search(line.text)
    megabytes = asked[1] if asked else None
    return MemoryLimit(
        at=place_of(page, line),
        time=line.mark.time,
        requested_bytes=size(megabytes, "MB", DECIMAL) if megabytes else None,
        stated=f"mem_mb={megabytes}",
    )


def _cgroup(page: Page, index: int) -> Event:
    line = page.lines[index]
    return _over(page, line, "pbs", None, None, virtual=False)


def _cloud(page: Page, index: int) -> Event:
    """AWS Batch and ECS, Vertex AI."""
    line = page.lines[index]
    manager = "aws" if "Container killed" in line.text else "vertex"
    code = re.search(r"status of (\d{1,3})\b", line.text)
    return LimitKill(
        at=place_of(page, line), time=line.mark.time, manager=manager, exit_code=int(code[1]) if code else None
    )


_RECORDS: Final[tuple[tuple[re.Pattern[str], Callable[[Page, int], Event]], ...]] = (
    (_SLURM_KILL, _slurm),
    (_SLURM_TASK, _slurm),
    (_SLURM_END, _slurm_end),
    (_SLURM_POLL, _slurm_poll),
    (_SLURM_NOTICE, _slurm),
    (_CGROUP, _cgroup),
    (_CLOUD, _cloud),
    (_EVICTED, _pressure),
    (_CONDITION, _condition),
    (_VOLUME, _volume),
    (_LAMBDA, _lambda),
    (_SAGEMAKER, _sagemaker),
    (_RUNC, _runc),
    (_MESOS, _mesos),
    (_KUBERNETES, _kubernetes),
    (_LSF, _lsf),
    (_PBS, _pbs),
    (_PBS_COMMENT, _pbs_comment),
    (_TORQUE, _torque),
    (_MOAB, _moab),
    (_DISMISSED, _dismissed),
    (_HELD, _held),
    (_GUARDED, _guarded),
    (_SGE, _sge),
    (_SGE_MAIL, _sge_mail),
    (_CONDOR, _condor),
    (_YARN, _yarn),
    (_NOTEBOOK, _notebook),
    (_STATED, _stated),
    (_OPTION, _stated),
    (_SNAKEMAKE, _asked),
)

_LOOSE: Final = (
    _kubernetes,
    _notebook,
    _stated,
    _condition,
    _dismissed,
    _held,
    _guarded,
)  # known by a few words, which advice and code hold too


def _figures(text: str) -> dict[str, tuple[str, ...]]:
    figures: dict[str, tuple[str, ...]] = {}
    for name, values in grammars.said("container", text[:CHARACTERS]):
        if values:
            figures.setdefault(name, values)
    return figures


def _count(figures: Mapping[str, tuple[str, ...]], name: str) -> int | None:
    values = figures.get(name, ())
    return int(values[0]) if values and values[0].lstrip("-").isdecimal() else None


def _step(figures: Mapping[str, tuple[str, ...]]) -> str | None:
    return figures["step"][0] if "step" in figures else None


def _reason(figures: Mapping[str, tuple[str, ...]]) -> str | None:
    return figures["reason"][0] if "reason" in figures else None


_QUANTITY = late(r"(-?\d{1,20}(?:\.\d{1,12})?)(?![.,]?\d)\s?([A-Za-z]*)")


def _size(values: tuple[str, ...] | None, table: Mapping[str, int]) -> int | None:
    match = _QUANTITY.match(values[0]) if values else None
    return size(match[1], match[2], table) if match else None


def _quantity(values: tuple[str, ...] | None) -> int | None:
    """Kubernetes' Ki, Mi and Gi are binary, its K, M and G decimal; docker's and Slurm's small k, m and g binary."""
    return _size(values, DECIMAL)


def _two(values: tuple[str, ...], table: Mapping[str, int]) -> tuple[int | None, int | None]:
    return _size(values[:1], table), _size(values[1:], table)


def _megabytes(values: tuple[str, ...]) -> int | None:
    """HTCondor counts in MiB."""
    number = re.match(r"\d{1,12}(?![.,]?\d)", values[0]) if values else None
    return int(number[0]) * MIB if number else None


FAMILY = Family(
    name="container",
    anchors=(
        "TERM_MEMLIMIT",
        "TERM_SWAP",
        "oom-kill",
        "oomKilled",
        "out-of-memory event",
        "memsw limit exceeded",
        "EmptyDir volume ",
        "Out Of Memory",
        "OOM",
        "/tasks/oom",
        "Memory limit exceeded:",
        "exceeded resource mem",
        "memory resource pressure",
        "memory limit",
        "memory resource limit",
        "low on resource: memory",
        "due to memory usage",
        " usage hard limit (",
        "excessive memory",
        "ceeded maxPSS",
        "ceeded maxRSS",
        "ceeded maximum memory",
    ),
    triggers=(
        "oom-kill event",
        "oom_kill event",
        "step tasks have been OOM Killed",
        "Out Of Memory",
        "memory limit",
        "Memory Limit",
        "Memory limit",
        "OOMKill",
        "TaskOOM",
        "/tasks/oom",
        '"oom"',
        "OOM detected for",
        "OOM-killed)",
        " exceeded resource ",
        " pressure",
        "container oom",
        "low on resource",
        "must evict pod(s)",
        "MemoryPressure",
        "instance type with more memory",
        "System OOM encountered",
        "nodes are available",
        "TERM_MEMLIMIT",
        "TERM_SWAP",
        "OOM event received",
        "OOM received",
        "was OOM",
        'OOM Killed"',
        "oomKilled",
        "memory+swap limit",
        "memsw limit exceeded",
        "out-of-memory event",
        "exceeded request_memory",
        "EmptyDir volume",
        "Max Memory Used: ",
        '("OOM") event',
        "system is out of memory",
        "PBS: job killed",
        "a memory resource limit",
        "exceeds job",
        "failed execd enforced",
        "all available RAM",
        "mem limit exceeded",
        "due to memory us",
        "because of memory us",
        "for memory us",
        "due to its memory us",
        "because of its memory us",
        "ran out-of-memory and exited",
        "Replicas low on memory",
        "more memory than is available",
        '"Memory": ',
        "imits:",
        'imits":',
        "mem_limit",
        " run ",
        "--mem",
        "insufficient unused quota",
        "insufficient quota",
        "mem_mb=",
        " usage hard limit (",
        " usage soft limit (",
        "excessive",
        "excess memory",
        "high memory",
        "too much memory",
        "ceeded max",
        "ceeding max",
    ),
    read=read,
)
