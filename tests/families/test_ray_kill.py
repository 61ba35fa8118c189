from __future__ import annotations

import pytest

from oomdoctor import families, streams
from oomdoctor.families.ray_kill import NodeOutOfMemory

KILL = (
    "Memory on the node (IP: 10.0.0.2, ID: a1) where the task (task ID: 5b, name=rollout, pid=7712, memory used=9.30GB)"
    " was running was 239.20GB / 251.48GB (0.951169), which exceeds the memory usage threshold of 0.95.\n"
)
STAMPED = "[2026-03-01 10:41:07,120 I 311 311] (raylet) node_manager.cc:2907: Killing worker with task rollout\n"


def time_of(log: str) -> str | None:
    page = streams.page("raylet.out", 1, log.encode())
    (kill,) = (found for _, found in families.found_in(page) if isinstance(found, NodeOutOfMemory))
    return kill.time


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_a_kill_has_the_time_of_the_line_that_it_continues(between: str) -> None:
    assert time_of(STAMPED + between + KILL) == "2026-03-01 10:41:07,120"


@pytest.mark.parametrize(
    "before",
    [
        "",
        "2026-03-01 10:41:07,120 INFO train.py:12 -- step 4\n",  # another writer's
        STAMPED + "a line of its own\n",
    ],
)
def test_a_kill_has_no_time_of_lines_that_it_does_not_continue(before: str) -> None:
    assert time_of(before + KILL) is None
