"""Slots about host memory that grows while the job runs."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.machine_memory import MachineMemory
from oomdoctor.incident.model import Crash
from oomdoctor.job import names
from oomdoctor.job.model import Setting, Trajectory
from oomdoctor.job.roles import short_name
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import brief
from oomdoctor.report.headline.host import node
from oomdoctor.report.headline.names import with_pid
from oomdoctor.report.headline.slot import about
from oomdoctor.signs import growing_caches, host_growth, pieces
from oomdoctor.units import percent

_OF_PROCESS: Final = late(r"PID (\d{1,12})(?: \((.{1,400})\))?")


def _figure(crash: Crash) -> Trajectory | None:
    """The figure of host memory that grew, as the sign of it takes it."""
    return crash.trajectory if host_growth.host_memory_grew(crash) is not None else None


def leaking(crash: Crash) -> str | None:
    """The process that grows steadily from step to step, by its name and PID."""
    figure = _figure(crash)
    if figure is None or figure.per == "print" or host_growth.few_prints_show_growth(crash) is not None:
        return None
    return _process(figure)


def growing(crash: Crash) -> str | None:
    """What grows: the memory of the node, a process's, or the figure as the log calls it."""
    figure = _figure(crash)
    if figure is None or figure.of_rest:
        return None
    one = _process(figure)
    if one is not None:
        return say("RAM of {process}", process=one)
    if figure.what.startswith(names.ON_THE_NODE):
        return say("Memory of {node}", node=node(crash))
    return say("Host memory ({figure})", figure=names.figure(figure.what))


@about(_figure)
def growth(figure: Trajectory) -> str | None:
    """How much it grows: "256 MiB per step"."""
    if not figure.growth_bytes:
        return None
    rate = brief(figure.growth_bytes)
    if figure.per == "second":
        return say("{rate} per second", rate=rate)
    return say("{rate} per step", rate=rate) if figure.per == "step" else say("{rate} per print", rate=rate)


@about(_figure)
def growth_course(figure: Trajectory) -> str | None:
    """From what to what it went: "30.5 GiB to 123 GiB"."""
    return say("{first} to {last}", first=brief(figure.points[0].bytes), last=brief(figure.points[-1].bytes))


@about(host_growth.prints_that_fill)
def machine_filled(prints: list[MachineMemory]) -> str | None:
    """How full the machine was at first and at last, where the prints of a tool show that it filled."""
    return say("{first} to {last}", first=percent(prints[0].share), last=percent(prints[-1].share)) if prints else None


@about(host_growth.the_jump)
def machine_jump(jump: host_growth.Jump) -> str | None:
    """How much of what is in use came at once: "51 of 63 GiB"."""
    return say("{rise} of {used} in use", rise=brief(jump.rise_bytes), used=brief(jump.last.in_use_bytes or 0))


@about(growing_caches.unbounded_cache)
def unbounded_cache(cache: growing_caches.Cache) -> str | None:
    """What the job's own prints call the cache that only grows."""
    return cache.what


@about(growing_caches.unbounded_cache)
def cache_course(cache: growing_caches.Cache) -> str | None:
    """From what to what it grew: its size, else its entries."""
    if cache.first_bytes is not None and cache.last_bytes is not None:
        return say("{first} to {last}", first=brief(cache.first_bytes), last=brief(cache.last_bytes))
    return say("{first:,} to {last:,} entries", first=cache.first, last=cache.last)


@about(growing_caches.bound_of_a_cache)
def no_bound(bound: Setting) -> str | None:
    """The setting that gives it none, and its value."""
    return f"{bound.flag} {bound.value}"


@about(pieces.work_of)
def pieces_of_work(work: pieces.Work) -> str | None:
    """How much of the work was done that the memory grew with."""
    if work.total is None:
        return say("{count:,} {what}", what=work.what, count=work.count)
    return say("{count:,} of {total:,} {what}", what=work.what, count=work.count, total=work.total)


def _process(figure: Trajectory) -> str | None:
    one = _OF_PROCESS.fullmatch(figure.what)
    if one is None:
        return None
    return with_pid(short_name(one[2]), one[1]) if one[2] else say("Process {pid}", pid=one[1])
