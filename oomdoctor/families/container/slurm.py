"""Slurm's daemons: what slurmstepd saw at the end of a step, what polling found, and what slurmd tells srun."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record, count, figures_of
from oomdoctor.families.event import Event, Lookalike, Process, Read
from oomdoctor.families.lines import place_of
from oomdoctor.language import mark
from oomdoctor.patterns import late
from oomdoctor.streams import Page
from oomdoctor.units import GIB, KIB

# Slurm printed KiB before 17.11 and bytes since, both without a unit: nothing below 2 GiB is a job's limit in bytes.
_SMALLEST_LIMIT_IN_BYTES: Final = 2 * GIB
# slurmstepd's two sentences; a terminal may break the line between them
_KILL = late(
    r"Detected [1-9]\d{0,8} (?:oom[-_]kill|out-of-memory) events?(?:\(s\))? in |\boom[-_]kill event count: [1-9]"
    r"|^\s{0,8}Some of the step tasks have been OOM Killed\b"
)
_TASK = late(r"srun: error: (\S{1,200}): tasks? [\d,\-\[\]]{1,80}: Out Of Memory")
# What slurmstepd logs of each task's end (mgr.c, _log_task_exit, 17.11 on)
_END = late(r"\btasks? (\d{1,9}) \(\d{1,9}\) Out Of Memory \(OOM\)")
_POLL = late(r"exceeded (virtual )?memory limit \(\d")
# slurmd tells srun so and kills the job (slurmd/req.c, _enforce_job_mem_limit); "at some point" tells of no kill
_NOTICE = late(r"(?:^|\bsrun: |\bslurm(?:step)?d\S{0,80}: )(?:error: )?Exceeded job memory limit\s{0,4}[.!]?\s{0,4}$")
# Slurm prints it where the cgroup's failcnt is not 0: task_cgroup_memory.c, task_cgroup_memory_check_oom, up to 17.02
TOUCHED = mark(
    "the limit was reached at some point, which page cache alone may do; whether anything was killed, it does not say"
)
_LIMIT_REACHED = late(r"Exceeded (?:job|step) memory limit at some point|hit memory(?:\+swap)? limit at least once")


def _touched(page: Page, index: int) -> Read:
    return Lookalike(place_of(page, page.lines[index]), TOUCHED)


def _kill(page: Page, index: int) -> Event:
    """What slurmstepd saw at the end of a step: some process of it was killed; the step may have gone on."""
    line = page.lines[index]
    host = _TASK.search(line.text)
    figures = figures_of(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        kills=count(figures, "kills"),
        job=figures.get("step", (None,))[0],
        tasks=figures.get("tasks", (None,))[0],
        reason=figures.get("reason", (None,))[0],
        host=host[1] if host else None,
        process=Process(node=line.mark.ip, rank=count(figures, "tasks")),
    )


def _end_of_a_task(page: Page, index: int) -> Event:
    """Of one task: no step is named, and its process is no longer there."""
    line = page.lines[index]
    task = _END.search(line.text)
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        reason="OUT_OF_MEMORY",
        tasks=task[1] if task else None,
        process=Process(node=line.mark.ip, rank=int(task[1]) if task else None),
    )


def _polled(page: Page, index: int) -> Event:
    line = page.lines[index]
    figures = figures_of(line.text)
    over = figures.get("over", ())
    virtual = _POLL.search(line.text)
    in_bytes = "StepId=" in line.text
    used, limit = (_bytes(value, in_bytes) for value in (over[:1], over[1:]))
    return LimitKill(
        at=place_of(page, line),
        time=line.mark.time,
        manager="slurm",
        used_bytes=used,
        limit_bytes=limit,
        job=figures.get("step", (None,))[0],
        virtual=True if virtual and virtual[1] else None,
    )


def _bytes(values: tuple[str, ...], in_bytes: bool) -> int | None:
    if not values or not values[0].isdecimal():
        return None
    figure = int(values[0])
    return figure if in_bytes or figure >= _SMALLEST_LIMIT_IN_BYTES else figure * KIB


RECORDS: Final = (
    Record(_LIMIT_REACHED, _touched),
    Record(_KILL, _kill),
    Record(_TASK, _kill),
    Record(_END, _end_of_a_task),
    Record(_POLL, _polled),
    Record(_NOTICE, _kill),
)
