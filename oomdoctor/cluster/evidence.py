"""What the machine of a node still knows of the failure that its logs tell of: records that look back."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from oomdoctor.evidence.answers import answers
from oomdoctor.evidence.questions import questions
from oomdoctor.reading import Reading, parallel
from oomdoctor.sources import look

FOLDER = "evidence"
_NOBODY = {"JOB": None, "CONTAINER": None, "POD": None}


def shows_a_failure(reading: Reading) -> bool:
    """Only beside one the records of a machine mean something: it may have killed much in its time."""
    return any(event.role != "context" and event.strength >= 1 for event in reading.gathered.events.values())


def of_machine(label: str) -> Reading:
    """The kernel's log and the counters of the control groups, under the node's name."""
    with TemporaryDirectory(prefix="oomdoctor-") as folder:
        for said in answers(question for question in questions(_NOBODY) if question.looks_back):
            if not said.missing:
                Path(folder, f"{said.question.name}.txt").write_text(said.page, encoding="utf-8", errors="replace")
        found = look([folder])
        for source in found.sources:
            source.name = f"{label}/{FOLDER}/{source.name}"
        return parallel.read(found.sources)
