"""What the machine of a node still knows of the failure that its logs tell of: records that look back."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from oomdoctor.evidence.answers import answers
from oomdoctor.evidence.questions import questions
from oomdoctor.families.event import Event
from oomdoctor.language import use
from oomdoctor.reading import Reading, parallel
from oomdoctor.sources import look

FOLDER = "evidence"
_NOBODY = {"JOB": None, "CONTAINER": None, "POD": None}


def failures(reading: Reading) -> list[Event]:
    """Only beside one the records of a machine mean something: it may have killed much in its time."""
    return [event for event in reading.gathered.events.values() if event.role != "context" and event.strength >= 1]


def nodes_named(found: Iterable[Event]) -> frozenset[str]:
    """Where the failures were, by address or by id: the driver's log tells of a death on another node."""
    names = {name for event in found for name in (event.process.node, event.figures("fields").get("node_id"))}
    return frozenset(name for name in names if name)


def of_machine(label: str, language: str) -> Reading:
    """The kernel's log and the counters of the control groups, under the node's name: this runs there."""
    use(language)
    with TemporaryDirectory(prefix="oomdoctor-") as folder:
        for said in answers(question for question in questions(_NOBODY) if question.looks_back):
            if not said.missing:
                Path(folder, f"{said.question.name}.txt").write_text(said.page, encoding="utf-8", errors="replace")
        found = look([folder])
        for source in found.sources:
            source.name = f"{label}/{FOLDER}/{source.name}"
        return parallel.read(found.sources)
