"""Lines made to be slow to read, and messages cut anywhere: Ray's families answer in time and never raise."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from oomdoctor import families, streams
from oomdoctor.families.event import Event

FIXTURES = Path(__file__).parent.parent / "fixtures"
SIZE = 300_000

HOSTILE = {
    "blanks in a table": "Memory on the node (IP: 1.2.3.4) Top 10 memory users: PID\tMEM(GB)\tCOMMAND" + " " * SIZE,
    "rows without an end": "Memory on the node (" + "1\t1.00\t" * (SIZE // 7),
    "written-out line ends": 'message":"Task was killed due to the node running low on memory.' + "\\n" * (SIZE // 2),
    "workers without an end": "worker(s) were killed due to the node running low on memory. " + "(Task: " * (SIZE // 7),
    "names without an end": "where the task (name=" + "name=" * (SIZE // 5) + " running low on memory",
    "braces": "resource request cannot be scheduled right now: " + "{" * SIZE,
    "bundles": "No available node types can fulfill resource requests " + "{'GPU': 1.0}*1, " * (SIZE // 16),
    "calls": "Local disk is full " + "ray::a " * (SIZE // 7),
    "errors": "Error " * (SIZE // 6) + "No CUDA GPUs are available",
    "deaths": "The actor died unexpectedly before finishing this task. class_name: " + "x" * SIZE,
    "store": "Plasma store at capacity " + "- objects spillable: " * (SIZE // 21),
}


def read(text: str) -> list[object]:
    return list(families.read(streams.page("job.log", 1, text.encode())))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_is_read_in_time(name: str) -> None:
    read("Plasma store at capacity")  # grammars are built on first use
    start = time.process_time()
    read(HOSTILE[name])
    assert time.process_time() - start < 5


@pytest.mark.parametrize("family", ["ray_kill", "ray_death", "ray_store", "ray_schedule", "gpu_visibility"])
def test_a_message_cut_anywhere_says_no_more_than_the_whole(family: str) -> None:
    for log in sorted((FIXTURES / family).glob("g*.log"))[:6] or sorted((FIXTURES / family).glob("*.log"))[:4]:
        text = log.read_text(encoding="utf-8", errors="replace")
        whole = {number for event in read(text) if isinstance(event, Event) for number in sizes(event)}
        for end in range(0, len(text), max(1, len(text) // 25)):
            cut = {number for event in read(text[:end]) if isinstance(event, Event) for number in sizes(event)}
            # The last figure before the cut may be cut itself.
            assert len(cut - whole) <= 3, (log.name, end, cut - whole)


def sizes(event: Event) -> list[int]:
    return [
        value for part in ("usage", "threshold") for value in event.figures(part).values() if isinstance(value, int)
    ]
