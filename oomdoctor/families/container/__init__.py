"""What schedulers and container engines say of a memory limit: one file here is one manager's.

Slurm, Kubernetes, docker, LSF, PBS and others are asked in the order of `MANAGERS`. A manager's file is loaded for the
first line that holds one of its literals.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final

from oomdoctor.families import Family
from oomdoctor.families.echoes import ADVICE, COMMENT, SOURCE, echo
from oomdoctor.families.event import Event, Read, Role, Threshold, Usage
from oomdoctor.patterns import late
from oomdoctor.streams import Page

CHARACTERS: Final = 4000


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
    rule: str | None = None  # Snakemake's, whose job asks for it


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


ANY_MANAGER: Final = "batch"
_NOT_KILLED = late(r"OOMKilled\"?\s{0,4}[:=]\s{0,4}\"?[Ff]alse")
TERMINATED = late(r"^\s{0,12}(?:Last State|State):\s{1,20}Terminated\s{0,4}$")


# Each file with the literals of which the lines that it reads hold one
MANAGERS: Final = {
    "slurm": (
        "oom-kill event",
        "oom_kill event",
        "out-of-memory event",
        "step tasks have been OOM Killed",
        "Out Of Memory",
        "memory limit",
        "memory+swap limit",
    ),
    "engines": (
        "OOM-killed)",
        "TaskOOM",
        "container oom",
        "/tasks/oom",
        '"oom"',
        "OOM event received",
        "OOM received",
        " OOM event",
    ),
    "mesos": ("Memory limit", "OOM detected for"),
    "clouds": (
        "due to memory us",
        '("OOM") event',
        "ran out-of-memory and exited",
        "Replicas low on memory",
        "Max Memory Used: ",
        "instance type with more memory",
        "all available RAM",
        "more memory than is available",
    ),
    "kubernetes": (
        "OOMKill",
        "oomKilled",
        'OOM Killed"',
        "OOM detected in ",
        'OOM detected" oomInfo=',
        "was OOM",
        "System OOM encountered",
        "system is out of memory",
        "must evict pod(s)",
        "low on resource",
        " pressure",
        "MemoryPressure",
        "EmptyDir volume",
        "nodes are available",
        "insufficient unused quota",
        "insufficient quota",
    ),
    "lsf": ("TERM_MEMLIMIT", "TERM_SWAP"),
    "pbs": (
        "memory limit",
        "mem limit exceeded",
        "memsw limit exceeded",
        "PBS: job killed",
        " exceeded resource ",
        "a memory resource limit",
        " usage hard limit (",
        " usage soft limit (",
    ),
    "watchdogs": (
        "due to memory us",
        "because of memory us",
        "for memory us",
        "due to its memory us",
        "because of its memory us",
        "excessive",
        "excess memory",
        "high memory",
        "too much memory",
        "ceeded max",
        "ceeding max",
    ),
    "grid_engine": ("exceeds job", "failed execd enforced"),
    "htcondor": ("memory limit", "out-of-memory event", "exceeded request_memory", "was OOM"),
    "yarn": ("memory limit",),
    "settings": (
        "memory limit",
        "Memory limit",
        "Memory Limit",
        "mem_limit",
        "imits:",
        'imits":',
        '"Memory": ',
        " run ",
        "--mem",
        "mem_mb=",
    ),
}


def read(page: Page, index: int) -> Iterator[Read]:
    text = page.lines[index].text[:CHARACTERS]
    if _NOT_KILLED.search(text) or _is_described(page, index):
        return
    for manager, words in MANAGERS.items():
        if not any(word in text for word in words):
            continue
        for record in importlib.import_module(f"{__name__}.{manager}").RECORDS:
            if said := record.pattern.search(text):
                # what is advised stands behind what happened
                if record.loose and echo(text[: said.end()], text) in {ADVICE, COMMENT, SOURCE}:
                    return
                if (found := record.read(page, index)) is not None:
                    yield found
                return


def _is_described(page: Page, index: int) -> bool:
    """Whether `kubectl describe` prints it below a container's state: another family reads that record."""
    return index > 0 and TERMINATED.search(page.lines[index - 1].text[:CHARACTERS]) is not None


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
    triggers=tuple(dict.fromkeys(word for words in MANAGERS.values() for word in words)),
    read=read,
)
