"""Where a message stands and who wrote it, told from its lines."""

from __future__ import annotations

from typing import Final

from oomdoctor.families.event import Place, Process
from oomdoctor.patterns import late
from oomdoctor.streams import Line, Page

SIGKILL_CODES: Final = (-9, 137)  # as Python and as a shell count it

# A training loop that goes on
PROGRESS = late(r"\d{1,3}%\||\b(?:loss|it/s|s/it)\b|(?i:\b(?:step|epoch|iter(?:ation)?)\b\W{0,4}\d)")


def place_of(page: Page, first: Line, last: Line | None = None) -> Place:
    return Place(page.file, first.number, (last or first).end, first.raw)


def process_of(line: Line, gpu: int | None = None) -> Process:
    """Who wrote the line, as its decorations say."""
    return Process(pid=line.mark.pid, name=line.mark.name, rank=line.mark.rank, node=line.mark.ip, gpu=gpu)
