"""What a node reads of its own logs: this runs there, and its result travels."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

from msgspec import Struct, field

from oomdoctor.cluster.owners import Owners
from oomdoctor.language import use
from oomdoctor.reading import Reading, parallel
from oomdoctor.sources import Trouble, look


class Part(Struct):
    """What the logs of one folder say, and what its reading met."""

    reading: Reading = field(default_factory=Reading)
    errors: list[Trouble] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    files: int = 0
    seconds: float = 0.0

    @property
    def events(self) -> int:
        return len(self.reading.gathered.events)


class Task(Struct, frozen=True):
    """What a node is asked to read, and how its logs are called in the report."""

    logs: str
    label: str  # of the node, or of the machine where several nodes share the folder
    labels: dict[str, str]  # of the nodes that share it, by their ids; empty where it is one node's own
    language: str


def read(task: Task) -> Part:
    """Read the folder; every log's name begins with the node that wrote it."""
    begun = time.monotonic()
    use(task.language)
    found = look([task.logs])
    owners = Owners(Path(task.logs), task.labels, task.label) if task.labels else None
    for source in found.sources:
        label = owners.of(source.name) if owners is not None else task.label
        source.name = f"{label}/{source.name}"
    reading = parallel.read(found.sources)
    met = [Trouble(f"{task.label}/{trouble.file}", trouble.why) for trouble in found.troubles]
    return Part(
        reading=reading,
        errors=[*met, *(trouble for source in found.sources for trouble in source.troubles)],
        notes=[note for source in found.sources for note in source.notes],
        left_out=found.left_out or Counter(),
        bytes=sum(source.size for source in found.sources),
        files=sum(source.size > 0 for source in found.sources),
        seconds=time.monotonic() - begun,
    )
