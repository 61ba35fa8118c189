"""The kernel's out-of-memory killer, and those that kill for memory from user space: systemd-oomd, earlyoom.

For the causes: `KernelKill.process` is the victim, and the victim need not be the culprit; `invoker` only asked for
the page that was not there. `tasks` names the biggest tasks of the cgroup (where `constraint` says MEMCG) or of the
whole machine, biggest first, in bytes: group them by name to tell one hog from many workers.
"""

from __future__ import annotations

from dataclasses import dataclass

from oomdoctor.families.event import Event, threshold, usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One row of the dump's table. The kernel counts pages; these are bytes."""

    pid: int
    name: str  # cut after 15 characters
    rss_bytes: int  # anonymous memory where the kernel tells it apart, else everything resident
    swap_bytes: int
    oom_score_adj: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelKill(Event):
    """One act of the kernel's OOM killer, from the dump, the kill line or the reaper's line alone."""

    family = "kernel"
    kind = "oom-kill"

    pool: str = "host_ram"  # "cgroup" where a limit below the machine's was hit
    strength: int = 3

    total_vm_bytes: int | None = usage()  # address space, never memory in use
    anon_rss_bytes: int | None = usage()
    file_rss_bytes: int | None = usage()
    shmem_rss_bytes: int | None = usage()
    pgtables_bytes: int | None = usage()
    used_bytes: int | None = usage()  # of the cgroup
    free_swap_bytes: int | None = usage()
    total_swap_bytes: int | None = usage()
    limit_bytes: int | None = threshold()  # of the cgroup
    constraint: str | None = None  # "CONSTRAINT_MEMCG", "CONSTRAINT_NONE", ...
    global_oom: bool | None = None
    cgroup: str | None = None  # whose limit was hit
    task_cgroup: str | None = None
    oom_score_adj: int | None = None
    uid: int | None = None
    invoker: str | None = None
    invoker_pid: int | None = None
    tasks: tuple[Task, ...] = ()
    tasks_listed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UserspaceKill(Event):
    """systemd-oomd or earlyoom killed for memory, or systemd says that the kernel did."""

    family = "kernel"
    kind = "userspace-kill"

    pool: str = "host_ram"
    strength: int = 3

    killer: str  # "systemd-oomd", "earlyoom", "systemd"
    rss_bytes: int | None = usage()
    pressure_fraction: float | None = usage()
    used_bytes: int | None = usage()
    total_bytes: int | None = usage()
    swap_used_bytes: int | None = usage()
    swap_total_bytes: int | None = usage()
    available_fraction: float | None = usage()
    limit_fraction: float | None = threshold()
    signal: int | None = None
    unit: str | None = None  # the unit or cgroup
