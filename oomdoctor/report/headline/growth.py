"""Slots about host memory that grows while the job runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from oomdoctor.incident.model import Crash
from oomdoctor.job import names
from oomdoctor.job.model import Trajectory
from oomdoctor.job.roles import short_name
from oomdoctor.language import say
from oomdoctor.patterns import late
from oomdoctor.report.headline.figures import brief
from oomdoctor.signs import host_growth
from oomdoctor.units import percent

_OF_PROCESS: Final = late(r"PID (\d{1,12})(?: \((.{1,400})\))?")


def leaking(crash: Crash) -> str | None:
    """The process that grows steadily from step to step, by its name and PID."""
    figure = _grown(crash)
    if figure is None or figure.per != "step" or host_growth.few_prints_show_growth(crash) is not None:
        return None
    return _process(figure)


def growing(crash: Crash) -> str | None:
    """The process that grows, or the figure as the log calls it: "rss"."""
    figure = _grown(crash)
    return None if figure is None or figure.of_rest else _process(figure) or names.figure(figure.what)


def growth(crash: Crash) -> str | None:
    """How much it grows each time: "256 MiB"."""
    figure = _grown(crash)
    return brief(figure.growth_bytes) if figure is not None and figure.growth_bytes else None


def growth_course(crash: Crash) -> str | None:
    """From what to what it went: "30.5 GiB to 123 GiB"."""
    figure = _grown(crash)
    if figure is None:
        return None
    return say("{first} to {last}", first=brief(figure.points[0].bytes), last=brief(figure.points[-1].bytes))


def machine_filled(crash: Crash) -> str | None:
    """How full the machine was at first and at last, where the prints of a tool show that it filled."""
    prints = host_growth.prints_that_fill(crash)
    if not prints:
        return None
    return say("{first} to {last}", first=percent(prints[0].share), last=percent(prints[-1].share))


def _process(figure: Trajectory) -> str | None:
    one = _OF_PROCESS.fullmatch(figure.what)
    if one is None:
        return None
    return (
        say("{name} (PID {pid})", name=short_name(one[2]), pid=one[1]) if one[2] else say("Process {pid}", pid=one[1])
    )


def _grown(crash: Crash) -> Trajectory | None:
    """The figure of host memory that grew, as the sign of it takes it."""
    return crash.trajectory if host_growth.host_memory_grew(crash) is not None else None


SLOTS: Final[Mapping[str, Callable[[Crash], str | None]]] = {
    slot.__name__: slot for slot in (leaking, growing, growth, growth_course, machine_filled)
}
