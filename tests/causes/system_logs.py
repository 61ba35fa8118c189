"""Crashes from written logs, put together as the street does it."""

from __future__ import annotations

from oomdoctor import families, streams
from oomdoctor.incident.assemble import Gathered, crashes
from oomdoctor.incident.model import Crash
from oomdoctor.job.context import ContextBuilder


def crashes_of(log: str) -> tuple[Crash, ...]:
    page = streams.page("job.log", 1, log.encode())
    gathered, context = Gathered(), ContextBuilder()
    context.add(page)
    for item in families.read(page):
        gathered.add(item)
    return crashes(gathered, context.build())


def crash_of(log: str) -> Crash:
    """The first crash of the log."""
    found = crashes_of(log)
    assert found, "the log holds a crash"
    return found[0]


def quiet(log: str) -> bool:
    """Whether the log holds no crash at all."""
    return not crashes_of(log)
