"""The engines that run containers: docker, containerd, conmon and runc."""

from __future__ import annotations

import re
from typing import Final

from oomdoctor.families.container import LimitKill
from oomdoctor.families.container.records import Record
from oomdoctor.families.event import Event
from oomdoctor.families.lines import place_of
from oomdoctor.patterns import late
from oomdoctor.streams import Page

# runc says so where the group's own counter of kills has risen (process_linux.go, 1.1 on)
_RUNC = late(
    r"\b(?:exec failed|container process|setns process|container init|runc|OCI runtime)\b"
    r".{0,600}\((?:possibly )?OOM-killed\)"
)
# "/tasks/oom" is containerd's name of the event, as `ctr events` prints it
_EVENT = late(
    r"(?<!for )\bTaskOOM\b|\bcontainer oom\b|(?<![\w./])/tasks/oom\"?,? ?(?:\"\w{1,12}\": ?)?\{"
    # kata's agent, and others: the message begins with it
    r"|(?:^|[\"\]:] ?)(?:got|received|observed) an? OOM event\b(?! (?:handler|listener|channel|stream|count))"
    r"|\bconmon \S{1,64} <n\w{3,5}>: OOM (?:event )?received|\"(?:[Aa]ction|[Ss]tatus)\": ?\"oom\""
)
_ENGINES: Final = (
    ("kata", "kata-agent"),
    ("containerd", "TaskOOM"),
    ("containerd", "/tasks/oom"),
    ("conmon", "conmon "),
)


def _runc(page: Page, index: int) -> Event:
    """A process of the container's group was killed while runc waited for its own."""
    line = page.lines[index]
    return LimitKill(at=place_of(page, line), time=line.mark.time, manager="runc", strength=2)


def _event(page: Page, index: int) -> Event:
    """`docker events` and containerd's log tell that a process was killed, seldom of which size."""
    line = page.lines[index]
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


RECORDS: Final = (
    Record(_RUNC, _runc),
    Record(_EVENT, _event, loose=True),
)
